"""Pruning whole hidden units of an agent, alone or down to the width at which weights are pruned inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxprune.agents.base import Agent, AgentState
from jaxprune.agents.masked import mask_agent, masks_in_force
from jaxprune.agents.scoring import budget_prefixes, prepared_rows
from jaxprune.data.transitions import Transitions
from jaxprune.pruning.prune_units import TARGETS, check_unit_criterion, prune_units_in_rounds, score_units
from jaxprune.pruning.units import prefixed

__all__ = ["TARGETS", "prune_units", "score_agent_units"]


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
    check_unit_criterion(criterion)
    noise_key, criterion_key = jax.random.split(key)
    noise = agent.draw(noise_key, batch.rewards.shape[0])
    state = state if masks is None else mask_agent(agent, state.replace(opt_state={}), masks)
    scores = {}
    for name in networks:
        objective, groups = agent.objective(name, state), agent.groups(name)
        rows = prepared_rows(objective, batch, noise)
        own_key = jax.random.fold_in(criterion_key, agent.order.index(name))
        own_masks = None if masks is None else masks[name]
        own = score_units(objective, state.params[name], groups, rows, own_key, criterion=criterion, masks=own_masks)
        scores |= {f"{name}/{group}": np.asarray(leaf) for group, leaf in own.items()}
    return scores


def prune_units(
    agent: Agent,
    state: AgentState,
    batch: Transitions | Callable[[int], Transitions],
    key: jax.Array,
    *,
    criterion: Any = "crop",
    networks: tuple[str, ...],
    budget: str = "mlp",
    **how: Any,
) -> tuple[dict[str, Any], dict[str, tuple[int, int]]]:
    """Masks that remove whole hidden units; inputs and outputs of a network always stay.

    Args:
      agent: the algorithm.
      state: not changed. What was removed before stays removed, and counts as removed.
      batch: raw transitions, or a function round -> transitions.
      key: for the losses' noise and the criterion.
      criterion: a name in `UNIT_CRITERIA`, or a function of the same signature.
      networks: which ones to prune.
      budget: what is ranked together, see `budget_prefixes`; the sparsity is of each budget.
      **how: sparsity, target, inner_density, rounds, schedule, allocation and floor as in `jaxprune.prune_units`.

    Returns:
      {network: masks}, and {"network/group": (units kept, units)}.

    Raises:
      ValueError: an unknown name, a number out of range, a budget below what the floor takes, or scores that are NaN or all zero.
    """
    groups = [prefixed(group, name) for name in networks for group in agent.groups(name)]

    def score_round(i, masks):
        now = batch(i) if callable(batch) else batch
        return score_agent_units(agent, state, now, jax.random.fold_in(key, i), criterion=criterion, networks=networks, masks=masks)

    masks, kept = prune_units_in_rounds(
        score_round,
        {name: state.params[name] for name in networks},
        groups,
        chains=budget_prefixes(agent, networks, budget),
        criterion=criterion,
        masks=masks_in_force(state, networks),
        **how,
    )
    return masks, {group.name: (int(kept[group.name].sum()), kept[group.name].size) for group in groups}
