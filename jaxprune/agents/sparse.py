"""Pruning a whole agent: every network scored at the same dense state, then all masked together."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxprune.agents.base import Agent, AgentState
from jaxprune.agents.masked import mask_agent, masks_in_force, stacked_leaves
from jaxprune.agents.scoring import BUDGETS, budget_prefixes, chosen_networks, score_agent
from jaxprune.data.transitions import Transitions
from jaxprune.parameters import is_kernel, prunable_leaves
from jaxprune.pruning.prune import prune_in_rounds

__all__ = [
    "BUDGETS",
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


@dataclasses.dataclass(frozen=True)
class PruneInfo:
    """What a pruning left.

    Attributes:
      kept, total: weights of all pruned networks together.
      layers: {"network/leaf path": (kept, total)}.
      empty: the layers that keep nothing: no signal passes them.
    """

    kept: int
    total: int
    layers: dict[str, tuple[int, int]]

    @property
    def empty(self) -> tuple[str, ...]:
        """Layers without a weight."""
        return tuple(name for name, (kept, _) in self.layers.items() if not kept)

    def __str__(self) -> str:
        return f"kept {self.kept:,} of {self.total:,}"


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
    **options: Any,
) -> tuple[AgentState, PruneInfo]:
    """Prune every network of an agent, before training or at any moment of it. What was removed before stays removed.

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
      **options: passed to the criterion.

    Returns:
      The masked state, and what was kept.

    Raises:
      ValueError: an unknown name, a sparsity outside [0, 1], or scores that are NaN or all zero.
    """
    names = chosen_networks(agent, networks)
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
        masks=masks_in_force(state, names),
    )
    return mask_agent(agent, state, masks), describe_masks(masks)
