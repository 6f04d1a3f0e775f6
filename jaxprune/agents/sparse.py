"""Pruning a whole agent: every network scored at the same dense state, then all masked together."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxprune.agents.base import Agent, AgentState
from jaxprune.agents.masked import mask_agent, masks_in_force, stacked_leaves
from jaxprune.agents.scoring import BUDGETS, budget_prefixes, chosen_networks, score_agent
from jaxprune.agents.units import TARGETS, prune_units
from jaxprune.criteria.registry import registered_name
from jaxprune.data.transitions import Transitions
from jaxprune.parameters import is_kernel, prunable_leaves, prunable_size
from jaxprune.pruning.allocation import ALLOCATIONS
from jaxprune.pruning.prune import blank_budgets, check_budgets, check_scores, prune_in_rounds
from jaxprune.pruning.ranking import Ranking, rank_scores
from jaxprune.pruning.schedules import kept_after

__all__ = [
    "BUDGETS",
    "STRUCTURES",
    "TARGETS",
    "AgentRanking",
    "PruneInfo",
    "budget_prefixes",
    "chosen_networks",
    "describe_masks",
    "mask_agent",
    "masks_in_force",
    "prune_agent",
    "rank_agent",
    "score_agent",
    "stacked_leaves",
]

STRUCTURES = ("weights", "units", "hybrid")


@dataclasses.dataclass(frozen=True)
class PruneInfo:
    """What a pruning left.

    Attributes:
      kept, total: weights of all pruned networks together.
      layers: {"network/leaf path": (kept, total)}.
      empty: the layers that keep nothing: no signal passes them.
      units: {"network/unit group": (kept, total)} where whole units were removed, else empty.
    """

    kept: int
    total: int
    layers: dict[str, tuple[int, int]]
    units: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)

    @property
    def empty(self) -> tuple[str, ...]:
        """Layers without a weight."""
        return tuple(name for name, (kept, _) in self.layers.items() if not kept)

    @property
    def units_kept(self) -> int:
        """Hidden units that stay."""
        return sum(kept for kept, _ in self.units.values())

    @property
    def units_total(self) -> int:
        """Hidden units there were."""
        return sum(total for _, total in self.units.values())

    def __str__(self) -> str:
        weights = f"kept {self.kept:,} of {self.total:,}"
        return f"{weights} weights and {self.units_kept:,} of {self.units_total:,} hidden units" if self.units else weights


def merged(infos: Iterable[PruneInfo]) -> PruneInfo:
    """Several networks' or chains' prunings told as one."""
    parts = list(infos)
    return PruneInfo(
        sum(part.kept for part in parts),
        sum(part.total for part in parts),
        {name: counts for part in parts for name, counts in part.layers.items()},
        {name: counts for part in parts for name, counts in part.units.items()},
    )


def describe_masks(masks: dict[str, Any]) -> PruneInfo:
    """Counts, on the host."""
    layers = {name: (int(np.sum(np.asarray(leaf))), int(np.size(leaf))) for name, leaf in prunable_leaves(masks).items()}
    return PruneInfo(sum(kept for kept, _ in layers.values()), sum(total for _, total in layers.values()), layers)


@dataclasses.dataclass(frozen=True)
class AgentRanking:
    """An agent's weights, scored once and ranked once; from `rank_agent`. Every sparsity is then one comparison of integers.

    Attributes:
      agent, state: what was scored; the state's arrays are shared, not copied.
      networks: those ranked, in update order.
      ranking: the places, {network: …}.
      criterion: its name, for errors.
      blank: budgets whose scores are all zero.
    """

    agent: Agent
    state: AgentState
    networks: tuple[str, ...]
    ranking: Ranking
    criterion: Any
    blank: frozenset[str]

    def masks(self, sparsity: float) -> dict[str, Any]:
        """{network: boolean masks}, the same bits that `prune_agent` puts in force at this sparsity.

        Raises:
          ValueError: sparsity is outside [0, 1], a floor above a budget, or a budget whose scores are all zero.
        """
        keep = self.ranking.kept(sparsity)
        check_budgets(self.blank, keep, criterion=self.criterion)
        masks = self.ranking.masks(keep)
        return masks if self.ranking.within is None else _both(masks, self.ranking.within)

    def prune(self, sparsity: float) -> tuple[AgentState, PruneInfo]:
        """The masked state and what was kept: what `prune_agent` returns at this sparsity.

        Raises:
          ValueError: as for `masks`.
        """
        masks = self.masks(sparsity)
        return mask_agent(self.agent, self.state, masks), describe_masks(masks)


def rank_agent(
    agent: Agent,
    state: AgentState,
    batch: Transitions | Callable[[int], Transitions],
    key: jax.Array,
    *,
    criterion: Any = "snip",
    networks: Any = None,
    allocation: str = "global",
    budget: str = "mlp",
    floor: int = 0,
    **options: Any,
) -> AgentRanking:
    """Score and rank every weight of an agent once, for masks at any number of sparsities: single weights, one round.

    Args:
      agent: the algorithm.
      state: as `init` or training left it; not changed. What was removed before stays removed, and counts as removed.
      batch: raw transitions, or a function round -> transitions, of which round 0 is taken.
      key: for the losses' noise and the criterion.
      criterion: a name in `CRITERIA`, or a function of the same signature.
      networks: which ones to prune; all by default.
      allocation: as in `prune`.
      budget: what is ranked together, see `budget_prefixes`.
      floor: as in `prune`; one that does not fit is refused where a sparsity is asked for.
      **options: passed to the criterion.

    Raises:
      ValueError: an unknown name, a compacted agent, or scores that are NaN or all zero.
    """
    names, criterion = chosen_networks(agent, networks), registered_name(criterion)
    _refuse_compacted(state, names)
    chains = budget_prefixes(agent, names, budget)
    if allocation not in ALLOCATIONS:
        raise ValueError(f"allocation={allocation!r} is unknown; expected one of {', '.join(ALLOCATIONS)}")
    earlier = masks_in_force(state, names)
    scores = score_agent(
        agent,
        state,
        batch(0) if callable(batch) else batch,
        jax.random.fold_in(key, 0),
        criterion=criterion,
        networks=names,
        masks=earlier,
        **options,
    )
    check_scores(scores, criterion=criterion)
    ranking = rank_scores(scores, chains, allocation=allocation, stacked=stacked_leaves(agent, scores), floor=floor, within=earlier)
    return AgentRanking(agent, state, names, ranking, criterion, blank_budgets(scores, chains))


def prune_agent(
    agent: Agent,
    state: AgentState,
    batch: Transitions | Callable[[int], Transitions],
    key: jax.Array,
    *,
    criterion: Any = "snip",
    sparsity: float = 0.95,
    networks: Any = None,
    rounds: int = 1,
    schedule: str = "exponential",
    allocation: str = "global",
    budget: str = "mlp",
    floor: int = 0,
    structure: str = "weights",
    unit_criterion: Any = "crop",
    unit_allocation: str | None = None,
    unit_floor: int = 1,
    target: str = "params",
    inner_density: float = 0.25,
    **options: Any,
) -> tuple[AgentState, PruneInfo]:
    """Prune every network of an agent, before training or at any moment of it. What was removed before stays removed.

    Three structures. `weights` removes single weights. `units` removes whole hidden units, with everything that makes and reads them.
    `hybrid` first removes units, down to the width at which the weights to keep fill `inner_density` of the arrays, then weights inside: it
    keeps exactly as many as `weights`, and the work left falls to about (1 − sparsity) / inner_density.

    Args:
      agent: the algorithm.
      state: as `init` or training left it; not changed.
      batch: raw transitions, or a function round -> transitions.
      key: for the losses' noise and the criterion.
      criterion: a name in `CRITERIA`, or a function of the same signature.
      sparsity: fraction of each budget's prunable weights to remove.
      networks: which ones to prune; all by default.
      rounds: as in `prune`.
      schedule: as in `prune`.
      allocation: as in `prune`.
      floor: as in `prune`.
      budget: what is ranked together, see `budget_prefixes`.
      structure: `weights`, `units` or `hybrid`.
      unit_criterion: a name in `UNIT_CRITERIA`, or a function of the same signature.
      unit_allocation: `global` or `uniform`; by default what the unit criterion is made for.
      unit_floor: at least this many units in every layer, and in every member of a stack.
      target: of `units`, whether `sparsity` is a fraction of the weights (`params`, never above that budget) or of the `units`.
      inner_density: of `hybrid`.
      **options: passed to the criterion.

    Returns:
      The masked state, and what was kept.

    Raises:
      ValueError: an unknown name, a number out of range, a budget below what a floor takes, or scores that are NaN or all zero.
    """
    if structure not in STRUCTURES:
        raise ValueError(f"structure={structure!r} is unknown; expected one of {', '.join(STRUCTURES)}")
    if target != "params" and structure != "units":
        raise ValueError(
            f"target={target!r} goes with structure='units'; structure={structure!r} always keeps (1 - sparsity) of the weights"
        )
    names = chosen_networks(agent, networks)
    criterion = registered_name(criterion)
    kept_after(sparsity, 1, rounds=rounds, schedule=schedule)
    _refuse_compacted(state, names)
    units: dict[str, tuple[int, int]] = {}
    if structure != "weights":
        removed, units = prune_units(
            agent,
            state,
            batch,
            key,
            criterion=unit_criterion,
            sparsity=sparsity,
            target=target,
            inner_density=inner_density if structure == "hybrid" else None,
            networks=names,
            rounds=rounds,
            schedule=schedule,
            allocation=unit_allocation,
            budget=budget,
            floor=unit_floor,
        )
        state = mask_agent(agent, state, _both(removed, {name: state.masks[name] for name in names}))
    if structure == "units":
        return state, dataclasses.replace(describe_masks({name: state.masks[name] for name in names}), units=units)
    if rounds == 1:
        ranking = rank_agent(
            agent, state, batch, key, criterion=criterion, networks=names, allocation=allocation, budget=budget, floor=floor, **options
        )
        state, info = ranking.prune(sparsity)
        return state, dataclasses.replace(info, units=units)
    earlier = masks_in_force(state, names)
    params = {name: state.params[name] for name in names}

    def score_round(i, masks):
        now = batch(i) if callable(batch) else batch
        return score_agent(agent, state, now, jax.random.fold_in(key, i), criterion=criterion, networks=names, masks=masks, **options)

    masks = prune_in_rounds(
        score_round,
        params,
        sparsity=sparsity,
        rounds=rounds,
        schedule=schedule,
        allocation=allocation,
        chains=budget_prefixes(agent, names, budget),
        prunable=is_kernel,
        stacked=stacked_leaves(agent, params),
        floor=floor,
        criterion=criterion,
        masks=earlier,
    )
    if earlier is not None:
        masks = _both(masks, earlier)
    return mask_agent(agent, state, masks), dataclasses.replace(describe_masks(masks), units=units)


def _refuse_compacted(state: AgentState, names: tuple[str, ...]) -> None:
    for name in names:
        if (here := prunable_size(state.params[name])) != int(state.total[name]):
            raise ValueError(
                f"network {name!r} was compacted to {here:,} of its {int(state.total[name]):,} weights, so a sparsity would have two "
                "meanings; prune jaxprune.expand(agent, state), then compact again"
            )


def _both(masks: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    return jax.tree.map(jnp.logical_and, masks, others)
