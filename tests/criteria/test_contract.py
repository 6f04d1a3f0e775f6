"""What every criterion must do for every network of every agent. The lists are the registries': a new entry is tested by itself."""

import dataclasses
import functools
import inspect
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxprune.agents.registry import AGENTS, make
from jaxprune.criteria import CRITERIA, UNIT_CRITERIA
from jaxprune.criteria.registry import REVIVING
from jaxprune.data.transitions import Spec, Statistics, Transitions
from jaxprune.parameters import prunable_leaves, prunable_size
from jaxprune.pruning.masks import kept_count, select
from jaxprune.pruning.prune import mask_from_scores, prune, score
from jaxprune.pruning.schedules import kept_after

pytestmark = pytest.mark.usefixtures("strict")

BATCH, SPEC, DISCRETE = 12, Spec(5, 2, (-1.0, -2.0), (1.0, 2.0)), Spec(5, 3, (), (), discrete=True)
SMALL = {"hidden": (7, 6), "vae_hidden": (7, 6), "init": "reference"}
# Options under which a criterion is cheap to test.
OPTIONS: dict[str, Any] = {
    name: {"samples": 2} for name, function in CRITERIA.items() if "samples" in inspect.signature(function).parameters
}


@functools.cache
def agent_state(name):
    known = {field.name for field in dataclasses.fields(AGENTS[name][1])}
    spec = DISCRETE if name.startswith("discrete_") else SPEC
    agent = make(name, spec, **{key: value for key, value in SMALL.items() if key in known})
    return agent, agent.init(jax.random.key(0), Statistics(np.zeros(5, np.float32), np.ones(5, np.float32)))


@functools.cache
def network_of(name, network, seed=0):
    """Objective, parameters and rows of one network."""
    agent, state = agent_state(name)
    keys = jax.random.split(jax.random.key(seed), 6)
    continuous = jax.random.uniform(keys[1], (BATCH, 2), minval=-1.0)
    batch = Transitions(
        observations=jax.random.normal(keys[0], (BATCH, 5)),
        actions=jax.random.randint(keys[1], (BATCH,), 0, 3) if agent.spec.discrete else continuous,
        rewards=jax.random.normal(keys[2], (BATCH,)),
        next_observations=jax.random.normal(keys[3], (BATCH, 5)),
        discounts=jnp.ones(BATCH),
    )
    objective = agent.objective(network, state)
    return objective, state.params[network], jax.jit(objective.rows)(batch, agent.draw(keys[4], BATCH))


def networks():
    return [(name, network) for name in AGENTS for network in agent_state(name)[0].order]


CASES = [(criterion, *network) for criterion in CRITERIA for network in networks()]
FEW = [(criterion, *networks()[0]) for criterion in CRITERIA]


def scored(criterion, name, network, *, masks=None, seed=0):
    objective, params, rows = network_of(name, network, seed)
    return score(objective, params, rows, jax.random.key(1), criterion=criterion, masks=masks, **OPTIONS.get(criterion, {}))


def kernels(tree):
    return np.concatenate([np.ravel(leaf) for leaf in prunable_leaves(tree).values()])


@pytest.mark.parametrize(("criterion", "name", "network"), CASES)
def test_scores(criterion, name, network):
    _, params, _ = network_of(name, network)
    before = [np.array(leaf).tobytes() for leaf in jax.tree.leaves(params)]
    scores = scored(criterion, name, network)
    assert jax.tree.structure(scores) == jax.tree.structure(params)
    assert jax.tree.map(jnp.shape, scores) == jax.tree.map(jnp.shape, params)
    assert jax.tree.map(lambda leaf: leaf.dtype, scores) == jax.tree.map(lambda leaf: leaf.dtype, params)
    assert np.isfinite(kernels(scores)).all()
    assert len(set(kernels(scores).tolist())) > 10
    again = scored(criterion, name, network)
    assert [np.array(leaf).tobytes() for leaf in jax.tree.leaves(again)] == [np.array(leaf).tobytes() for leaf in jax.tree.leaves(scores)]
    assert [np.array(leaf).tobytes() for leaf in jax.tree.leaves(params)] == before
    n = prunable_size(params)
    for sparsity in (0, 0.5, 0.95, 1):
        masks = mask_from_scores(scores, {"": kept_count(sparsity, n)})
        assert kernels(masks).sum() == kept_count(sparsity, n)


@pytest.mark.parametrize(("criterion", "name", "network"), FEW)
def test_rounds(criterion, name, network):
    objective, params, rows = network_of(name, network)
    history = []
    for rounds in (1, 2, 3):
        # A prefix of the three-round schedule: counts as published, scores under the masks so far.
        sparsity = 1 - kept_after(0.9, prunable_size(params), rounds=3)[rounds - 1] / prunable_size(params)
        before = history[-1] if history and criterion not in REVIVING else None
        history.append(
            prune(
                objective,
                params,
                rows,
                jax.random.key(1),
                criterion=criterion,
                sparsity=sparsity,
                masks=before,
                **OPTIONS.get(criterion, {}),
            )
        )
    direct = prune(objective, params, rows, jax.random.key(1), criterion=criterion, sparsity=0.9, rounds=3, **OPTIONS.get(criterion, {}))
    assert [kernels(masks).sum() for masks in history] == kept_after(0.9, prunable_size(params), rounds=3)
    assert kernels(direct).sum() == kept_count(0.9, prunable_size(params))
    if criterion not in REVIVING:
        assert all(not (kernels(later) & ~kernels(earlier)).any() for earlier, later in itertools.pairwise(history))


@pytest.mark.parametrize(("criterion", "name", "network"), FEW)
def test_masked_network_is_what_is_scored(criterion, name, network):
    objective, params, rows = network_of(name, network)
    masks = mask_from_scores(scored("magnitude", name, network), {"": prunable_size(params) // 2})
    zeroed = jax.tree.map(lambda p, m: jnp.where(m, p, jnp.zeros((), p.dtype)), params, masks)
    given = kernels(scored(criterion, name, network, masks=masks))
    options = OPTIONS.get(criterion, {})
    alone = kernels(score(objective, zeroed, rows, jax.random.key(1), criterion=criterion, **options))
    kept = kernels(masks)
    if criterion not in ("grasp", "crop"):  # whose gradient flow through removed weights is no longer counted
        np.testing.assert_allclose(given[kept], alone[kept], rtol=1e-5, atol=1e-7)
    assert np.isfinite(given).all()


@pytest.mark.parametrize(("criterion", "name", "network"), FEW)
def test_seeds_and_sparsities_by_vmap_in_one_compilation(criterion, name, network):
    objective, params, rows = network_of(name, network)
    n = prunable_size(params)
    traces = []

    @jax.jit
    def grid(stack, rows, keys, keeps):
        traces.append(1)

        def one(params, key, keep):
            scores = CRITERIA[criterion](objective, params, rows, key, **OPTIONS.get(criterion, {}))
            return select(prunable_leaves(scores), keep)

        return jax.vmap(lambda p, k: jax.vmap(one, in_axes=(None, None, 0))(p, k, keeps))(stack, keys)

    agent, _ = agent_state(name)
    seeds = jax.random.split(jax.random.key(5), 3)
    stack = jax.vmap(agent.networks[network].init)(seeds)
    for sparsities in ((0.0, 0.5), (0.9, 1.0)):
        counts = [kept_count(sparsity, n) for sparsity in sparsities]
        masks = grid(stack, rows, seeds, jnp.array(counts, jnp.int32))
        got = sum(np.asarray(leaf).sum(axis=tuple(range(2, leaf.ndim))) for leaf in masks.values())
        np.testing.assert_array_equal(got, [counts] * 3)
    assert len(traces) == 1


@pytest.mark.parametrize("criterion", CRITERIA)
def test_one_compilation_serves_parameters_rows_and_sparsities(criterion):
    objective, params, rows = network_of(*networks()[0])
    traces = []

    def predict(params, rows, context):
        traces.append(1)
        return objective.predict(params, rows, context)

    counted = objective.replace(predict=predict)
    key, options = jax.random.key(0), OPTIONS.get(criterion, {})
    prune(counted, params, rows, key, criterion=criterion, sparsity=0.5, **options)
    first = len(traces)
    other = jax.tree.map(lambda leaf: leaf * 1.5, params)
    for sparsity in (0.1, 0.9, 0.95):
        prune(counted, other, network_of(*networks()[0], seed=1)[2], key, criterion=criterion, sparsity=sparsity, **options)
    assert len(traces) == first


@pytest.mark.parametrize("criterion", ["lm", "obd", "qm"])
def test_one_compilation_serves_every_step_penalty(criterion):
    objective, params, rows = network_of(*networks()[0])
    traces = []

    def predict(params, rows, context):
        traces.append(1)
        return objective.predict(params, rows, context)

    counted = objective.replace(predict=predict)
    plain = kernels(CRITERIA[criterion](objective, params, rows))
    wrapped = functools.wraps(CRITERIA[criterion])(lambda *args, **keywords: CRITERIA[criterion](*args, **keywords))
    for given in (criterion, CRITERIA[criterion], wrapped):
        score(counted, params, rows, criterion=given, lambda_=0.0)
        first = len(traces)
        for value in (1.0, 2.5, 1e6):
            scores = kernels(score(counted, params, rows, criterion=given, lambda_=value))
            np.testing.assert_allclose(scores, plain + np.float32(value) / 2 * kernels(params) ** 2, rtol=1e-5, atol=1e-9)
        assert len(traces) == first
    penalties = jnp.array([0.0, 3.0])
    grid = jax.jit(jax.vmap(lambda value: prune(objective, params, rows, criterion=criterion, sparsity=0.7, lambda_=value)))(penalties)
    for i, value in enumerate(penalties):
        alone = prune(objective, params, rows, criterion=criterion, sparsity=0.7, lambda_=float(value))
        np.testing.assert_array_equal(kernels(jax.tree.map(lambda leaf, i=i: leaf[i], grid)), kernels(alone))


def test_options_of_a_criterion_of_ones_own_stay_python_numbers():
    objective, params, rows = network_of(*networks()[0])

    def mine(objective, params, rows, key=None, *, masks=None, lambda_=0.0, power=1.0):
        return jax.tree.map(lambda leaf: jnp.abs(leaf) if lambda_ > power else -jnp.abs(leaf), params)

    largest, smallest = (kernels(prune(objective, params, rows, criterion=mine, sparsity=0.5, lambda_=value)) for value in (2.0, 0.0))
    assert (largest & smallest).sum() == 2 * kept_count(0.5, largest.size) - largest.size


@pytest.mark.parametrize(("criterion", "name", "network"), FEW)
def test_a_field_the_objective_lacks_is_named(criterion, name, network):
    objective, params, rows = network_of(name, network)
    needs = {"synflow": "signal", "obd": "predict", "qm": "predict"}
    if criterion in needs:
        with pytest.raises(ValueError, match=f"'{needs[criterion]}'"):
            prune(lambda params, rows: objective(params, rows), params, rows, jax.random.key(0), criterion=criterion)
    else:
        masks = prune(lambda params, rows: objective(params, rows), params, rows, jax.random.key(0), criterion=criterion, sparsity=0.5)
        assert kernels(masks).sum() == kept_count(0.5, prunable_size(params))


@pytest.mark.parametrize("criterion", UNIT_CRITERIA)
@pytest.mark.parametrize(("name", "network"), networks())
def test_unit_scores(criterion, name, network):
    agent, _ = agent_state(name)
    objective, params, rows = network_of(name, network)
    groups = agent.groups(network)

    @jax.jit
    def units(params, rows, key):
        return UNIT_CRITERIA[criterion](objective, params, groups, rows, key)

    scores = units(params, rows, jax.random.key(0))
    assert set(scores) == {group.name for group in groups}
    for group in groups:
        assert scores[group.name].shape == ((group.members, group.size) if group.members else (group.size,))
        assert np.isfinite(scores[group.name]).all()
        assert (np.asarray(scores[group.name]) >= 0).all()
        assert len(set(np.ravel(scores[group.name]).tolist())) > 2
    jax.tree.map(np.testing.assert_array_equal, scores, units(params, rows, jax.random.key(0)))
