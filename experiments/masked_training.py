"""Training a network under masks, whatever its loss, with the losses it had on the way."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import optax

import jaxprune as jp

Curve = dict[str, jax.Array]


class Problem(flax.struct.PyTreeNode):
    """What is learnt, from which rows, and how.

    Attributes:
      objective: the loss that trains and prunes.
      train: rows to draw batches from.
      seen: rows of `train` that the training loss is measured on.
      held_out: rows that nothing is trained or pruned on.
      optimizer: any optax gradient transformation.
      batch_size: rows an update, drawn with replacement.
      wrong: (outputs, rows) -> [B], what is counted as an error; None where nothing is.
    """

    objective: jp.Objective
    train: Any
    seen: Any
    held_out: Any
    optimizer: optax.GradientTransformation = flax.struct.field(pytree_node=False)
    batch_size: int = flax.struct.field(pytree_node=False)
    wrong: Callable[[Any, Any], jax.Array] | None = flax.struct.field(pytree_node=False, default=None)

    def draw(self, key: jax.Array, count: int) -> Any:
        """So many training rows."""
        total = jax.tree.leaves(self.train)[0].shape[0]
        chosen = jax.random.randint(key, (count,), 0, total)
        return jax.tree.map(lambda leaf: leaf[chosen], self.train)

    def measure(self, params: Any) -> Curve:
        """Scalars: `loss` and `held_out_loss`, and `error`, the fraction of held-out rows that are wrong."""
        outputs = self.objective.outputs(params, self.held_out)
        found = {
            "loss": self.objective(params, self.seen),
            "held_out_loss": jnp.mean(self.objective.loss(outputs, self.held_out, self.objective.context)),
        }
        return found if self.wrong is None else {**found, "error": jnp.mean(self.wrong(outputs, self.held_out))}


@jax.jit
def measured(problem: Problem, params: Any) -> Curve:
    """`problem.measure`."""
    return problem.measure(params)


def _fit(problem: Problem, params: Any, masks: Any, key: jax.Array, lengths: jax.Array) -> tuple[Any, Curve]:
    optimizer = problem.optimizer

    def update(step, carry):
        params, opt_state = carry
        gradient = jax.grad(problem.objective)(params, problem.draw(jax.random.fold_in(key, step), problem.batch_size))
        updates, opt_state = optimizer.update(jp.apply_masks(gradient, masks), opt_state, params)
        return optax.apply_updates(params, jp.apply_masks(updates, masks)), opt_state

    def segment(carry, length):
        params, opt_state, step = carry
        params, opt_state = jax.lax.fori_loop(step, step + length, update, (params, opt_state))
        return (params, opt_state, step + length), problem.measure(params)

    params = jp.apply_masks(params, masks)
    (params, *_), curve = jax.lax.scan(segment, (params, optimizer.init(params), jnp.int32(0)), lengths)
    return params, curve


@functools.partial(jax.jit, static_argnames=("together",))
def _fit_all(problem, params, masks, keys, lengths, *, together):
    if together:
        return jax.vmap(_fit, in_axes=(None, 0, 0, 0, None))(problem, params, masks, keys, lengths)
    return jax.lax.map(lambda run: _fit(problem, run[0], run[1], run[2], lengths), (params, masks, keys))


def fit(problem: Problem, params: Any, masks: Any, keys: jax.Array, points: tuple[int, ...]) -> tuple[Any, Curve]:
    """Train a stack of runs under masks, with fresh optimizer states, in one program.

    Update t of a run draws its batch from fold_in(key, t). Runs go beside each other on an accelerator and one after the other on a CPU,
    whose caches hold one.

    Args:
      problem: what is learnt.
      params: leaves [runs, …].
      masks: likewise; a masked weight is and stays exactly 0.0.
      keys: [runs].
      points: numbers of updates, ascending, after which to measure; training ends at the last.

    Returns:
      Parameters [runs, …], and curves [runs, points].
    """
    lengths = jnp.diff(jnp.asarray((0, *points), jnp.int32))
    return _fit_all(problem, params, masks, keys, lengths, together=jax.default_backend() != "cpu")


def stacked(trees: list[Any]) -> Any:
    """Trees of one structure as one, leaves [len(trees), …]."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def unstacked(tree: Any) -> list[Any]:
    """The inverse of `stacked`."""
    return [jax.tree.map(operator.itemgetter(i), tree) for i in range(jax.tree.leaves(tree)[0].shape[0])]
