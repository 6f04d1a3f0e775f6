"""Criteria that keep the gradient flowing: one Hessian-vector product."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxprune.parameters import Prunable, apply_masks, is_kernel, prunable_tree


def weighted_hessian_gradient(objective: Any, params: Any, rows: Any, *, masks: Any = None, prunable: Prunable = is_kernel) -> Any:
    """θ ⊙ Hg for every leaf, with g the gradient of the prunable weights that `masks` keeps: everything else is held fixed."""
    live = prunable_tree(params, prunable)
    if masks is not None:
        params = apply_masks(params, masks)
        live = jax.tree.map(jnp.logical_and, masks, live)
    gradient = jax.grad(objective)
    flow = jax.tree.map(lambda g, keep: jnp.where(keep, g, jnp.zeros((), g.dtype)), gradient(params, rows), live)
    _, product = jax.jvp(lambda p: gradient(p, rows), (params,), (flow,))
    return jax.tree.map(jnp.multiply, params, product)


def grasp(
    objective: Any, params: Any, rows: Any, key: jax.Array | None = None, *, masks: Any = None, prunable: Prunable = is_kernel
) -> Any:
    """θ ⊙ Hg with its sign (Wang et al. 2020, equation 8 negated, without the softmax temperature): removing the smallest raises gᵀg most.

    The gradient is that of the prunable weights, and so is the Hessian's block.
    """
    del key
    return weighted_hessian_gradient(objective, params, rows, masks=masks, prunable=prunable)


def crop(objective: Any, params: Any, rows: Any, key: jax.Array | None = None, *, masks: Any = None, prunable: Prunable = is_kernel) -> Any:
    """|θ ⊙ Hg|: what changes gᵀg least is removed (CroP-U; Rachwan et al. 2022)."""
    return jax.tree.map(jnp.abs, grasp(objective, params, rows, key, masks=masks, prunable=prunable))
