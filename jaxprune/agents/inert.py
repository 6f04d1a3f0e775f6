"""Leaving out the units that no update can move: training in smaller arrays, along the same path."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxprune.agents.base import Agent, AgentState
from jaxprune.agents.compact import UnitChange, Units, change_units, lane_width, resizable, resized
from jaxprune.agents.moments import elementwise, map_moments, moments_of, owners
from jaxprune.parameters import named_leaves
from jaxprune.pruning.compaction import live_units, original_positions, packed_units
from jaxprune.pruning.unit_layout import as_declared, is_bias, map_named, per_member


@functools.cache
def _flat_at_zero(activation: Callable[[jax.Array], jax.Array]) -> bool:
    """act(0) = act′(0) = 0."""
    value, slope = jax.value_and_grad(lambda x: activation(x))(jnp.zeros(()))
    return not value and not slope


def still_units(agent: Agent, state: AgentState, name: str) -> dict[str, np.ndarray]:
    """Units which, having no live input, output zero and will: bool {group: [units] or [members, units]}.

    Their biases, those of the target and the biases' moments are exactly 0.0, and the activation is zero and flat there: no gradient ever
    reaches them.
    """
    network = agent.networks[name]
    trees = [list(named_leaves(tree[name]).items()) for tree in (state.params, state.targets) if name in tree]
    if name in state.opt_state:
        trees.append(moments_of(network.optimizer, state.opt_state[name], state.params[name]))
    still = {}
    for group in network.groups:
        biases = {path for path, _ in group.producers if is_bias(path)}
        own = np.full((group.members, group.size) if group.members else (group.size,), _flat_at_zero(group.activation))
        for path, leaf in (pair for tree in trees for pair in tree):
            if path in biases:
                own = own & (np.asarray(leaf) == 0)
        still[group.name] = own
    return still


def leave_out_inert(
    agent: Agent, state: AgentState, *, multiple: int | None = None
) -> tuple[Agent, AgentState, Callable[[AgentState], AgentState]]:
    """A smaller agent that trains along the same path, and the function that puts a state of it back into the arrays given.

    Left out are units without a live output, and units without a live input whose constant is zero and stays zero. Nothing is left out of a
    state whose optimizer keeps arrays of another shape than its parameters, nor of an agent that `with_widths` would not build.

    Args:
      agent: the algorithm, dense or compacted before.
      state: of one run, on concrete arrays; it is not changed.
      multiple: what widths are rounded up to; by default `lane_width()`.

    Returns:
      The agent, the state, and put_back: state -> state at the sizes given, with the masks given; what was left out has the values it had.
      All as given, and put_back the identity, where no array would be smaller.
    """
    if not resizable(agent):
        return agent, state, lambda trained: trained
    for name, network in agent.networks.items():
        if name in state.opt_state and not elementwise(network.optimizer, state.opt_state[name], state.params[name]):
            return agent, state, lambda trained: trained
    chosen: Units = {}
    for name in agent.order:
        groups = agent.groups(name)
        live, _ = live_units(state.masks[name], groups, may_fold=still_units(agent, state, name))
        chosen[name] = packed_units(live, groups, multiple=lane_width() if multiple is None else multiple)
    widths = {f"{name}/{group}": units.shape[-1] for name, by_group in chosen.items() for group, units in by_group.items()}
    if widths == {f"{name}/{group.name}": group.size for name in agent.order for group in agent.groups(name)}:
        return agent, state, lambda trained: trained
    smaller, inner = change_units(agent, state, resized(agent, widths), chosen)
    return smaller, inner, functools.partial(_put_back, agent, state, smaller, chosen)


def _put_back(agent: Agent, before: AgentState, smaller: Agent, chosen: Units, trained: AgentState) -> AgentState:
    params, targets, opt_state = dict(trained.params), dict(trained.targets), dict(trained.opt_state)
    for name in agent.order:
        back = {
            group.name: as_declared(group, original_positions(per_member(group, chosen[name][group.name]), group.size))
            for group in agent.groups(name)
        }
        change = UnitChange(smaller.groups(name), back)
        present = named_leaves(change.tree(jax.tree.map(lambda leaf: np.ones(leaf.shape, bool), trained.params[name])))

        def onto(path: str, new: Any, old: Any, present: Any = present) -> jax.Array:
            return jax.device_put(np.where(np.asarray(present[path]), np.asarray(new), np.asarray(old)))

        params[name] = map_named(onto, change.tree(params[name]), before.params[name])
        if name in targets:
            targets[name] = map_named(onto, change.tree(targets[name]), before.targets[name])
        if name in opt_state:
            optimizer = agent.networks[name].optimizer
            moved = map_moments(optimizer, change.leaf, opt_state[name], trained.params[name])
            owner = owners(optimizer, before.opt_state[name], before.params[name])
            opt_state[name] = jax.tree.map(
                lambda path, new, old, onto=onto: onto(path, new, old) if path else new, owner, moved, before.opt_state[name]
            )
    return dataclasses.replace(trained, params=params, targets=targets, opt_state=opt_state, masks=before.masks, units=before.units)
