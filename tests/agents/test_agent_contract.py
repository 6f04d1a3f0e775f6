"""What every registered agent promises, whatever its losses."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jaxprune as jp
from jaxprune.agents.base import Network
from jaxprune.parameters import prunable_leaves
from jaxprune.training.loop import train_blocks
from tests.agents.small import NAMES, small_agent
from tests.conftest import make_transitions, statistics_of

pytestmark = pytest.mark.parametrize("name", NAMES)

OPTIMIZERS = {
    "adam": optax.adam(1e-2),
    "adamw": optax.adamw(1e-2, weight_decay=0.3),
    "clipped momentum": optax.chain(optax.clip_by_global_norm(0.1), optax.sgd(0.05, momentum=0.9, nesterov=True)),
    "noisy": optax.chain(optax.add_noise(1e-2, 0.5, 0), optax.rmsprop(1e-3)),
}


def started(name, spec, transitions, seed=0, **settings):
    agent = small_agent(name, spec, **settings)
    return agent, agent.init(jax.random.key(seed), statistics_of(transitions))


def plain(leaf):
    return np.array(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)


def same_bits(a, b):
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(plain(x), plain(y)), a, b)


def test_equal_agents_are_one_object_and_hash_alike(name, spec):
    agent = small_agent(name, spec)
    assert agent is small_agent(name, jp.Spec(4, 2, np.float32([-1, -1]), [1, 1]))
    assert agent == dataclasses.replace(agent)
    assert hash(agent) == hash(dataclasses.replace(agent))
    assert agent != small_agent(name, spec, learning_rate=0.5)
    assert agent.with_widths({}) is agent


def test_an_objective_passes_through_jit_and_compiles_once_for_three_seeds(name, spec, transitions):
    batch = transitions.take(np.arange(20))
    count = 0

    def value(objective, params, batch, noise):
        nonlocal count
        count += 1
        return objective(params, objective.rows(batch, noise))

    compiled = jax.jit(value)
    for network in small_agent(name, spec).order:
        values = []
        for seed in range(3):
            agent, state = started(name, spec, transitions, seed)
            noise = agent.draw(jax.random.key(seed), 20)
            values.append(compiled(agent.objective(network, state), state.params[network], batch, noise))
        assert len({v.item() for v in values}) == 3
    assert count == len(small_agent(name, spec).order)


def test_three_seeds_and_every_length_train_in_one_compilation(name, spec, transitions):
    before = train_blocks._cache_size()
    for seed, steps in ((0, 3), (1, 5), (2, 8)):
        agent, state = started(name, spec, transitions, seed, learning_rate=1.25e-3)
        jp.train(agent, state, transitions, steps=steps * agent.period, key=jax.random.key(seed))
    assert train_blocks._cache_size() - before == 1


def test_rows_are_independent(name, spec, x64, strict):
    """Permuting, chunking and taking rows one at a time change no loss and no gradient."""
    losses_of = jax.jit(lambda objective, params, batch, noise: objective.losses(params, objective.rows(batch, noise)))
    gradients_of = jax.jit(lambda o, p, b, n: jax.jacrev(o.losses)(p, o.rows(b, n)))
    mean_of = jax.jit(lambda o, p, b, n: jax.grad(o)(p, o.rows(b, n)))
    transitions = make_transitions(12, dtype=np.float64)
    agent, state = started(name, spec, transitions)
    noise = agent.draw(jax.random.key(1), 12)
    order = np.random.default_rng(0).permutation(12)
    for network in agent.order:
        objective, params = agent.objective(network, state), state.params[network]
        losses = losses_of(objective, params, transitions, noise)
        gradients = gradients_of(objective, params, transitions, noise)
        assert losses.shape == (12,)
        assert losses.dtype == np.float64
        permuted = losses_of(objective, params, transitions.take(order), jax.tree.map(lambda x: x[order], noise))
        np.testing.assert_allclose(permuted, losses[order], rtol=1e-12)
        for size in (1, 4):
            for start in range(0, 12, size):
                part = slice(start, start + size)
                some = transitions.take(part), jax.tree.map(lambda x, part=part: x[part], noise)
                np.testing.assert_allclose(losses_of(objective, params, *some), losses[part], rtol=1e-12)
                mean = mean_of(objective, params, *some)
                jax.tree.map(lambda m, g, part=part: np.testing.assert_allclose(m, g[part].mean(0), rtol=1e-9, atol=1e-14), mean, gradients)


def test_the_loss_that_trains_is_the_objective(name, spec, transitions):
    agent, state = started(name, spec, transitions)
    batch, noise = transitions.take(np.arange(20)), agent.draw(jax.random.key(3), 20)
    first = agent.order[0]
    objective = agent.objective(first, state)
    _, metrics = jax.jit(agent.update_with)(state, batch, noise)
    expected = jax.jit(lambda o, p: o(p, o.rows(batch, noise)))(objective, state.params[first])
    np.testing.assert_allclose(metrics[f"{first}_loss"], expected, rtol=1e-5)


def test_update_is_update_with_on_the_drawn_noise(name, spec, transitions):
    agent, state = started(name, spec, transitions)
    batch = transitions.take(np.arange(20))
    drawn = jax.jit(agent.update)(state, batch, jax.random.key(4))
    given = jax.jit(lambda s, k: agent.update_with(s, batch, agent.draw(k, 20)))(state, jax.random.key(4))
    same_bits(drawn, given)


def test_train_leaves_the_callers_state_and_data_usable(name, spec, transitions):
    agent, state = started(name, spec, transitions)
    before = jax.tree.map(plain, state)
    trained, _ = jp.train(agent, state, transitions, steps=3, key=jax.random.key(0))
    same_bits(state, before)
    assert int(trained.step) == 3
    jp.train(agent, trained, transitions, steps=1, key=jax.random.key(0))


def test_two_calls_of_n_steps_are_one_of_2n(name, spec, transitions):
    agent, state = started(name, spec, transitions)
    key = jax.random.key(7)
    halfway, _ = jp.train(agent, state, transitions, steps=7, key=key)
    twice, _ = jp.train(agent, halfway, transitions, steps=7, key=key)
    once, _ = jp.train(agent, state, transitions, steps=14, key=key)
    same_bits(twice, once)


def test_a_stack_of_runs_trains_each_as_if_alone(name, spec):
    with jax.enable_x64(True):
        transitions = make_transitions(100, dtype=np.float64)
        agent, _ = started(name, spec, transitions)
        states = [agent.init(jax.random.key(seed), statistics_of(transitions)) for seed in range(3)]
        keys = [jax.random.key(10 + seed) for seed in range(3)]
        alone = [jp.train(agent, s, transitions, steps=10 * agent.period, key=k)[0] for s, k in zip(states, keys, strict=True)]
        for strategy in ("vectorized", "sequential"):
            stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
            together, _ = train_blocks(
                agent,
                stacked,
                jnp.stack(keys),
                transitions,
                jnp.int32(10),
                batch_size=agent.config.batch_size,
                span=agent.period,
                stacked=strategy,
            )
            for i in range(3):
                for a, b in zip(jax.tree.leaves(together.params), jax.tree.leaves(alone[i].params), strict=True):
                    assert np.linalg.norm(a[i] - b) <= 1e-9 * np.linalg.norm(b)


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
def test_a_masked_weight_stays_exactly_zero(name, optimizer, spec, transitions, tmp_path):
    """Pruned in the middle of training, with moments, decay, clipping and noise at work."""
    agent, state = started(name, spec, transitions, optimizer=OPTIMIZERS[optimizer])
    state, _ = jp.train(agent, state, transitions, steps=5, key=jax.random.key(0))
    state, info = jp.prune_agent(agent, state, transitions, jax.random.key(1), criterion="snip", sparsity=0.8)
    assert info.kept < info.total
    state, _ = jp.train(agent, state, transitions, steps=12, key=jax.random.key(0))
    jp.save_run(tmp_path / "run", agent, state, {})
    _, restored = jp.load_run(tmp_path / "run", agent=agent)
    same_bits(restored, state)
    for tree in (state, restored):
        checked = 0
        for networks in (tree.params, tree.targets, agent.policy(tree).params):
            for network, params in networks.items():
                for leaf, mask in zip(jax.tree.leaves(params), jax.tree.leaves(tree.masks[network]), strict=True):
                    removed = np.asarray(leaf)[~np.asarray(mask)]
                    assert not removed.any()
                    assert not np.signbit(removed).any()
                    checked += removed.size
        assert checked > 0
    kept = sum(int((np.asarray(leaf) != 0).sum()) for leaf in prunable_leaves(state.params).values())
    assert kept >= 0.99 * info.kept


def test_acting_is_within_bounds_and_reads_raw_observations(name, transitions):
    low, high = [-2.0, 0.5], [1.0, 4.0]
    agent = small_agent(name, jp.Spec(4, 2, low, high))
    state = agent.init(jax.random.key(0), statistics_of(transitions))
    actions = agent.act(agent.policy(state), transitions.observations[:50] * 100, jax.random.key(0))
    assert actions.shape == (50, 2)
    assert (np.asarray(actions) >= np.float32(low) - 1e-6).all()
    assert (np.asarray(actions) <= np.float32(high) + 1e-6).all()
    shifted = state.replace(statistics=state.statistics.replace(mean=state.statistics.mean + 5))
    moved = agent.act(agent.policy(shifted), transitions.observations[:50] * 100 + 5, jax.random.key(0))
    np.testing.assert_allclose(moved, actions, atol=1e-4)


def test_without_normalisation_statistics_are_the_identity(name, spec, transitions):
    _, state = started(name, spec, transitions, normalize=False)
    assert not np.asarray(state.statistics.mean).any()
    assert (np.asarray(state.statistics.std) == 1).all()


def test_targets_start_equal_and_share_no_buffer(name, spec, transitions):
    agent, state = started(name, spec, transitions)
    for network in agent.targets:
        for a, b in zip(jax.tree.leaves(state.params[network]), jax.tree.leaves(state.targets[network]), strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.unsafe_buffer_pointer() != b.unsafe_buffer_pointer()


def test_delayed_updates_are_the_same_with_and_without_a_known_phase(name, spec, transitions):
    """`every` and `target_every`, decided while tracing or by lax.cond; updates are due at step + 1 = every, 2·every, …"""
    usual, state = started(name, spec, transitions)
    last = usual.order[-1]
    networks: dict[str, Network] = {**usual.networks, last: dataclasses.replace(usual.networks[last], every=2)}
    agent = dataclasses.replace(usual, name=f"{name}-delayed", networks=networks)
    assert agent.period == 2
    traced, static = state, state
    by_cond, by_phase = jax.jit(agent.update_with), jax.jit(agent.update_with, static_argnames="phase")
    for t in range(4):
        batch, noise = transitions.take(np.arange(t, t + 20)), agent.draw(jax.random.key(t), 20)
        after, metrics = by_cond(traced, batch, noise)
        known, reported = by_phase(static, batch, noise, phase=t % 2)
        changed = any(
            (a != b).any() for a, b in zip(jax.tree.leaves(after.params[last]), jax.tree.leaves(traced.params[last]), strict=True)
        )
        assert changed == (t % 2 == 1)
        assert bool(np.isnan(metrics[f"{last}_loss"])) == (not changed)
        assert (f"{last}_loss" in reported) == changed
        for a, b in zip(jax.tree.leaves(after.params), jax.tree.leaves(known.params), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-6)
        traced, static = after, known
    halfway, _ = jp.train(agent, state, transitions, steps=2, key=jax.random.key(1))
    twice, _ = jp.train(agent, halfway, transitions, steps=3, key=jax.random.key(1))
    once, metrics = jp.train(agent, state, transitions, steps=5, key=jax.random.key(1))
    for a, b in zip(jax.tree.leaves(twice.params), jax.tree.leaves(once.params), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)
    assert {f"{network}_loss" for network in agent.order} <= set(metrics)
    assert all(np.isfinite(value) for value in metrics.values())
