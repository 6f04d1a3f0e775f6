"""Pruning a whole agent: every network scored at the same dense state, then all masked together."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxprune.agents.base import Agent, AgentState
from jaxprune.agents.moments import map_moments
from jaxprune.criteria.registry import REVIVING
from jaxprune.data.transitions import Transitions
from jaxprune.parameters import is_kernel, prunable_leaves
from jaxprune.pruning.masks import apply_masks
from jaxprune.pruning.prune import prune_in_rounds, score
from jaxprune.pruning.unit_layout import named_leaves

BUDGETS = ("mlp", "network", "pooled")


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


def budget_prefixes(agent: Agent, networks: tuple[str, ...], budget: str) -> tuple[str, ...]:
    """Path prefixes, starting with the network's name, of what is ranked together.

    `mlp` is one multilayer perceptron (BCQ's VAE has two; stacked twins count as one), `network` a network, `pooled` all networks given.
    """
    if budget not in BUDGETS:
        raise ValueError(f"budget={budget!r} is unknown; expected one of {', '.join(BUDGETS)}")
    if budget == "pooled":
        return ("",)
    if budget == "network":
        return networks
    return tuple(f"{name}/{chain}" if chain else name for name in networks for chain in agent.networks[name].chains)


def chosen_networks(agent: Agent, networks: Any) -> tuple[str, ...]:
    """`networks` in update order, all of them for None.

    Raises:
      ValueError: a name the agent lacks.
    """
    wanted = agent.order if networks is None else ((networks,) if isinstance(networks, str) else tuple(networks))
    if unknown := [name for name in wanted if name not in agent.networks]:
        raise ValueError(f"{agent.name} has no network {unknown[0]!r}; expected some of {', '.join(agent.order)}")
    return tuple(name for name in agent.order if name in wanted)


def score_agent(
    agent: Agent,
    state: AgentState,
    batch: Transitions,
    key: jax.Array,
    *,
    criterion: Any = "snip",
    networks: Any = None,
    masks: dict[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """{network: scores of every leaf}, each network by the loss that trains it, at one state of all networks.

    Args:
      agent: the algorithm.
      state: the state whose parameters are scored; nothing in it changes.
      batch: raw transitions.
      key: for the losses' noise and the criterion.
      criterion: a name in `CRITERIA`, or a function of the same signature.
      networks: which ones; all by default.
      masks: {network: masks} under which the networks are scored. A criterion that revives weights is given `state`'s, unmasked.
      **options: passed to the criterion.
    """
    noise_key, criterion_key = jax.random.split(key)
    noise = agent.draw(noise_key, batch.rewards.shape[0])
    masked = state if masks is None else mask_agent(agent, state, masks)
    params = state.params if criterion in REVIVING else masked.params
    scores = {}
    for name in chosen_networks(agent, networks):
        objective = agent.objective(name, masked)
        rows = _rows(objective, batch, noise)
        own_key = jax.random.fold_in(criterion_key, agent.order.index(name))
        own_masks = None if masks is None else masks[name]
        scores[name] = score(objective, params[name], rows, own_key, criterion=criterion, masks=own_masks, **options)
    return scores


@jax.jit
def _prepared(objective, batch, noise):
    return objective.rows(batch, noise)


def _rows(objective: Any, batch: Transitions, noise: Any) -> Any:
    with jax.default_matmul_precision("highest"):
        return _prepared(objective, batch, noise)


def stacked_leaves(agent: Agent, params: dict[str, Any]) -> frozenset[str]:
    """Names of the kernels with a leading member axis."""
    return frozenset(f"{net}/{leaf}" for net, tree in params.items() if agent.networks[net].members for leaf in prunable_leaves(tree))


def mask_agent(agent: Agent, state: AgentState, masks: dict[str, Any]) -> AgentState:
    """The state with `masks` in force: parameters, targets and the optimizers' moments are exactly 0.0 where removed."""
    params, targets, opt_state = dict(state.params), dict(state.targets), dict(state.opt_state)
    for name, mask in masks.items():
        params[name] = apply_masks(params[name], mask)
        if name in targets:
            targets[name] = apply_masks(targets[name], mask)
        if name in opt_state:
            optimizer, keep = agent.networks[name].optimizer, named_leaves(mask)
            opt_state[name] = map_moments(
                optimizer, lambda path, moment, keep=keep: apply_masks(moment, keep[path]), opt_state[name], params[name]
            )
    return dataclasses.replace(state, params=params, targets=targets, opt_state=opt_state, masks={**state.masks, **masks})


def masks_in_force(state: AgentState, names: tuple[str, ...]) -> dict[str, Any] | None:
    """{network: masks} of a state, None where they keep everything."""
    masks = {name: state.masks[name] for name in names}
    return None if all(bool(jnp.all(leaf)) for leaf in jax.tree.leaves(masks)) else masks


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
