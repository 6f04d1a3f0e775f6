"""Optimal brain surgeon on the loss, block by block."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from jaxprune.criteria.curvature import resolve_curvature, row_factors
from jaxprune.criteria.surgeon import check_keep, damped_inverse, remove_over_blocks
from jaxprune.objective import row_count, sum_over_rows
from jaxprune.parameters import Prunable, apply_masks, is_kernel, prunable_leaves, replace_leaves


def obs_prune(
    objective: Any,
    params: Any,
    rows: Any,
    *,
    keep: Any,
    damping: float = 1e-2,
    block: int | None = 128,
    curvature: str = "auto",
    masks: Any = None,
    prunable: Prunable = is_kernel,
) -> tuple[Any, Any]:
    """Remove weights one at a time, the others moving so that the modelled loss rises least (Hassibi and Stork 1992; Laurent et al. 2020).

    The score of a weight is θ_q² / (2 [H⁻¹]_qq) and its removal moves the rest by −θ_q/[H⁻¹]_qq · H⁻¹e_q, where H is the damped
    Gauss-Newton matrix of the mean loss, over blocks of consecutive weights; scores and H⁻¹ follow every removal. Biases are held fixed.

    Args:
      objective: an `Objective`.
      params: parameters of one network.
      rows: B rows.
      keep: an int, the number of prunable weights to keep.
      damping: added to H's diagonal, as a fraction of its mean over the weights there are.
      block: weights in a block, in the order of `jax.tree.leaves`; None for one block. Memory is prunable weights × block.
      curvature: "ggn", "fisher" (empirical), or "auto": Gauss-Newton where the loss is convex in the outputs, else Fisher.
      masks: weights removed before, for several rounds; they stay removed.
      prunable: which leaves are pruned.

    Returns:
      New parameters, exactly 0.0 where removed, and masks, True where not prunable.

    Raises:
      TypeError: keep is not an integer.
      ValueError: keep is out of range, nothing is prunable, a field the objective lacks, or "ggn" for a loss that is not convex.
    """
    if curvature == "auto":
        curvature = "ggn" if getattr(objective, "convex", True) else "fisher"
    if curvature not in ("ggn", "fisher"):
        raise ValueError(f"curvature={curvature!r} has no matrix here; expected 'auto', 'ggn' or 'fisher'")
    resolve_curvature(objective, curvature)
    leaves = prunable_leaves(params, prunable)
    if not leaves:
        raise ValueError("no leaf of params is prunable; pass prunable=(path, leaf) -> bool that is True for your weight matrices")
    alive = {name: jnp.ones(leaf.shape, bool) for name, leaf in leaves.items()} if masks is None else prunable_leaves(masks, prunable)
    alive = {name: alive[name] for name in leaves}
    params = params if masks is None else apply_masks(params, masks)
    here = sum(int(jnp.sum(mask)) for mask in alive.values())
    removals = here - check_keep(keep, here, "the network")
    strength = jnp.asarray(damping, jnp.result_type(*leaves.values()))
    with jax.default_matmul_precision("highest"):
        pruned, left = _prune(
            objective, params, rows, alive, jnp.int32(removals), strength, block=block, curvature=curvature, prunable=prunable
        )
    everything = jax.tree.map(lambda leaf: jnp.ones(jnp.shape(leaf), bool), params)
    return replace_leaves(params, pruned), replace_leaves(everything, left)


@functools.partial(jax.jit, static_argnames=("block", "curvature", "prunable"))
def _prune(objective, params, rows, alive, removals, damping, *, block, curvature, prunable):
    flat, unravel = ravel_pytree(prunable_leaves(params, prunable))
    kept, _ = ravel_pytree(alive)
    size = flat.size if block is None else min(block, flat.size)
    padding = -flat.size % size

    def blocks(vector):
        return jnp.pad(vector, (0, padding)).reshape(-1, size)

    def squared(part):
        row = jax.tree.map(lambda leaf: leaf[0], part)
        factors = jax.vmap(lambda f: blocks(jnp.where(kept, ravel_pytree(prunable_leaves(f, prunable))[0], jnp.zeros((), flat.dtype))))(
            row_factors(objective, params, row, curvature)
        )
        return jnp.einsum("kbi,kbj->bij", factors, factors)

    matrices = sum_over_rows(squared, rows, 1) / row_count(rows)
    alive_blocks = blocks(kept)
    total = jnp.sum(kept, dtype=jnp.int32).astype(flat.dtype)
    scale = jnp.trace(matrices, axis1=1, axis2=2).sum() / jnp.maximum(total, jnp.ones((), flat.dtype))
    smallest = jnp.asarray(jnp.finfo(flat.dtype).tiny, flat.dtype)
    inverses = jax.vmap(damped_inverse, in_axes=(0, None))(matrices, jnp.maximum(damping * scale, smallest))
    weights = blocks(jnp.where(kept, flat, jnp.zeros((), flat.dtype)))
    pruned, left = remove_over_blocks(inverses, weights, alive_blocks, removals)
    chosen = {name: mask.astype(bool) for name, mask in unravel(left.ravel()[: flat.size].astype(flat.dtype)).items()}
    return unravel(pruned.ravel()[: flat.size]), chosen
