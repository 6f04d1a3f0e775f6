"""Pruning a whole agent: every network scored at the same dense state, then all masked together."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
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
from jaxprune.pruning.prune import prune_in_rounds

__all__ = [
    "BUDGETS",
    "STRUCTURES",
    "TARGETS",
    "PruneInfo",
    "budget_prefixes",
    "chosen_networks",
    "describe_masks",
    "mask_agent",
    "masks_in_force",
    "prune_agent",
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


def describe_masks(masks: dict[str, Any]) -> PruneInfo:
    """Counts, on the host."""
    layers = {name: (int(np.sum(np.asarray(leaf))), int(np.size(leaf))) for name, leaf in prunable_leaves(masks).items()}
    return PruneInfo(sum(kept for kept, _ in layers.values()), sum(total for _, total in layers.values()), layers)


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
    for name in names:
        if (here := prunable_size(state.params[name])) != int(state.total[name]):
            raise ValueError(
                f"network {name!r} was compacted to {here:,} of its {int(state.total[name]):,} weights, so a sparsity would have two "
                "meanings; prune jaxprune.expand(agent, state), then compact again"
            )
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


def _both(masks: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    return jax.tree.map(jnp.logical_and, masks, others)
