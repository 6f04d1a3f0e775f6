"""The loss of one network, in the form that both pruning criteria and optimisers read."""

from __future__ import annotations

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


@flax.struct.dataclass
class Objective:
    """The loss of ONE network, every other network held fixed.

    Functions are static and `context` (frozen networks, statistics) is the only data, so an objective may be an argument of `jax.jit` and its
    context may carry a leading axis under `jax.vmap`. Two objectives made of the same function objects share one compilation.

    Attributes:
      predict: (params, rows, context) -> outputs [B, ...], or a tree of such arrays.
      loss: (outputs, rows, context) -> [B], one value per example. Row i may depend on row i of its arguments alone.
      prepare: (batch, noise, context) -> rows. Bootstrapped targets, noise and anything coupled across the batch, computed once as arrays with a
        leading row axis; gradients never flow through it.
      signal: optional (params, context) -> scalar, for SynFlow: the summed output for an all-ones input, with the absolute value of every leaf, no
        activations and no squashing.
      convex: whether `loss` is convex in `outputs`, which the Gauss-Newton matrix needs to be positive semi-definite.
      context: data the functions read.
    """

    predict: Callable[[Params, Rows, Any], Any] = flax.struct.field(pytree_node=False)
    loss: Callable[[Any, Rows, Any], jax.Array] = flax.struct.field(pytree_node=False)
    prepare: Callable[[Any, Any, Any], Rows] = flax.struct.field(pytree_node=False, default=batch_itself)
    signal: Callable[[Params, Any], jax.Array] | None = flax.struct.field(pytree_node=False, default=None)
    convex: bool = flax.struct.field(pytree_node=False, default=True)
    context: Any = None

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
        return jnp.mean(self.losses(params, rows))
