"""Signs that training has become lazy: the gradient flow, and how far the neural tangent kernel has moved."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxprune.objective import Objective
from jaxprune.parameters import Prunable, is_kernel, prunable_leaves, replace_leaves


def gradient_flow(objective: Any, params: Any, rows: Any, *, prunable: Prunable = is_kernel) -> jax.Array:
    """gᵀg over the kernels, a scalar: how fast a gradient step lowers the loss, to first order.

    Args:
      objective: any (params, rows) -> scalar.
      params: of one network.
      rows: what it reads.
      prunable: which leaves count.
    """
    gradient = prunable_leaves(jax.grad(objective)(params, rows), prunable)
    return sum((jnp.vdot(leaf, leaf) for leaf in gradient.values()), start=jnp.zeros(()))


def empirical_ntk(objective: Objective, params: Any, rows: Any, *, prunable: Prunable = is_kernel) -> jax.Array:
    """J·Jᵀ of all outputs of a probe batch with respect to the kernels, [n, n] with n = rows × output features.

    Column by column, as one vector-Jacobian and one Jacobian-vector product each: J is never formed.

    Args:
      objective: whose `predict` is the network.
      params: of one network.
      rows: a few rows; n² numbers come back.
      prunable: which leaves count.
    """

    def outputs(kernels):
        return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(objective.outputs(replace_leaves(params, kernels), rows))])

    kernels = prunable_leaves(params, prunable)
    flat, pull_back = jax.vjp(outputs, kernels)

    def column(direction):
        (along,) = pull_back(direction)
        return jax.jvp(outputs, (kernels,), (along,))[1]

    return jax.lax.map(column, jnp.eye(flat.size, dtype=flat.dtype))


def ntk_change(kernel: jax.Array, reference: jax.Array) -> jax.Array:
    """‖K − K_ref‖ / ‖K_ref‖ in the Frobenius norm, a scalar."""
    return jnp.linalg.norm(kernel - reference) / jnp.linalg.norm(reference)
