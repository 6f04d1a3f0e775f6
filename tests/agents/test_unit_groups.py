"""Finds any network whose unit groups are declared wrongly: removing a unit equals zeroing it.

With an activation that maps zero to zero, a unit outputs nothing if what makes it is zero, and adds nothing if what reads it is zero. So
the outputs are the same with the declared producers zeroed, the declared consumers zeroed, and the unit cut out of all arrays.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxprune.agents.compact import change_units, resized
from jaxprune.parameters import named_leaves
from jaxprune.pruning.unit_layout import as_declared, per_member
from tests.agents.small import NAMES, small_agent, small_log
from tests.agents.states import filled, fresh_state
from tests.conftest import make_transitions, statistics_of

outputs_of = jax.jit(lambda objective, params, rows: objective.outputs(params, rows))


def zeroed(params, group, unit, ends):
    """The unit's slices of the given arrays set to zero, in every member."""
    leaves = {name: np.array(leaf) for name, leaf in named_leaves(params).items()}
    for path, axis, *offset in ends:
        index = [slice(None)] * leaves[path].ndim
        index[axis] = unit + (offset[0] if offset else 0)
        leaves[path][tuple(index)] = 0
    structure = jax.tree.structure(params)
    return structure.unflatten([jnp.asarray(leaves[name]) for name in named_leaves(params)])


def close(a, b):
    return all(
        np.abs(x - y).max() <= 1e-12 * (np.abs(x).max() + 1e-300) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )


def wrong_groups(agent, state, batch):
    """Names of the unit groups for which removing a unit is not zeroing it."""
    wrong = []
    for name in agent.order:
        objective = agent.objective(name, state)
        rows = jax.jit(lambda o, b: o.rows(b, agent.draw(jax.random.key(0), 8)))(objective, batch)
        params = state.params[name]
        dense = outputs_of(objective, params, rows)
        for group in agent.groups(name):
            assert not np.asarray(group.activation(jnp.zeros(1))).any(), "for other activations this test needs the constant"
            changed = False
            for unit in range(group.size):
                makes, reads = (
                    outputs_of(objective, zeroed(params, group, unit, ends), rows) for ends in (group.producers, group.consumers)
                )
                if not close(makes, reads):
                    wrong.append(f"{name}/{group.name}")
                    break
                changed = changed or not close(makes, dense)
            else:
                assert changed, f"{name}/{group.name}: no unit has any effect"
    return wrong


def bounded(agent, state):
    """Random biases, and weights of a size that saturates nothing."""
    state = filled(agent, state)
    return dataclasses.replace(state, params=jax.tree.map(lambda x: 0.3 * x, state.params))


@pytest.mark.parametrize("name", NAMES)
def test_every_unit_of_every_group(name, spec, x64):
    transitions = small_log(name, 8)
    agent = small_agent(name, spec)
    state = bounded(agent, fresh_state(agent, statistics_of(transitions)))
    assert wrong_groups(agent, state, transitions) == []

    for network in agent.order:
        groups = agent.groups(network)
        units = {g.name: as_declared(g, np.delete(np.tile(np.arange(g.size), (max(1, g.members), 1)), 2, axis=1)) for g in groups}
        full = {n: {g.name: np.asarray(state.units[n][g.name]) for g in agent.groups(n)} for n in agent.order}
        smaller = resized(agent, {f"{network}/{g.name}": g.size - 1 for g in groups})
        _, cut = change_units(agent, state, smaller, full | {network: units})
        params = state.params[network]
        for group in groups:
            assert per_member(group, cut.units[network][group.name]).shape[1] == group.size - 1
            params = zeroed(params, group, 2, group.consumers)
        rows = jax.jit(lambda o: o.rows(transitions, agent.draw(jax.random.key(0), 8)))(agent.objective(network, state))
        expected = outputs_of(agent.objective(network, state), params, rows)
        assert close(expected, outputs_of(smaller.objective(network, cut), cut.params[network], rows))


@pytest.mark.parametrize("mistake", ["no bias", "another layer reads", "offset", "axis"])
def test_it_finds_mistakes(mistake, spec, x64):
    transitions = make_transitions(8)
    agent = small_agent("bc", spec, hidden=(6, 6, 6))
    state = bounded(agent, fresh_state(agent, statistics_of(transitions)))
    network = agent.networks["policy"]
    good = network.groups[1]
    bad = {
        "no bias": {"producers": tuple(p for p in good.producers if not p[0].endswith("bias"))},
        "another layer reads": {"consumers": network.groups[0].consumers},
        "offset": {"size": 5, "consumers": ((good.consumers[0][0], 0, 1),)},
        "axis": {"producers": (("Dense_1/kernel", 0), ("Dense_1/bias", 0))},
    }[mistake]
    groups = (network.groups[0], dataclasses.replace(good, **bad), *network.groups[2:])
    wrong = dataclasses.replace(agent, name=f"bc {mistake}", networks={"policy": dataclasses.replace(network, groups=groups)})
    assert wrong_groups(wrong, state, transitions) == [f"policy/{good.name}"]
