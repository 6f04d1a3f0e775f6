"""Diagonals of curvature matrices, without the matrices."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from jaxprune.objective import row_count, sum_over_rows
from jaxprune.optional import require

CURVATURES = ("auto", "ggn", "fisher", "hutchinson")

# Floats that the per-row gradients of one chunk of rows may take on an accelerator: 256 MiB in float32.
CHUNK_FLOATS = 2**26


def resolve_curvature(objective: Any, curvature: str = "auto") -> str:
    """The diagonal that `curvature` means here: "auto" is "ggn" where the loss is convex in the outputs, "hutchinson" elsewhere.

    Raises:
      ValueError: an unknown name, a field the objective lacks, or "ggn" for a loss that is not convex in its outputs.
    """
    if curvature not in CURVATURES:
        raise ValueError(f"curvature={curvature!r} is unknown; expected one of {', '.join(CURVATURES)}")
    if curvature == "hutchinson":
        return curvature
    for field in ("predict", "loss"):
        if getattr(objective, field, None) is None:
            raise ValueError(
                f"curvature={curvature!r} needs the objective's field {field!r}, which a plain function lacks: pass a jaxprune.Objective, "
                "or curvature='hutchinson', which needs the loss alone"
            )
    if curvature == "auto":
        return "ggn" if objective.convex else "hutchinson"
    if curvature == "ggn" and not objective.convex:
        raise ValueError(
            "curvature='ggn' needs a loss that is convex in the network's outputs, and this objective says convex=False: its Gauss-Newton "
            "matrix may be indefinite; use curvature='hutchinson' (the Hessian's diagonal) or curvature='fisher' (per-example gradients)"
        )
    return curvature


def _one_row(row: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[None], row)


def _output_root(objective: Any, params: Any, row: Any) -> tuple[Any, Any]:
    """(v ↦ Jᵀv, S) with S Sᵀ = H for one row, the K columns of S stacked first.

    J is the Jacobian of the outputs, H [K, K] the loss's second derivative in them.
    """
    row = _one_row(row)
    outputs, pullback = jax.vjp(lambda p: objective.outputs(p, row), params)
    flat, unravel = ravel_pytree(outputs)
    curved = jax.jacfwd(jax.grad(lambda o: jnp.sum(objective.loss(unravel(o), row, objective.context))))(flat)
    values, vectors = jnp.linalg.eigh(curved)
    root = (vectors * jnp.sqrt(jnp.maximum(values, jnp.zeros((), values.dtype)))).T
    return pullback, jax.vmap(unravel)(root)


def _loss_root(objective: Any, params: Any, row: Any) -> tuple[Any, Any]:
    """The same for the empirical Fisher matrix, whose only factor is the gradient of the row's loss."""
    row = _one_row(row)
    losses, pullback = jax.vjp(lambda p: objective.losses(p, row), params)
    return pullback, jnp.ones_like(losses)[None]


_ROOTS = {"ggn": _output_root, "fisher": _loss_root}


def row_factors(objective: Any, params: Any, row: Any, curvature: str) -> Any:
    """f_k with Σ_k f_k f_kᵀ the curvature matrix of one row ("ggn" or "fisher"): a tree with leaves [K, …]."""
    pullback, root = _ROOTS[curvature](objective, params, row)
    return jax.vmap(lambda column: pullback(column)[0])(root)


def output_size(objective: Any, params: Any, rows: Any) -> int:
    """K, the number of outputs of one row."""
    outputs = jax.eval_shape(objective.outputs, params, rows)
    return sum(leaf.size // row_count(rows) for leaf in jax.tree.leaves(outputs))


def rows_at_once(params: Any, rows: Any) -> int:
    """How many rows to differentiate side by side.

    One on a CPU, where the square of a gradient is then added while it is formed and never stored: measured 40 times faster than storing a
    batch of them. Elsewhere what `CHUNK_FLOATS` holds.
    """
    if jax.default_backend() == "cpu":
        return 1
    return max(1, min(row_count(rows), CHUNK_FLOATS // sum(leaf.size for leaf in jax.tree.leaves(params))))


def _mean_of_squares(objective: Any, params: Any, rows: Any, curvature: str, chunk: int | None) -> Any:
    """The mean over rows of Σ_k f_k², one column k at a time."""

    def squares(part):
        pullbacks, roots = jax.vmap(lambda row: _ROOTS[curvature](objective, params, row))(part)

        def add_column(total, column):
            factor = jax.vmap(lambda pullback, cotangent: pullback(cotangent)[0])(pullbacks, column)
            return jax.tree.map(lambda t, f: t + jnp.sum(jnp.square(f), axis=0), total, factor), None

        columns = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), roots)
        return jax.lax.scan(add_column, jax.tree.map(jnp.zeros_like, params), columns)[0]

    chunk = rows_at_once(params, rows) if chunk is None else chunk
    return jax.tree.map(lambda total: total / row_count(rows), sum_over_rows(squares, rows, chunk))


def ggn_diagonal(objective: Any, params: Any, rows: Any, *, chunk: int | None = None) -> Any:
    """The exact diagonal of the Gauss-Newton matrix of the mean loss, (1/B) Σ_i diag(J_iᵀ H_i J_i), with the structure of `params`.

    One forward pass and K vector-Jacobian products a row, K its number of outputs.

    Args:
      objective: an `Objective` whose loss is convex in its outputs.
      params: where.
      rows: B rows.
      chunk: rows side by side; see `rows_at_once`.

    Raises:
      ValueError: a field the objective lacks, or convex=False.
    """
    resolve_curvature(objective, "ggn")
    return _mean_of_squares(objective, params, rows, "ggn", chunk)


def fisher_diagonal(objective: Any, params: Any, rows: Any, *, chunk: int | None = None) -> Any:
    """The diagonal of the empirical Fisher matrix, (1/B) Σ_i g_i²: the squares of per-row gradients, never the square of their mean.

    Raises:
      ValueError: a field the objective lacks.
    """
    resolve_curvature(objective, "fisher")
    return _mean_of_squares(objective, params, rows, "fisher", chunk)


def hutchinson_diagonal(objective: Any, params: Any, rows: Any, key: jax.Array | None, *, samples: int = 32) -> tuple[Any, Any]:
    """An unbiased estimate of the Hessian's diagonal, mean of z ⊙ Hz over random signs z, and its standard error.

    Works for any (params, rows) -> scalar. One Hessian-vector product a sample, one sample in memory at a time.

    Args:
      objective: the loss.
      params: where.
      rows: B rows.
      key: of the signs.
      samples: at least 2, so that there is a standard error.

    Returns:
      Two trees with the structure of `params`.

    Raises:
      ImportError: matfree is not installed.
      ValueError: no key, or fewer than two samples.
    """
    stochtrace = require("matfree.stochtrace", extra="curvature")
    if key is None:
        raise ValueError("curvature='hutchinson' draws random signs: pass key=jax.random.key(seed)")
    if samples < 2:
        raise ValueError(f"expected at least 2 samples, which a standard error needs; got {samples}")
    estimate = stochtrace.estimator_monte_carlo(stochtrace.monte_carlo_diagonal(), stochtrace.sampler_signs(params, num=1))
    gradient = jax.grad(objective)

    def product(vector):
        return jax.jvp(lambda p: gradient(p, rows), (params,), (vector,))[1]

    # Welford's recurrence: no difference of large sums.
    def add(carry, step):
        mean, spread = carry
        index, sample_key = step
        sample = estimate(product, sample_key)
        delta = jax.tree.map(jnp.subtract, sample, mean)
        mean = jax.tree.map(lambda m, d: m + d / index.astype(d.dtype), mean, delta)
        spread = jax.tree.map(lambda s, d, x, m: s + d * (x - m), spread, delta, sample, mean)
        return (mean, spread), None

    zeros = jax.tree.map(jnp.zeros_like, params)
    steps = (jnp.arange(1, samples + 1), jax.random.split(key, samples))
    (mean, spread), _ = jax.lax.scan(add, (zeros, zeros), steps)
    return mean, jax.tree.map(lambda s: jnp.sqrt(s / (samples * (samples - 1))), spread)


def diagonal(objective: Any, params: Any, rows: Any, key: jax.Array | None, *, curvature: str = "auto", samples: int = 32) -> Any:
    """The diagonal that `curvature` names; see `resolve_curvature`."""
    kind = resolve_curvature(objective, curvature)
    if kind == "hutchinson":
        return hutchinson_diagonal(objective, params, rows, key, samples=samples)[0]
    return _mean_of_squares(objective, params, rows, kind, None)
