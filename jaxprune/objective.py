"""The loss of one network, in the form that both pruning criteria and optimisers read."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp

Params = Any
Rows = Any


def batch_itself(batch: Any, noise: Any, context: Any) -> Rows:
    """The default `prepare`: the batch needs no noise and no targets."""
    del noise, context
    return batch


class Objective(flax.struct.PyTreeNode):
    """The loss of ONE network, every other network held fixed.

    Functions are static and `context` (frozen networks, statistics) is the only data, so an objective may be an argument of `jax.jit` and
    its context may carry a leading axis under `jax.vmap`. Two objectives made of the same function objects share one compilation.

    Attributes:
      predict: (params, rows, context) -> outputs [B, ...], or a tree of such arrays.
      loss: (outputs, rows, context) -> [B], one value per example. Row i may depend on row i of its arguments alone.
      prepare: (batch, noise, context) -> rows. Bootstrapped targets, noise and anything coupled across the batch, computed once as arrays
        with a leading row axis; gradients never flow through it.
      signal: optional (params, context) -> scalar, for SynFlow: the summed output for an all-ones input, with the absolute value of every
        leaf, no activations and no squashing.
      convex: whether `loss` is convex in `outputs`, which the Gauss-Newton matrix needs to be positive semi-definite.
      context: data the functions read.
      chunk: with a number, the mean over rows and its derivatives are accumulated over so many rows at a time, in the memory of one chunk.
    """

    predict: Callable[[Params, Rows, Any], Any] = flax.struct.field(pytree_node=False)
    loss: Callable[[Any, Rows, Any], jax.Array] = flax.struct.field(pytree_node=False)
    prepare: Callable[[Any, Any, Any], Rows] = flax.struct.field(pytree_node=False, default=batch_itself)
    signal: Callable[[Params, Any], jax.Array] | None = flax.struct.field(pytree_node=False, default=None)
    convex: bool = flax.struct.field(pytree_node=False, default=True)
    context: Any = None
    chunk: int | None = flax.struct.field(pytree_node=False, default=None)

    def rows(self, batch: Any, noise: Any) -> Rows:
        """Rows for `losses`, gradient-stopped."""
        return jax.lax.stop_gradient(self.prepare(batch, noise, self.context))

    def outputs(self, params: Params, rows: Rows) -> Any:
        """Network outputs, [B, ...]."""
        return self.predict(params, rows, self.context)

    def losses(self, params: Params, rows: Rows) -> jax.Array:
        """Loss of each example, [B]."""
        return self.loss(self.outputs(params, rows), rows, self.context)

    def __call__(self, params: Params, rows: Rows) -> jax.Array:
        """Mean loss over the rows, a scalar."""
        if self.chunk is None or self.chunk >= row_count(rows):
            return jnp.mean(self.losses(params, rows))
        return sum_over_rows(lambda part: jnp.sum(self.losses(params, part)), rows, self.chunk) / row_count(rows)


def row_count(rows: Rows) -> int:
    """B, the length of the leading axis."""
    return jax.tree.leaves(rows)[0].shape[0]


def sum_over_rows(function: Callable[[Rows], Any], rows: Rows, chunk: int) -> Any:
    """The sum of `function(part)` over consecutive parts of at most `chunk` rows.

    Only one part's intermediate values are alive at a time, in derivatives too: they are computed again on the way back.

    Raises:
      ValueError: chunk is below 1.
    """
    if chunk < 1:
        raise ValueError(f"expected chunks of at least one row, got chunk={chunk}")
    function = jax.checkpoint(function)
    whole, rest = divmod(row_count(rows), chunk)
    parts = jax.tree.map(lambda leaf: leaf[: whole * chunk].reshape(whole, chunk, *leaf.shape[1:]), rows)
    totals = []
    if whole == 1:
        totals.append(function(jax.tree.map(lambda leaf: leaf[0], parts)))
    elif whole:
        first = jax.tree.map(lambda leaf: leaf[0], parts)
        zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(function, first))
        total, _ = jax.lax.scan(lambda total, part: (jax.tree.map(jnp.add, total, function(part)), None), zeros, parts)
        totals.append(total)
    if rest:
        totals.append(function(jax.tree.map(lambda leaf: leaf[whole * chunk :], rows)))
    return functools.reduce(functools.partial(jax.tree.map, jnp.add), totals)


@functools.lru_cache(maxsize=128)
def _callable_in_chunks(function: Callable[[Params, Rows], jax.Array], chunk: int) -> Callable[[Params, Rows], jax.Array]:
    def mean(params, rows):
        return sum_over_rows(lambda part: row_count(part) * function(params, part), rows, chunk) / row_count(rows)

    return mean


def in_chunks(objective: Any, chunk: int) -> Any:
    """The same mean loss and derivatives, accumulated over `chunk` rows at a time.

    Args:
      objective: an `Objective`, or any (params, rows) -> scalar that is a mean over rows.
      chunk: rows at a time.
    """
    return dataclasses.replace(objective, chunk=chunk) if isinstance(objective, Objective) else _callable_in_chunks(objective, chunk)
