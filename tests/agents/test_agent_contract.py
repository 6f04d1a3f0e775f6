"""What every registered agent promises, whatever its losses."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprune as jp
from jaxprune.training.loop import train_blocks
from tests.agents.small import DISCRETE, NAMES, small_agent, small_log
from tests.conftest import statistics_of

pytestmark = pytest.mark.parametrize("name", NAMES)

# (algorithm, network): its `prepare` weighs the rows by something of the whole batch.
COUPLED = {("td3_bc", "actor")}


def started(name, spec, transitions, seed=0, **settings):
    agent = small_agent(name, spec, **settings)
    return agent, agent.init(jax.random.key(seed), statistics_of(transitions))


def plain(leaf):
    return np.array(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)


def same_bits(a, b):
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(plain(x), plain(y)), a, b)


def test_equal_agents_are_one_object_and_hash_alike(name, spec):
    agent = small_agent(name, spec)
    assert agent is small_agent(name, dataclasses.replace(spec, low=np.float32(spec.low), high=list(spec.high)))
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
    rows_of = jax.jit(lambda objective, batch, noise: objective.rows(batch, noise))
    losses_of = jax.jit(lambda objective, params, rows: objective.losses(params, rows))
    gradients_of = jax.jit(lambda o, p, rows: jax.jacrev(o.losses)(p, rows))
    mean_of = jax.jit(lambda o, p, rows: jax.grad(o)(p, rows))
    transitions = small_log(name, 12, dtype=np.float64)
    agent, state = started(name, spec, transitions)
    noise = agent.draw(jax.random.key(1), 12)
    order = np.random.default_rng(0).permutation(12)

    def part(tree, indices):
        return jax.tree.map(lambda x: x[indices], tree)

    for network in agent.order:
        objective, params = agent.objective(network, state), state.params[network]
        rows = rows_of(objective, transitions, noise)
        losses = losses_of(objective, params, rows)
        gradients = gradients_of(objective, params, rows)
        assert losses.shape == (12,)
        assert losses.dtype == np.float64
        permuted = losses_of(objective, params, rows_of(objective, part(transitions, order), part(noise, order)))
        np.testing.assert_allclose(permuted, losses[order], rtol=1e-12)
        for size in (1, 4):
            for start in range(0, 12, size):
                some = slice(start, start + size)
                prepared = part(rows, some)
                if (name, network) not in COUPLED:
                    prepared = rows_of(objective, part(transitions, some), part(noise, some))
                np.testing.assert_allclose(losses_of(objective, params, prepared), losses[some], rtol=1e-12)
                mean = mean_of(objective, params, prepared)
                jax.tree.map(lambda m, g, some=some: np.testing.assert_allclose(m, g[some].mean(0), rtol=1e-9, atol=1e-14), mean, gradients)


def test_the_loss_that_trains_is_the_objective(name, spec, transitions):
    agent, state = started(name, spec, transitions)
    batch, noise = transitions.take(np.arange(20)), agent.draw(jax.random.key(3), 20)
    first = agent.order[0]
    objective = agent.objective(first, state)
    _, metrics = jax.jit(agent.update_with)(state, batch, noise)
    expected = jax.jit(lambda o, p: o(p, o.rows(batch, noise)))(objective, state.params[first])
    np.testing.assert_allclose(metrics[f"{first}_loss"], expected, rtol=1e-5)


def test_train_leaves_the_callers_state_and_data_usable(name, spec, transitions):
    agent, state = started(name, spec, transitions)
    before = jax.tree.map(plain, state)
    trained, _ = jp.train(agent, state, transitions, steps=3, key=jax.random.key(0))
    same_bits(state, before)
    assert int(trained.step) == 3
    jp.train(agent, trained, transitions, steps=1, key=jax.random.key(0))


def test_two_calls_of_n_steps_are_one_of_2n(name, spec, transitions):
    agent, state = started(name, spec, transitions)
    key, n = jax.random.key(7), 7 * agent.period
    halfway, _ = jp.train(agent, state, transitions, steps=n, key=key)
    twice, _ = jp.train(agent, halfway, transitions, steps=n, key=key)
    once, _ = jp.train(agent, state, transitions, steps=2 * n, key=key)
    same_bits(twice, once)


def test_a_stack_of_runs_trains_each_as_if_alone(name, spec):
    with jax.enable_x64(True):
        transitions = small_log(name, 100, dtype=np.float64)
        agent, _ = started(name, spec, transitions)
        states = [agent.init(jax.random.key(seed), statistics_of(transitions)) for seed in range(3)]
        keys = [jax.random.key(10 + seed) for seed in range(3)]
        alone = [jp.train(agent, s, transitions, steps=10 * agent.period, key=k)[0] for s, k in zip(states, keys, strict=True)]
        for strategy in ("vectorized", "sequential")[: 2 if name in ("bc", "bcq") else 1]:
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


def test_acting_is_within_bounds_and_reads_raw_observations(name, spec, transitions):
    if name not in DISCRETE:
        spec = jp.Spec(4, 2, [-2.0, 0.5], [1.0, 4.0])
    agent = small_agent(name, spec)
    state = agent.init(jax.random.key(0), statistics_of(transitions))
    actions = agent.act(agent.policy(state), transitions.observations[:50] * 100, jax.random.key(0))
    if spec.discrete:
        assert (actions.shape, actions.dtype) == ((50,), np.int32)
        assert set(np.unique(actions)) <= set(range(spec.action_size))
    else:
        assert actions.shape == (50, 2)
        assert (np.asarray(actions) >= np.float32(spec.low) - 1e-6).all()
        assert (np.asarray(actions) <= np.float32(spec.high) + 1e-6).all()
    assert len(np.unique(actions, axis=0)) > 1
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
