"""Pruning whole hidden units of an agent, alone or down to the width at which weights are pruned inside."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxprune.agents.base import Agent, AgentState
from jaxprune.agents.masked import mask_agent
from jaxprune.agents.scoring import budget_prefixes, prepared_rows
from jaxprune.criteria.units import UNIT_CRITERIA
from jaxprune.data.transitions import Transitions
from jaxprune.pruning.prune import below
from jaxprune.pruning.schedules import kept_after
from jaxprune.pruning.unit_layout import as_declared
from jaxprune.pruning.units import (
    Kept,
    check_unit_scores,
    count_around,
    count_within,
    kept_units,
    kernel_shapes,
    prefixed,
    unit_masks,
    unit_order,
    weights_left,
)

TARGETS = ("params", "units")

# An L1 norm grows with a layer's fan-in and says nothing across layers.
_RANKED_BY_LAYER = frozenset({"l1"})


@functools.partial(jax.jit, static_argnames=("criterion", "groups"))
def _score_units(objective, params, rows, key, masks, *, criterion, groups):
    function = UNIT_CRITERIA[criterion] if isinstance(criterion, str) else criterion
    return function(objective, params, groups, rows, key, masks=masks)


def score_agent_units(
    agent: Agent,
    state: AgentState,
    batch: Transitions,
    key: jax.Array,
    *,
    criterion: Any = "crop",
    networks: tuple[str, ...],
    masks: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """{"network/group": scores [units] or [members, units]}, each network by the loss that trains it, at one state of all networks.

    Args:
      agent: the algorithm.
      state: the state whose parameters are scored; nothing in it changes.
      batch: raw transitions.
      key: for the losses' noise and the criterion.
      criterion: a name in `UNIT_CRITERIA`, or a function of the same signature.
      networks: which ones.
      masks: {network: masks} under which the networks are scored.

    Raises:
      ValueError: an unknown criterion, or scores that are NaN or all zero.
    """
    if isinstance(criterion, str) and criterion not in UNIT_CRITERIA:
        raise ValueError(f"unit_criterion={criterion!r} is unknown; expected one of {', '.join(sorted(UNIT_CRITERIA))}")
    noise_key, criterion_key = jax.random.split(key)
    noise = agent.draw(noise_key, batch.rewards.shape[0])
    state = state if masks is None else mask_agent(agent, state.replace(opt_state={}), masks)
    scores = {}
    for name in networks:
        objective, groups = agent.objective(name, state), agent.groups(name)
        rows = prepared_rows(objective, batch, noise)
        own_key = jax.random.fold_in(criterion_key, agent.order.index(name))
        with jax.default_matmul_precision("highest"):
            own = _score_units(
                objective, state.params[name], rows, own_key, None if masks is None else masks[name], criterion=criterion, groups=groups
            )
        check_unit_scores(own, criterion=criterion)
        scores |= {f"{name}/{group}": np.asarray(leaf) for group, leaf in own.items()}
    return scores


def prune_units(
    agent: Agent,
    state: AgentState,
    batch: Transitions | Callable[[int], Transitions],
    key: jax.Array,
    *,
    criterion: Any = "crop",
    sparsity: float = 0.95,
    target: str = "params",
    inner_density: float | None = None,
    networks: tuple[str, ...],
    rounds: int = 1,
    schedule: str = "exponential",
    allocation: str | None = None,
    budget: str = "mlp",
    floor: int = 1,
) -> tuple[dict[str, Any], dict[str, tuple[int, int]]]:
    """Masks that remove whole hidden units; inputs and outputs of a network always stay.

    Args:
      agent: the algorithm.
      state: not changed.
      batch: raw transitions, or a function round -> transitions.
      key: for the losses' noise and the criterion.
      criterion: a name in `UNIT_CRITERIA`, or a function of the same signature.
      sparsity: the fraction of each budget's weights, or with target="units" of its hidden units, to remove.
      target: `params` keeps as many units as leave at most (1 − sparsity) of the weights; `units` keeps (1 − sparsity) of the units.
      inner_density: with a number, keep instead the units whose arrays that weight budget would fill to this density: as near as units
        allow, never with less room than the budget.
      networks: which ones to prune.
      rounds: units are scored again under the masks of each round; what was removed stays removed.
      schedule: see `schedules`.
      allocation: `global` ranks across layers, `uniform` within each; by default what the criterion is made for.
      budget: what is ranked together, see `budget_prefixes`.
      floor: at least this many units in every layer, and in every member of a stack.

    Returns:
      {network: masks}, and {"network/group": (units kept, units)}.

    Raises:
      ValueError: an unknown name, a number out of range, a budget below what the floor takes, or scores that are NaN or all zero.
    """
    if target not in TARGETS:
        raise ValueError(f"target={target!r} is unknown; expected one of {', '.join(TARGETS)}")
    if inner_density is not None and not 0 < inner_density <= 1:
        raise ValueError(f"expected an inner_density in (0, 1], the fraction of the live arrays that is filled; got {inner_density}")
    kept_after(sparsity, 1, rounds=rounds, schedule=schedule)
    if allocation is None:
        allocation = "uniform" if criterion in _RANKED_BY_LAYER else "global"
    params = {name: state.params[name] for name in networks}
    groups = [prefixed(group, name) for name in networks for group in agent.groups(name)]
    kept: Kept = {group.name: _all_units(group) for group in groups}
    masks = None
    for i in range(rounds):
        now = batch(i) if callable(batch) else batch
        scores = score_agent_units(agent, state, now, jax.random.fold_in(key, i), criterion=criterion, networks=networks, masks=masks)
        for prefix in budget_prefixes(agent, networks, budget):
            own = [group for group in groups if below(prefix, group.name)]
            shapes = {name: shape for name, shape in kernel_shapes(params).items() if below(prefix, name)}
            if not own:
                continue
            order, least = unit_order(scores, own, allocation=allocation, floor=floor, kept=kept)
            total = sum(int(np.prod(shape)) for shape in shapes.values())

            def weights(count: int, order: Any = order, own: Any = own, shapes: Any = shapes) -> int:
                return weights_left(shapes, own, kept_units(order, count, own))

            if inner_density is not None:
                ready = kept_after(sparsity, total, rounds=rounds, schedule=schedule)[-1]
                room = min(1.0, ready / inner_density / total)
                wanted = total * room ** ((i + 1) / rounds)
                count = count_around(weights, least, len(order), wanted, ready)
            elif target == "units":
                count = max(least, kept_after(sparsity, len(order), rounds=rounds, schedule=schedule)[i])
            else:
                leaves = kept_after(sparsity, total, rounds=rounds, schedule=schedule)[i]
                count = count_within(weights, least, len(order), leaves, prefix or "all networks")
            kept |= kept_units(order, count, own)
        masks = {name: unit_masks(params[name], agent.groups(name), _of_network(kept, name)) for name in networks}
    assert masks is not None
    return masks, {group.name: (int(kept[group.name].sum()), kept[group.name].size) for group in groups}


def _all_units(group: Any) -> np.ndarray:
    return as_declared(group, np.ones((max(1, group.members), group.size), bool))


def _of_network(kept: Kept, network: str) -> Kept:
    return {name.removeprefix(f"{network}/"): units for name, units in kept.items() if below(network, name)}
