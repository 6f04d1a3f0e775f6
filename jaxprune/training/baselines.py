"""Baselines that train before or while they prune: what pruning before training has to be compared with."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxprune.agents.base import Agent, AgentState
from jaxprune.agents.sparse import (
    PruneInfo,
    budget_prefixes,
    chosen_networks,
    describe_masks,
    mask_agent,
    masks_in_force,
    stacked_leaves,
)
from jaxprune.data.transitions import Transitions
from jaxprune.pruning.prune import prune_in_rounds
from jaxprune.training.loop import train


def _magnitudes(state: AgentState, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: jax.tree.map(jnp.abs, state.params[name]) for name in names}


def lottery_ticket(
    agent: Agent,
    state: AgentState,
    transitions: Transitions,
    key: jax.Array,
    *,
    sparsity: float,
    steps: int,
    rounds: int = 5,
    rewind_to: int = 0,
    networks: Any = None,
    schedule: str = "exponential",
    allocation: str = "global",
    budget: str = "mlp",
    floor: int = 0,
    batch_size: int | None = None,
) -> tuple[AgentState, PruneInfo]:
    """Iterative magnitude pruning with weight rewinding (Frankle and Carbin 2019; Frankle et al. 2020).

    Each round trains to update `steps`, removes the smallest trained weights, and rewinds the rest, optimizers and targets with them, to
    what they were after update `rewind_to`. It costs rewind_to + rounds·(steps − rewind_to) updates before the training that counts.

    Args:
      agent: the algorithm.
      state: as initialised.
      transitions: raw transitions.
      key: of the run; every round sees the same batches in the same order.
      sparsity: fraction of each budget's prunable weights to remove.
      steps: the update at which a round's training ends.
      rounds: how often to train and prune.
      rewind_to: 0 for the initial weights.
      networks: which ones to prune; all by default.
      schedule: as in `prune`.
      allocation: as in `prune`.
      budget: what is ranked together, see `budget_prefixes`.
      floor: as in `prune`.
      batch_size: rows an update; the config's by default.

    Returns:
      The ticket: the masked state after update `rewind_to`, ready to be trained, and what was kept.

    Raises:
      ValueError: rewind_to is not in [0, steps), or as in `prune_agent`.
    """
    if not 0 <= rewind_to < steps:
        raise ValueError(f"expected to rewind to an update in [0, {steps}), got rewind_to={rewind_to}")
    names = chosen_networks(agent, networks)
    start = train(agent, state, transitions, steps=rewind_to, key=key, batch_size=batch_size)[0] if rewind_to else state

    def score_round(i, masks):
        del i
        ticket = start if masks is None else mask_agent(agent, start, masks)
        trained, _ = train(agent, ticket, transitions, steps=steps - rewind_to, key=key, batch_size=batch_size)
        return _magnitudes(trained, names)

    params = {name: start.params[name] for name in names}
    masks = prune_in_rounds(
        score_round,
        params,
        sparsity=sparsity,
        rounds=rounds,
        schedule=schedule,
        allocation=allocation,
        chains=budget_prefixes(agent, names, budget),
        stacked=stacked_leaves(agent, params),
        floor=floor,
        criterion="magnitude",
        masks=masks_in_force(start, names),
    )
    return mask_agent(agent, start, masks), describe_masks(masks)


def gradual(
    agent: Agent,
    state: AgentState,
    transitions: Transitions,
    key: jax.Array,
    *,
    sparsity: float,
    steps: int,
    begin: int = 0,
    end: int | None = None,
    prunings: int = 20,
    networks: Any = None,
    schedule: str = "cubic",
    allocation: str = "global",
    budget: str = "mlp",
    floor: int = 0,
    batch_size: int | None = None,
) -> tuple[AgentState, PruneInfo]:
    """Gradual magnitude pruning during training (Zhu and Gupta 2017): the smallest weights go at even intervals from `begin` to `end`.

    Args:
      agent: the algorithm.
      state: as initialised.
      transitions: raw transitions.
      key: of the run, as in `train`.
      sparsity: fraction of each budget's prunable weights removed at `end`.
      steps: updates in all.
      begin: updates before the first interval.
      end: updates after which nothing more is removed; three quarters of `steps` by default.
      prunings: how often weights are removed; the last time at `end`.
      networks: which ones to prune; all by default.
      schedule: how much is gone after each; the paper's is cubic.
      allocation: as in `prune`.
      budget: what is ranked together, see `budget_prefixes`.
      floor: as in `prune`.
      batch_size: rows an update; the config's by default.

    Returns:
      The state after `steps` updates, and what was kept.

    Raises:
      ValueError: begin, end and steps are not in order, or as in `prune_agent`.
    """
    end = 3 * steps // 4 if end is None else end
    if not 0 <= begin <= end <= steps:
        raise ValueError(f"expected 0 <= begin <= end <= steps, got begin={begin}, end={end}, steps={steps}")
    names = chosen_networks(agent, networks)
    times = [0, *(begin + (end - begin) * i // prunings for i in range(1, prunings + 1))]
    current = state

    def trained(to_train, updates):
        return train(agent, to_train, transitions, steps=updates, key=key, batch_size=batch_size)[0] if updates else to_train

    def score_round(i, masks):
        nonlocal current
        if masks is not None:
            current = mask_agent(agent, current, masks)
        current = trained(current, times[i + 1] - times[i])
        return _magnitudes(current, names)

    params = {name: state.params[name] for name in names}
    masks = prune_in_rounds(
        score_round,
        params,
        sparsity=sparsity,
        rounds=prunings,
        schedule=schedule,
        allocation=allocation,
        chains=budget_prefixes(agent, names, budget),
        stacked=stacked_leaves(agent, params),
        floor=floor,
        criterion="magnitude",
        masks=masks_in_force(state, names),
    )
    return trained(mask_agent(agent, current, masks), steps - end), describe_masks(masks)
