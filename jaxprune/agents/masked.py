"""An agent's state under masks."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxprune.agents.base import Agent, AgentState
from jaxprune.agents.moments import map_moments
from jaxprune.parameters import named_leaves, prunable_leaves
from jaxprune.pruning.masks import apply_masks
from jaxprune.pruning.units import unit_masks


def mask_agent(agent: Agent, state: AgentState, masks: dict[str, Any]) -> AgentState:
    """The state with `masks` in force: parameters, targets and the optimizers' moments are exactly 0.0 where removed.

    Raises:
      ValueError: masks that keep a weight of a compacted network's padding, as shuffled ones may (checked where they are concrete).
    """
    for name, mask in masks.items():
        _refuse_padding(agent, state, name, mask)
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


def _refuse_padding(agent: Agent, state: AgentState, name: str, mask: Any) -> None:
    units = state.units[name]
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((units, mask))):
        return
    real = {group: np.asarray(index) >= 0 for group, index in units.items()}
    if all(leaf.all() for leaf in real.values()):
        return
    allowed = named_leaves(unit_masks(mask, agent.groups(name), real))
    for path, leaf in named_leaves(mask).items():
        if (np.asarray(leaf) & ~np.asarray(allowed[path])).any():
            raise ValueError(
                f"the masks keep weights of {name}/{path} that belong to no unit but to the padding of a compacted network; make masks for "
                "jaxprune.expand(agent, state), then compact again"
            )


def masks_in_force(state: AgentState, names: tuple[str, ...]) -> dict[str, Any] | None:
    """{network: masks} of a state, None where they keep everything."""
    masks = {name: state.masks[name] for name in names}
    return None if all(bool(jnp.all(leaf)) for leaf in jax.tree.leaves(masks)) else masks


def stacked_leaves(agent: Agent, params: dict[str, Any]) -> frozenset[str]:
    """Names of the kernels with a leading member axis."""
    return frozenset(f"{net}/{leaf}" for net, tree in params.items() if agent.networks[net].members for leaf in prunable_leaves(tree))
