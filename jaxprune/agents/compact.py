"""A whole agent in smaller arrays, and back: parameters, targets, masks and optimizer moments cut together."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxprune.agents.base import Agent, AgentState
from jaxprune.agents.moments import elementwise, map_moments
from jaxprune.parameters import UnitGroup
from jaxprune.pruning.compaction import fold_constants, live_units, original_positions, packed_units
from jaxprune.pruning.unit_layout import UnitLayout, as_declared, map_named, per_member

Units = dict[str, dict[str, np.ndarray]]


def lane_width() -> int:
    """What widths are rounded up to on the default backend: 8 on CPU, 128 on GPU and TPU."""
    return 8 if jax.default_backend() == "cpu" else 128


def full_sizes(agent: Agent) -> dict[str, int]:
    """{"network/group": number of units} before any compaction."""
    full = agent.with_widths({})
    return {f"{name}/{group.name}": group.size for name in full.order for group in full.groups(name)}


def resizable(agent: Agent) -> bool:
    """Whether `with_widths` builds this very agent: not where its networks were replaced by hand."""
    return agent.with_widths(agent.widths) == agent


def resized(agent: Agent, widths: Mapping[str, int]) -> Agent:
    """`agent.with_widths`, without the groups that have their original size.

    Raises:
      ValueError: an agent that `build` does not build.
    """
    if not resizable(agent):
        raise ValueError(
            f"{agent.name}: with_widths builds another agent, {agent.with_widths(agent.widths).name}; give it a `build` of its own"
        )
    sizes = full_sizes(agent)
    return agent.with_widths({name: width for name, width in widths.items() if sizes[name] != width})


def live_widths(agent: Agent, state: AgentState, *, multiple: int | None = None) -> dict[str, int]:
    """{"network/group": width} that `compact` would give the run: the units of the largest member that a live path crosses, rounded up.

    Args:
      agent: the algorithm.
      state: of one run.
      multiple: what widths are rounded up to, never above the original size; `lane_width()` by default.
    """
    sizes, multiple = full_sizes(agent), lane_width() if multiple is None else multiple
    widths = {}
    for name in agent.order:
        live, _ = live_units(state.masks[name], agent.groups(name))
        for group in agent.groups(name):
            most = max(1, int(live[group.name].sum(axis=-1).max()))
            widths[f"{name}/{group.name}"] = min(sizes[f"{name}/{group.name}"], -(-most // multiple) * multiple)
    return widths


def compact(
    agent: Agent, state: AgentState, *, widths: Mapping[str, int] | None = None, multiple: int | None = None
) -> tuple[Agent, AgentState]:
    """The same agent without the hidden units that no live path crosses; it computes the same outputs.

    Constants of units without a live input are folded into the biases after them; a target network's with its own biases. The path of later
    training is unchanged where those constants are zero and stay so (pruned at initialisation, zero biases, ReLU) and the optimizer works
    element by element without noise. Compacting twice is compacting once.

    Args:
      agent: the algorithm, dense or compacted before.
      state: of one run, on concrete arrays.
      widths: {"network/group": width} where they are not to be the run's own; see `compact_runs`.
      multiple: what widths are rounded up to, never above the original size; `lane_width()` by default.

    Returns:
      The agent with those widths, and the state: `units` names each unit's original index (−1 is padding, zero and masked), `total` is as
      before. Optimizer moments move with their weights; those that are not of a parameter's shape start anew.

    Raises:
      TypeError: traced masks.
      ValueError: a width below the number of live units.

    Leaves that do not change are shared with the state given: copy before donating one of the two.
    """
    target = live_widths(agent, state, multiple=multiple)
    if widths is not None:
        target |= widths
    chosen, constants = {}, {}
    for name in agent.order:
        groups = agent.groups(name)
        live, constants[name] = live_units(state.masks[name], groups)
        chosen[name] = packed_units(live, groups, widths={group.name: target[f"{name}/{group.name}"] for group in groups})
    if _unchanged(state, chosen):
        return agent, state
    return change_units(agent, state, resized(agent, target), chosen, constants)


def _unchanged(state: AgentState, chosen: Units) -> bool:
    """Whether every unit stays where it is and every padding is padding already."""
    for name, by_group in chosen.items():
        for group, units in by_group.items():
            before = np.asarray(state.units[name][group])
            if units.shape != before.shape or not (np.where(before < 0, -1, np.arange(units.shape[-1])) == units).all():
                return False
    return True


def change_units(
    agent: Agent, state: AgentState, smaller: Agent, chosen: Units, constants: Mapping[str, Mapping[str, np.ndarray]] | None = None
) -> tuple[Agent, AgentState]:
    """The state with other units in every array.

    Args:
      agent: of the state.
      state: with masked weights exactly 0.0.
      smaller: the agent of the sizes to come; it may be larger.
      chosen: {network: {group: int [width] or [members, width]}}, the old index of every new unit, −1 for padding.
      constants: {network: {group: bool}}, units to fold into the biases that follow.
    """
    params, targets, masks, opt_state = {}, dict(state.targets), {}, dict(state.opt_state)
    units = {name: dict(by_group) for name, by_group in state.units.items()}
    for name in agent.order:
        groups = agent.groups(name)
        change = UnitChange(groups, chosen[name])

        def folded(tree, name=name, groups=groups):
            return tree if constants is None else fold_constants(tree, groups, constants[name])

        params[name] = change.tree(folded(state.params[name]))
        masks[name] = change.tree(state.masks[name])
        if name in targets:
            targets[name] = change.tree(folded(targets[name]))
        if name in opt_state:
            optimizer, old = agent.networks[name].optimizer, opt_state[name]
            fresh = None if elementwise(optimizer, old, state.params[name]) else optimizer.init(params[name])
            opt_state[name] = map_moments(optimizer, change.leaf, old, state.params[name], otherwise=fresh)
        for group in groups:
            old, index = per_member(group, units[name][group.name]), per_member(group, chosen[name][group.name])
            new = np.where(index < 0, -1, np.take_along_axis(old, np.maximum(index, 0), axis=1))
            units[name][group.name] = jax.device_put(as_declared(group, new).astype(np.int32))
    return smaller, dataclasses.replace(state, params=params, targets=targets, masks=masks, opt_state=opt_state, units=units)


class UnitChange:
    """Other units in the leaves of one network.

    Args:
      groups: at the sizes of the leaves to be changed.
      chosen: {group: int [new size] or [members, new size]}, the old index of every new unit, −1 for padding.
    """

    def __init__(self, groups: Sequence[UnitGroup], chosen: Mapping[str, np.ndarray]):
        self.layout = UnitLayout(groups)
        self.units = {group.name: per_member(group, chosen[group.name]) for group in groups}

    def leaf(self, name: str, leaf: Any) -> Any:
        """One leaf; zeros (False) at padding."""
        # Not `jnp.asarray`, which compiles a program for every shape.
        return jax.device_put(self.layout.regrouped(name, leaf, self.units)) if name in self.layout.leaves else leaf

    def tree(self, tree: Any) -> Any:
        """A tree of them."""
        return map_named(self.leaf, tree)


def expand(agent: Agent, state: AgentState) -> tuple[Agent, AgentState]:
    """The agent at its original size: every unit where it was, removed weights exactly 0.0 and masked.

    Constants stay where compaction folded them, so the outputs are the same. Optimizer moments come back too, those that are not of a
    parameter's shape start anew.

    Args:
      agent: as `compact` gave it.
      state: of one run.

    Raises:
      ValueError: a compacted agent that `with_widths` does not build, its networks having been replaced by hand.
    """
    full = resized(agent, full_sizes(agent)) if agent.widths else agent
    back: Units = {}
    identity: dict[str, dict[str, jax.Array]] = {}
    for name in agent.order:
        back[name], identity[name] = {}, {}
        for group, original in zip(agent.groups(name), full.groups(name), strict=True):
            units = per_member(group, state.units[name][group.name])
            back[name][group.name] = as_declared(group, original_positions(units, original.size))
            every = np.tile(np.arange(original.size, dtype=np.int32), (units.shape[0], 1))
            identity[name][group.name] = jax.device_put(as_declared(group, every))
    if full == agent and all((np.asarray(state.units[n][g]) == np.asarray(u)).all() for n, by in identity.items() for g, u in by.items()):
        return agent, state
    full, state = change_units(agent, state, full, back)
    return full, dataclasses.replace(state, units=identity)


def common_widths(widths: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The elementwise maximum: widths at which several runs of one algorithm can be stacked."""
    return {name: max(own[name] for own in widths) for name in widths[0]}


def compact_runs(runs: Sequence[tuple[Agent, AgentState]], *, multiple: int | None = None) -> tuple[Agent, list[AgentState]]:
    """Several runs of one algorithm compacted to one shape, the elementwise maximum of their widths, so that they can be stacked.

    Args:
      runs: (agent, state) of each; the agents may differ in widths.
      multiple: what widths are rounded up to; `lane_width()` by default.

    Returns:
      The agent of the common widths, and the states in the order given.

    Raises:
      ValueError: no runs, or runs of different algorithms, specs or configs.
    """
    if len({agent.with_widths({}) for agent, _ in runs}) != 1:
        raise ValueError("expected runs of one algorithm, spec and config to compact to one shape")
    widths = common_widths([live_widths(agent, state, multiple=multiple) for agent, state in runs])
    compacted = [compact(agent, state, widths=widths) for agent, state in runs]
    return resized(runs[0][0], widths), [state for _, state in compacted]
