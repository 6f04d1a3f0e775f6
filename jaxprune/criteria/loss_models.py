"""What removing a weight does to the loss, modelled to first or second order (Laurent et al. 2020).

Removal is the step Δθ = −θ, so the modelled change is |−gθ + ½dθ²| with g the gradient and d the curvature's diagonal; ½λθ², outside the
absolute value, keeps the step within reach of the model, and λ → ∞ is magnitude pruning.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxprune.criteria.curvature import diagonal
from jaxprune.parameters import apply_masks


def _scores(params: Any, lambda_: Any, *, gradient: Any = None, curvature: Any = None) -> Any:
    """|−gθ + ½dθ²| + ½λθ², with what is None left out."""

    def score(w, *terms):
        change = jnp.zeros_like(w)
        terms = list(terms)
        if gradient is not None:
            change = change - terms.pop(0) * w
        if curvature is not None:
            change = change + terms.pop(0) * w**2 / 2
        return jnp.abs(change) + jnp.asarray(lambda_, w.dtype) / 2 * w**2

    return jax.tree.map(score, params, *(tree for tree in (gradient, curvature) if tree is not None))


def lm(
    objective: Any,
    params: Any,
    rows: Any,
    key: jax.Array | None = None,
    *,
    masks: Any = None,
    lambda_: Any = 0.0,
    curvature: str = "auto",
    samples: int = 32,
) -> Any:
    """Linear model: |gθ| + ½λθ². SNIP's scores for λ = 0. `curvature` and `samples` are not read."""
    del key, curvature, samples
    if masks is not None:
        params = apply_masks(params, masks)
    return _scores(params, lambda_, gradient=jax.grad(objective)(params, rows))


def obd(
    objective: Any,
    params: Any,
    rows: Any,
    key: jax.Array | None = None,
    *,
    masks: Any = None,
    lambda_: Any = 0.0,
    curvature: str = "auto",
    samples: int = 32,
) -> Any:
    """Optimal brain damage (LeCun et al. 1990): |½dθ²| + ½λθ², as if the gradient were zero.

    Args:
      objective: an `Objective`; for Hutchinson's curvature any (params, rows) -> scalar.
      params: parameters.
      rows: B rows.
      key: for Hutchinson's curvature.
      masks: where given, the network scored is the masked one.
      lambda_: λ, the weight of the step's size; a number or a scalar array, which may be traced.
      curvature: d; "ggn" (exact Gauss-Newton), "fisher" (empirical), "hutchinson" (the Hessian's, estimated) or "auto"; see
        `resolve_curvature`.
      samples: of Hutchinson's estimate.

    Raises:
      ValueError: as `resolve_curvature`, or no key where one is needed.
    """
    if masks is not None:
        params = apply_masks(params, masks)
    return _scores(params, lambda_, curvature=diagonal(objective, params, rows, key, curvature=curvature, samples=samples))


def qm(
    objective: Any,
    params: Any,
    rows: Any,
    key: jax.Array | None = None,
    *,
    masks: Any = None,
    lambda_: Any = 0.0,
    curvature: str = "auto",
    samples: int = 32,
) -> Any:
    """Quadratic model: |−gθ + ½dθ²| + ½λθ². Arguments and errors as for `obd`."""
    if masks is not None:
        params = apply_masks(params, masks)
    d = diagonal(objective, params, rows, key, curvature=curvature, samples=samples)
    return _scores(params, lambda_, gradient=jax.grad(objective)(params, rows), curvature=d)
