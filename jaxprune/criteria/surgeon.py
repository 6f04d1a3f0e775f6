"""Removing weights one at a time while the others make up for it (optimal brain surgeon; Hassibi and Stork 1992)."""

from __future__ import annotations

import operator
from typing import Any

import jax
import jax.numpy as jnp


def check_keep(keep: Any, size: int, what: str) -> int:
    """`keep` as an int in [0, size].

    Raises:
      TypeError: not an integer.
      ValueError: out of range.
    """
    try:
        count = operator.index(keep)
    except TypeError:
        raise TypeError(
            f"expected an integer number of weights to keep in {what}, got {keep!r}; kept_count(sparsity, n) turns a sparsity into one"
        ) from None
    if not 0 <= count <= size:
        raise ValueError(f"expected to keep between 0 and {size} weights in {what}, got {count}")
    return count


def damped_inverse(matrix: jax.Array, damping: jax.Array) -> jax.Array:
    """(matrix + damping·I)⁻¹ for a positive semi-definite [n, n] matrix, symmetric to the last bit."""
    identity = jnp.eye(matrix.shape[-1], dtype=matrix.dtype)
    factor = jax.scipy.linalg.cho_factor(matrix + damping * identity)
    inverse = jax.scipy.linalg.cho_solve(factor, identity)
    return (inverse + inverse.T) / 2


def remove_greedily(inverse: jax.Array, weights: jax.Array, alive: jax.Array, count: jax.Array) -> tuple[jax.Array, ...]:
    """Remove `count` weights, each time the one that costs least, w_q²/(2 [H⁻¹]_qq); the rest move by −w_q/[H⁻¹]_qq · H⁻¹e_q.

    After each removal the inverse is that of the remaining weights' matrix.

    Args:
      inverse: H⁻¹, [n, n].
      weights: [n].
      alive: [n]; the others are not touched, and their rows of H must be zero off the diagonal.
      count: how many to remove; no more than are alive.

    Returns:
      The weights, exactly 0.0 where removed; which ones are left of those alive; and the cost of each removal in order, infinite after the
      last. All [n].
    """
    infinity = jnp.asarray(jnp.inf, weights.dtype)

    def step(i, carry):
        inverse, weights, left, costs = carry
        pivots = jnp.where(left, jnp.diagonal(inverse), jnp.ones((), inverse.dtype))
        cost = jnp.where(left, weights**2 / (2 * pivots), infinity)
        worst = jnp.argmin(cost)
        removing = (i < count) & left[worst]
        column = inverse[:, worst]
        here = jnp.arange(weights.size) == worst
        rest = left & ~here
        moved = jnp.where(rest, weights - column * (weights[worst] / pivots[worst]), jnp.zeros((), weights.dtype))
        reduced = inverse - jnp.outer(column, column) / pivots[worst]
        return (
            jnp.where(removing, reduced, inverse),
            jnp.where(removing, jnp.where(alive, moved, weights), weights),
            left & ~(here & removing),
            costs.at[i].set(jnp.where(removing, cost[worst], infinity)),
        )

    start = (inverse, weights, alive, jnp.full(weights.shape, infinity))
    return jax.lax.fori_loop(0, weights.size, step, start)[1:]


def remove_over_blocks(inverses: jax.Array, weights: jax.Array, alive: jax.Array, removals: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Remove `removals` weights over independent blocks, always the cheapest of all.

    What happens in one block changes no cost in another, so the sequence over all blocks is the merge of the blocks' own: sorted by the
    largest cost so far, which keeps each block's order.

    Args:
      inverses: [blocks, n, n], or [n, n] where all share one.
      weights: [blocks, n].
      alive: [blocks, n].
      removals: int32.

    Returns:
      The weights, exactly 0.0 where removed, and which are left of those alive, both [blocks, n].
    """

    def over_blocks(counts):
        if inverses.ndim == 2:
            return jax.lax.map(lambda block: remove_greedily(inverses, *block), (weights, alive, counts), batch_size=16)
        return jax.lax.map(lambda block: remove_greedily(*block), (inverses, weights, alive, counts), batch_size=16)

    blocks, n = weights.shape
    _, _, costs = over_blocks(jnp.full(blocks, n, jnp.int32))
    order = jnp.argsort(jax.lax.cummax(costs, axis=1).ravel(), stable=True)
    rank = jnp.zeros(order.size, jnp.int32).at[order].set(jnp.arange(order.size, dtype=jnp.int32), unique_indices=True)
    counts = jnp.sum((rank < removals).reshape(blocks, n), axis=1, dtype=jnp.int32)
    pruned, left, _ = over_blocks(counts)
    return pruned, left
