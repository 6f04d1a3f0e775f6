"""Scores of a whole agent: every network by the loss that trains it, at one state of all networks."""

from __future__ import annotations

from typing import Any

import jax

from jaxprune.agents.base import Agent, AgentState
from jaxprune.agents.masked import mask_agent
from jaxprune.criteria.registry import revives
from jaxprune.data.transitions import Transitions
from jaxprune.pruning.prune import score

BUDGETS = ("mlp", "network", "pooled")


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
      ValueError: no name, or one the agent lacks.
    """
    wanted = agent.order if networks is None else ((networks,) if isinstance(networks, str) else tuple(networks))
    if not wanted:
        raise ValueError(f"networks is empty; name some of {', '.join(agent.order)}, or leave it out for all")
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
    # Losses read no optimizer state: its moments need no masking.
    masked = state if masks is None else mask_agent(agent, state.replace(opt_state={}), masks)
    params = state.params if revives(criterion) else masked.params
    scores = {}
    for name in chosen_networks(agent, networks):
        objective = agent.objective(name, masked)
        rows = prepared_rows(objective, batch, noise)
        own_key = jax.random.fold_in(criterion_key, agent.order.index(name))
        own_masks = None if masks is None else masks[name]
        scores[name] = score(objective, params[name], rows, own_key, criterion=criterion, masks=own_masks, **options)
    return scores


@jax.jit
def _prepared(objective, batch, noise):
    return objective.rows(batch, noise)


def prepared_rows(objective: Any, batch: Transitions, noise: Any) -> Any:
    """What the losses of a network read, at the highest matrix-product precision."""
    with jax.default_matmul_precision("highest"):
        return _prepared(objective, batch, noise)
