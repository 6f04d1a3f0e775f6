"""A compacted agent computes the same, trains the same, and expands to what it was."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jaxprune as jp
from jaxprune.agents.compact import compact, compact_runs, expand, full_sizes, live_widths
from jaxprune.agents.inert import leave_out_inert
from jaxprune.agents.moments import moments_of
from jaxprune.training.loop import train_blocks
from tests.agents.small import NAMES, small_agent, small_log
from tests.agents.states import agree, filled, fresh_state, plain, same, with_random_masks
from tests.conftest import statistics_of

double: Any = np.float64

OPTIMIZERS = {
    "adam": lambda: optax.adam(1e-2),
    "clipped momentum": lambda: optax.chain(optax.clip_by_global_norm(0.1), optax.sgd(0.05, momentum=0.9, nesterov=True)),
    "noise": lambda: optax.chain(optax.add_noise(1e-2, 0.5, 0), optax.rmsprop(1e-3)),
    "accumulated": lambda: optax.MultiSteps(optax.adamw(optax.linear_schedule(1e-2, 1e-3, 9), weight_decay=0.1), 2),
    "injected": lambda: optax.inject_hyperparams(optax.adam)(learning_rate=1e-3),
    "factored": lambda: optax.adafactor(1e-3, min_dim_size_to_factor=4),
    "biases frozen": lambda: optax.multi_transform(
        {"kernel": optax.adam(1e-3), "bias": optax.set_to_zero()},
        lambda params: jax.tree_util.tree_map_with_path(lambda path, _: path[-1].key, params),
    ),
}


def started(name, spec, transitions, density=0.1, seed=0, **settings):
    """Pruned at random at initialisation, which compiles nothing."""
    agent = small_agent(name, spec, **settings)
    return agent, with_random_masks(agent, fresh_state(agent, statistics_of(transitions)), density, seed)


def programs_compiled() -> int:
    return getattr(train_blocks, "_cache_size")()  # noqa: B009 - not in jax's type stubs


@pytest.mark.parametrize(
    ("name", "criterion"),
    [(name, criterion) for name in NAMES for criterion in {"bc": sorted(jp.CRITERIA), "bcq": ("random", "grasp", "crop")}.get(name, ())]
    + [(name, "snip") for name in NAMES if name != "bc"],
)
def test_same_outputs_and_back(name, criterion, spec, transitions):
    agent = small_agent(name, spec)
    state = fresh_state(agent, statistics_of(transitions))
    state, _ = jp.prune_agent(agent, state, transitions, jax.random.key(1), criterion=criterion, sparsity=0.9)
    state = filled(agent, state)
    small, compacted = compact(agent, state, multiple=1)
    assert all(width < full_sizes(agent)[group] for group, width in small.widths)
    assert compacted.total is state.total
    agree(agent, state, small, compacted, 2e-6)
    again, twice = compact(small, compacted, multiple=1)
    assert again is small
    assert twice is compacted
    full, expanded = expand(small, compacted)
    assert full is agent
    assert jax.tree.structure(expanded) == jax.tree.structure(state)
    agree(agent, state, full, expanded, 2e-6)
    same(expanded.units, state.units)
    for network in agent.order:
        masks = jax.tree.leaves(expanded.masks[network])
        for before, now in zip(jax.tree.leaves(state.masks[network]), masks, strict=True):
            assert not (np.asarray(now) & ~np.asarray(before)).any()
        optimizer = agent.networks[network].optimizer
        moments = [moments_of(optimizer, s.opt_state[network], s.params[network]) for s in (state, expanded)]
        kept = dict(zip([name for name, _ in moments[0][: len(masks)]], masks, strict=True))
        for (owner, before), (_, now) in zip(*moments, strict=True):
            np.testing.assert_array_equal(now, np.where(kept[owner], before, 0))
        for before, now, mask in zip(*(jax.tree.leaves(s.params[network]) for s in (state, expanded)), masks, strict=True):
            if np.asarray(before).ndim > (2 if agent.networks[network].members else 1):
                np.testing.assert_array_equal(now, np.where(mask, before, 0))
            assert not np.asarray(now)[~np.asarray(mask)].any()


@pytest.mark.parametrize("name", NAMES)
def test_in_64_bit(name, spec, x64):
    transitions = small_log(name, dtype=double)
    agent = small_agent(name, spec)
    state = fresh_state(agent, statistics_of(transitions))
    for seed in range(5):
        masked = filled(agent, with_random_masks(agent, state, 0.15, seed), seed)
        small, compacted = compact(agent, masked, multiple=4)
        agree(agent, masked, small, compacted, 1e-12)
        agree(agent, masked, *expand(small, compacted), 1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_dense_agent_is_left_alone(name, spec, transitions):
    agent = small_agent(name, spec)
    state = fresh_state(agent, statistics_of(transitions))
    small, compacted = compact(agent, state)
    assert small is agent
    assert compacted is state
    assert expand(agent, state)[1] is state


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
def test_any_optimizer_goes_on_after_compaction(optimizer, spec, transitions):
    agent, state = started("bc", spec, transitions, optimizer=OPTIMIZERS[optimizer]())
    state = filled(agent, state)
    small, compacted = compact(agent, state)
    fresh = jax.eval_shape(small.networks["policy"].optimizer.init, compacted.params["policy"])
    assert jax.tree.map(jnp.shape, compacted.opt_state["policy"]) == jax.tree.map(jnp.shape, fresh)
    back = expand(small, compacted)[1]
    assert jax.tree.map(jnp.shape, back.opt_state) == jax.tree.map(jnp.shape, state.opt_state)
    _, trained = expand(small, jp.train(small, compacted, transitions, steps=2, key=jax.random.key(0))[0])
    for leaf, mask in zip(jax.tree.leaves(trained.params), jax.tree.leaves(trained.masks), strict=True):
        assert np.isfinite(leaf).all()
        assert not np.asarray(leaf)[~np.asarray(mask)].any()


def test_a_compacted_agent_acts_alike_and_is_saved(spec, transitions, tmp_path):
    agent, state = started("bc", spec, transitions)
    small, compacted = jp.compact(agent, filled(agent, state))
    observations, key = transitions.observations[:30], jax.random.key(0)
    expected = agent.act(agent.policy(filled(agent, state)), observations, key)
    np.testing.assert_allclose(small.act(small.policy(compacted), observations, key), expected, atol=1e-5)
    jp.save_run(tmp_path / "run", small, compacted, {})
    restored_agent, restored = jp.load_run(tmp_path / "run")
    assert restored_agent is small
    same(restored, compacted)


def test_runs_are_stacked_at_the_largest_widths(spec, transitions):
    agent, first = started("bcq", spec, transitions)
    _, second = started("bcq", spec, transitions, density=0.2, seed=1)
    widths = [live_widths(agent, s, multiple=1) for s in (first, second)]
    assert any(widths[0][g] < widths[1][g] for g in widths[0])
    already, smaller = compact(agent, first, multiple=1)
    common, states = compact_runs([(already, smaller), (agent, second)], multiple=1)
    assert dict(common.widths) == {g: max(w[g] for w in widths) for g in widths[0] if max(w[g] for w in widths) < full_sizes(agent)[g]}
    jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    for before, now in zip((first, second), states, strict=True):
        agree(agent, before, common, now, 2e-6)
        same(expand(common, now)[1].masks, expand(*compact(agent, before, multiple=1))[1].masks)
    with pytest.raises(ValueError, match="one algorithm"):
        compact_runs([(agent, first), (small_agent("bc", spec), first)])


@pytest.mark.parametrize("name", NAMES)
def test_training_in_smaller_arrays_is_masked_training(name, spec):
    """200 updates in 64-bit to 1e-8, 20 in float32 to 1e-4, from networks pruned at initialisation."""
    for dtype, steps, tolerance in ((double, 200, 1e-8), *([(np.float32, 20, 1e-4)] if name in ("bc", "bcq") else [])):
        with jax.enable_x64(dtype == double):
            transitions = small_log(name, dtype=dtype)
            agent, state = started(name, spec, transitions, density=0.2)
            key = jax.random.key(3)
            masked, expected = jp.train(agent, state, transitions, steps=steps, key=key, compact=False)
            programs = programs_compiled()
            now, metrics = jp.train(agent, state, transitions, steps=steps, key=key)
            assert programs_compiled() == programs + 1, "nothing was left out"
            small, compacted = jp.compact(agent, state)
            other, _ = expand(small, jp.train(small, compacted, transitions, steps=steps, key=key)[0])
            assert programs_compiled() == programs + 1, "jp.compact gave other widths"
            assert other is agent
            assert jax.tree.structure(now) == jax.tree.structure(masked)
            for a, b in zip(jax.tree.leaves((now.params, now.targets)), jax.tree.leaves((masked.params, masked.targets)), strict=True):
                assert np.linalg.norm(a - b) <= tolerance * np.linalg.norm(b)
            for metric, value in expected.items():
                np.testing.assert_allclose(metrics[metric], value, rtol=100 * tolerance)
            same((now.masks, now.units, now.total, now.step), (state.masks, state.units, state.total, masked.step))


@pytest.mark.parametrize("name", NAMES)
def test_two_calls_of_a_pruned_agent_are_one(name, spec, transitions):
    """Pruned in the middle of training, when biases and moments are not zero."""
    agent, state = started(name, spec, transitions)
    state, key = filled(agent, state), jax.random.key(7)
    before = jax.tree.map(lambda x: plain(x).copy(), state)
    halfway, _ = jp.train(agent, state, transitions, steps=4, key=key)
    same(state, before)
    twice, _ = jp.train(agent, halfway, transitions, steps=4, key=key)
    once, _ = jp.train(agent, state, transitions, steps=8, key=key)
    same(twice, once)


def test_no_dense_optimizer_state_is_needed(spec, transitions):
    agent = small_agent("bc", spec)
    dense, bare = (agent.init(jax.random.key(0), statistics_of(transitions), optimizers=flag) for flag in (True, False))
    assert not bare.opt_state
    results = []
    for state in (dense, bare):
        pruned, _ = jp.prune_agent(agent, state, transitions, jax.random.key(1), sparsity=0.9)
        small, compacted = jp.compact(agent, pruned)
        results.append(compacted if state is dense else small.restart_optimizers(compacted))
    same(*results)


def test_an_agent_changed_by_hand_is_not_replaced_by_another(spec, transitions):
    agent, state = started("bc", spec, transitions)
    by_hand = dataclasses.replace(agent, name="bc by hand")
    assert leave_out_inert(agent, state)[0] is not agent
    same_agent, same_state, _ = leave_out_inert(by_hand, state)
    assert same_agent is by_hand
    assert same_state is state
    with pytest.raises(ValueError, match="bc by hand: with_widths builds another agent, bc"):
        compact(by_hand, state)
