"""Masks: how many weights to keep, which ones, and what a mask does to a tree."""

from __future__ import annotations

import decimal
import numbers
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxprune.parameters import Prunable, apply_masks, is_kernel, prunable_leaves, prunable_tree

__all__ = ["apply_masks", "dense_masks", "density", "invert_scores", "kept_count", "ranks", "select", "shuffle_masks"]


def _is_number(value: Any) -> bool:
    if isinstance(value, decimal.Decimal):
        return True
    array = np.asarray(value)
    return not array.ndim and (jnp.issubdtype(array.dtype, jnp.floating) or jnp.issubdtype(array.dtype, jnp.integer))


def kept_count(sparsity: Any, n: int) -> int:
    """(1 − sparsity)·n in decimal arithmetic, halves rounded up: how many of `n` prunable weights stay.

    Args:
      sparsity: the fraction removed, in [0, 1]; a Python, NumPy or concrete JAX number, or a `decimal.Decimal`.
      n: number of prunable weights.

    Raises:
      TypeError: sparsity is traced, or no number (a bool is none).
      ValueError: sparsity is outside [0, 1] or not finite, or n is negative.

    Examples:
      >>> import jaxprune as jp
      >>> jp.kept_count(0.95, 69_120)
      3456
      >>> jp.kept_count(0.93, 50)  # 3.5, where binary fractions have 3.4999…
      4
    """
    if isinstance(sparsity, Tracer):
        raise TypeError("kept_count runs on the host: compute the count outside jit and pass it in as an int32")
    if not _is_number(sparsity):
        raise TypeError(f"expected a sparsity in [0, 1], a number, got {sparsity!r}")
    value = sparsity if isinstance(sparsity, decimal.Decimal) else decimal.Decimal(str(np.asarray(sparsity)[()]))
    if not value.is_finite() or not 0 <= value <= 1:
        raise ValueError(f"expected a sparsity in [0, 1], the fraction of weights removed; got {sparsity}")
    if n < 0:
        raise ValueError(f"expected a number of weights of at least 0, got {n}")
    return int(((1 - value) * n).to_integral_value(decimal.ROUND_HALF_UP))


def ranks(scores: Any, classes: Any = None) -> Any:
    """The place of every weight among all leaves given: 0 for the largest score. Ties by leaf order, then index; NaN comes last.

    One ranking serves every sparsity: the mask that keeps k weights is `rank < k`.

    Args:
      scores: a tree of arrays; larger means keep.
      classes: integers with the same structure and shapes, where given: a lower class comes before a higher one, whatever the scores.

    Returns:
      int32 arrays with the structure and shapes of `scores`.
    """
    leaves, structure = jax.tree.flatten(scores)
    if not leaves:
        return scores
    with jax.numpy_dtype_promotion("standard"):
        dtype = jnp.result_type(*leaves)
    flat = jnp.concatenate([jnp.ravel(leaf).astype(dtype) for leaf in leaves])
    # An ascending sort puts NaN last; for integers, negation would overflow where the complement does not.
    ascending = -flat if jnp.issubdtype(dtype, jnp.inexact) else ~flat
    if classes is None:
        order = jnp.argsort(ascending, stable=True)
    else:
        order = jnp.lexsort((ascending, jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(classes)])))
    rank = jnp.zeros(flat.size, jnp.int32).at[order].set(jnp.arange(flat.size, dtype=jnp.int32), unique_indices=True)
    pieces = jnp.split(rank, np.cumsum([leaf.size for leaf in leaves])[:-1])
    return structure.unflatten([piece.reshape(leaf.shape) for piece, leaf in zip(pieces, leaves, strict=True)])


def check_count(keep: Any, size: int) -> None:
    """Refuse what is no number of weights to keep among `size`.

    Raises:
      TypeError: keep is not an integer.
      ValueError: keep is outside [0, size] (checked where it is concrete).
    """
    whole = isinstance(keep, numbers.Integral) or (hasattr(keep, "dtype") and jnp.issubdtype(keep.dtype, jnp.integer) and not np.ndim(keep))
    if isinstance(keep, bool) or not whole:
        raise TypeError(f"expected an integer number of weights to keep, got {keep!r}; kept_count(sparsity, n) turns a sparsity into one")
    if not isinstance(keep, Tracer) and not 0 <= int(keep) <= size:
        raise ValueError(f"expected to keep between 0 and {size} weights, got {int(keep)}")


def select(scores: Any, keep: Any) -> Any:
    """Boolean masks, True at exactly the `keep` largest scores over all leaves given.

    Args:
      scores: a tree of arrays; larger means keep.
      keep: an int, or an int32 scalar that may be traced, so that one compilation serves every sparsity.

    Raises:
      TypeError: keep is not an integer.
      ValueError: keep is outside [0, number of scores] (checked where it is concrete).

    Examples:
      >>> import jax.numpy as jnp
      >>> import jaxprune as jp
      >>> masks = jp.select({"a": jnp.array([3.0, 1.0]), "b": jnp.array([2.0, 5.0])}, 2)
      >>> masks["a"].tolist(), masks["b"].tolist()
      ([True, False], [False, True])
    """
    check_count(keep, sum(np.size(leaf) for leaf in jax.tree.leaves(scores)))
    return jax.tree.map(lambda rank: rank < keep, ranks(scores))


def dense_masks(params: Any) -> Any:
    """Masks that keep everything."""
    return jax.tree.map(lambda leaf: jnp.ones(jnp.shape(leaf), bool), params)


def density(masks: Any, *, prunable: Prunable = is_kernel) -> jax.Array:
    """The fraction of prunable weights kept, a float32 scalar; 1 − density is the sparsity reached.

    Examples:
      >>> import jax.numpy as jnp
      >>> import jaxprune as jp
      >>> masks = {"kernel": jnp.array([[True, False], [False, False]]), "bias": jnp.array([True, True])}
      >>> float(jp.density(masks))  # the bias does not count
      0.25
    """
    leaves = list(prunable_leaves(masks, prunable).values())
    kept = sum(jnp.sum(leaf, dtype=jnp.int32) for leaf in leaves)
    return jnp.asarray(kept, jnp.float32) / max(1, sum(leaf.size for leaf in leaves))


def shuffle_masks(key: jax.Array, masks: Any, *, prunable: Prunable = is_kernel, members: bool = False) -> Any:
    """The same number of weights in every layer, at random places (Frankle et al. 2021, the layerwise shuffle).

    For networks at their full size: masks alone do not tell the padding of compacted arrays from places for weights, and `mask_agent`
    refuses what would keep any of it.

    Args:
      key: for the places.
      masks: of one network.
      prunable: which leaves are shuffled.
      members: whether the leaves of several networks lie stacked along their first axis, as twin critics' do: each keeps its own number.
    """
    chosen = prunable_tree(masks, prunable)
    leaves, structure = jax.tree.flatten(masks)

    def shuffled(key: jax.Array, mask: jax.Array) -> jax.Array:
        if members:
            return jax.random.permutation(key, mask.reshape(mask.shape[0], -1), axis=1, independent=True).reshape(mask.shape)
        return jax.random.permutation(key, mask.ravel()).reshape(mask.shape)

    return structure.unflatten(
        shuffled(jax.random.fold_in(key, index), mask) if choose else mask
        for index, (mask, choose) in enumerate(zip(leaves, jax.tree.leaves(chosen), strict=True))
    )


def invert_scores(scores: Any) -> Any:
    """Scores that keep what the given ones would remove (Frankle et al. 2021)."""
    return jax.tree.map(jnp.negative, scores)
