"""When to prune during training: once the weights have stopped moving fast (EarlyCroP; Rachwan et al. 2022).

At every check t the relative movement r_t = ‖θ_ref − θ_t‖ / ‖θ_ref‖ of the prunable kernels is measured; pruning is due when it hardly
changes from one check to the next, |r_t − r_(t−1)| < τ: a cheap stand-in for a neural tangent kernel that has become nearly constant.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp

from jaxprune.parameters import Prunable, is_kernel, prunable_leaves

THRESHOLDS = ("code", "paper")
REFERENCES = ("first", "init")


@dataclasses.dataclass(frozen=True)
class Detector:
    """The rule; static under jit.

    Attributes:
      sparsity: s, what will be pruned.
      structure: `weights`, `units` or `hybrid`, which counts as weights here.
      threshold: `code`, the authors' code: τ = r_1·(1 − s) for weights, r_1·min(0.9 − s, 0.99) for units; `paper`, as its readers report
        it: τ = 1 − s.
      reference: `first`, the authors' code: θ_ref is the weights at the first check, and r_1 is measured at the second; `init`: θ_ref is
        the weights before training, and r_1 is measured at the first check. Either way the first comparison is of r_2 with r_1.
      cap: prune after so many updates whatever the movement; None never does.

    Raises:
      ValueError: an unknown name, or a threshold that can never fire at this sparsity.
    """

    sparsity: float
    structure: str = "weights"
    threshold: str = "code"
    reference: str = "first"
    cap: int | None = None

    def __post_init__(self):
        for name, known in (("structure", ("weights", "units", "hybrid")), ("threshold", THRESHOLDS), ("reference", REFERENCES)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name}={getattr(self, name)!r} is unknown; expected one of {', '.join(known)}")
        if not 0 <= self.sparsity <= 1:
            raise ValueError(f"expected a sparsity in [0, 1], got {self.sparsity}")
        if self.cap is not None and self.cap < 1:
            raise ValueError(f"expected a cap of at least one update, got {self.cap}")
        if self.scale <= 0:
            if self.threshold == "code" and self.structure == "units" and self.sparsity < 1:
                raise ValueError(
                    f"threshold='code' can never fire for units at sparsity {self.sparsity}: it is r_1·(0.9 − s), not above zero from 0.9 "
                    "on; use threshold='paper', which is 1 − s, or prune at a fixed step"
                )
            raise ValueError(f"threshold={self.threshold!r} can never fire at sparsity {self.sparsity}: it is 1 − s; prune at a fixed step")

    @property
    def scale(self) -> float:
        """τ, as a multiple of r_1 for `code`."""
        if self.threshold == "code" and self.structure == "units":
            return min(0.9 - self.sparsity, 0.99)
        return 1 - self.sparsity


@flax.struct.dataclass
class DetectorState:
    """What a detector remembers; movements are NaN while they are not known.

    Attributes:
      reference: θ_ref, {leaf path: array} of the kernels.
      checks: int32, checks made.
      first: r_1.
      movement: r_t of the last check.
      change: |r_t − r_(t−1)| of the last check.
      bound: τ.
    """

    reference: dict[str, jax.Array]
    checks: jax.Array
    first: jax.Array
    movement: jax.Array
    change: jax.Array
    bound: jax.Array


def relative_movement(reference: dict[str, jax.Array], now: dict[str, jax.Array]) -> jax.Array:
    """‖θ_ref − θ‖ / ‖θ_ref‖ over all leaves together, a scalar."""
    moved = sum(jnp.sum((reference[name] - now[name]) ** 2) for name in reference)
    return jnp.sqrt(moved / sum(jnp.sum(leaf**2) for leaf in reference.values()))


def watch(params: Any, *, prunable: Prunable = is_kernel) -> DetectorState:
    """A detector's state before training. May be vmapped over runs.

    Args:
      params: of all networks watched together, {network: parameters}, or of one.
      prunable: which leaves count.
    """
    kernels = {name: jnp.asarray(leaf) for name, leaf in prunable_leaves(params, prunable).items()}
    unknown = jnp.full((), jnp.nan, jnp.result_type(*kernels.values()))
    return DetectorState(kernels, jnp.zeros((), jnp.int32), unknown, unknown, unknown, unknown)


def check(
    detector: Detector, state: DetectorState, params: Any, step: Any, *, prunable: Prunable = is_kernel
) -> tuple[DetectorState, jax.Array]:
    """One check. A pure function: it may be jitted with a static detector and vmapped over runs.

    Args:
      detector: the rule.
      state: from `watch`, or of the check before.
      params: as given to `watch`, now.
      step: updates made, an int or int32 scalar, for the cap.
      prunable: as given to `watch`.

    Returns:
      The state, and whether to prune now, a bool scalar.
    """
    now = {name: jnp.asarray(leaf) for name, leaf in prunable_leaves(params, prunable).items()}
    checks = state.checks + 1
    measured = checks
    reference = state.reference
    if detector.reference == "first":
        measured = checks - 1
        reference = jax.tree.map(lambda old, new: jnp.where(measured == 0, new, old), reference, now)
    movement = relative_movement(reference, now)
    unknown = jnp.full_like(movement, jnp.nan)
    movement = jnp.where(measured >= 1, movement, unknown)
    first = jnp.where(measured == 1, movement, state.first)
    change = jnp.where(measured >= 2, jnp.abs(movement - state.movement), unknown)
    bound = jnp.asarray(detector.scale, movement.dtype)
    if detector.threshold == "code":
        bound = bound * first
    fired = change < bound
    if detector.cap is not None:
        fired = fired | (jnp.asarray(step) >= detector.cap)
    return DetectorState(reference, checks, first, movement, change, bound), fired
