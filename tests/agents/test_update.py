"""The one update that trains every algorithm: its noise, its optimizers under masks, and networks that are not due in every step."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jaxprune as jp
from jaxprune.agents.base import Network
from jaxprune.parameters import prunable_leaves
from tests.agents.small import NAMES, small_agent
from tests.agents.states import fresh_state, same
from tests.conftest import statistics_of

OPTIMIZERS = {
    "adam": optax.adam(1e-2),
    "adamw": optax.adamw(1e-2, weight_decay=0.3),
    "clipped momentum": optax.chain(optax.clip_by_global_norm(0.1), optax.sgd(0.05, momentum=0.9, nesterov=True)),
    "noisy": optax.chain(optax.add_noise(1e-2, 0.5, 0), optax.rmsprop(1e-3)),
}

# The first two under every optimizer; the update is the same code for all.
UNDER = [(name, optimizer) for name in ("bc", "bcq") for optimizer in sorted(OPTIMIZERS)]
UNDER += [(name, "noisy") for name in NAMES if name not in ("bc", "bcq")]


def started(name, spec, transitions, seed=0, **settings):
    agent = small_agent(name, spec, **settings)
    return agent, agent.init(jax.random.key(seed), statistics_of(transitions))


def plain(leaf):
    return np.array(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)


def same_bits(a, b):
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(plain(x), plain(y)), a, b)


@pytest.mark.parametrize("name", ["bc", "bcq", "td3_bc"])
def test_update_is_update_with_on_the_drawn_noise(name, spec, transitions):
    agent, state = started(name, spec, transitions)
    batch = transitions.take(np.arange(20))
    drawn = jax.jit(agent.update)(state, batch, jax.random.key(4))
    given = jax.jit(lambda s, k: agent.update_with(s, batch, agent.draw(k, 20)))(state, jax.random.key(4))
    same_bits(drawn, given)


@pytest.mark.parametrize(("name", "optimizer"), UNDER)
def test_a_masked_weight_stays_exactly_zero(name, optimizer, spec, transitions, tmp_path):
    """Pruned in the middle of training, with moments, decay, clipping and noise at work."""
    agent, state = started(name, spec, transitions, optimizer=OPTIMIZERS[optimizer])
    state, _ = jp.train(agent, state, transitions, steps=6, key=jax.random.key(0))
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


@pytest.mark.parametrize("name", ["bc", "bcq", "td3_bc"])
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


def test_a_fresh_optimizer_state_goes_on_with_the_schedule(spec, transitions):
    agent = small_agent("iql", spec)
    state = fresh_state(agent, statistics_of(transitions))
    state, _ = jp.train(agent, state, transitions, steps=7, key=jax.random.key(0))
    restarted = agent.restart_optimizers(state, ["actor"])
    moments, schedule = restarted.opt_state["actor"]
    assert (int(moments.count), int(schedule.count)) == (0, 7)
    assert not any(leaf.any() for leaf in jax.tree.leaves((moments.mu, moments.nu)))
    same(restarted.opt_state["critic"], state.opt_state["critic"])
