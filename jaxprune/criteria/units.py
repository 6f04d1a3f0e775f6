"""Scores of whole hidden units, by a gate c = 1 on each unit's pre-activation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from jaxprune.parameters import Prunable, UnitGroup, apply_masks, is_kernel, prunable_leaves, prunable_tree, replace_leaves


class UnitCriterion(Protocol):
    """Scores of every hidden unit; larger means keep."""

    def __call__(
        self, objective: Any, params: Any, groups: Sequence[UnitGroup], rows: Any, key: jax.Array | None = None, *, masks: Any = None
    ) -> dict[str, jax.Array]:
        """{group name: [units]}, [members, units] for a stack of networks.

        Args:
          objective: an `Objective` or any callable (params, rows) -> scalar.
          params: parameters of one network, or one stack.
          groups: its hidden layers.
          rows: what the objective reads.
          key: for criteria that draw.
          masks: where given, the network scored is the masked one.
        """
        ...


def _shape(group: UnitGroup) -> tuple[int, ...]:
    return (group.members, group.size) if group.members else (group.size,)


def _along(group: UnitGroup, axis: int, ndim: int) -> tuple[int, ...]:
    """The shape in which one value a unit broadcasts against a producer."""
    shape = [1] * ndim
    shape[axis] = group.size
    if group.members:
        shape[0] = group.members
    return tuple(shape)


def gated(params: Any, groups: Sequence[UnitGroup], gates: dict[str, jax.Array]) -> Any:
    """`params` with every unit's pre-activation multiplied by its gate: the slices that produce it, biases included, are."""
    leaves = prunable_leaves(params, lambda path, leaf: True)
    changed: dict[str, jax.Array] = {}
    for group in groups:
        for path, axis in group.producers:
            leaf = changed[path] if path in changed else leaves[path]
            changed[path] = leaf * gates[group.name].reshape(_along(group, axis, leaf.ndim))
    return replace_leaves(params, changed)


def _gate_gradient(objective: Any, params: Any, groups: Sequence[UnitGroup], rows: Any) -> dict[str, jax.Array]:
    """∂L/∂c at c = 1."""
    dtype = jnp.result_type(*jax.tree.leaves(params))
    ones = {group.name: jnp.ones(_shape(group), dtype) for group in groups}
    return jax.grad(lambda gates: objective(gated(params, groups, gates), rows))(ones)


def snap(
    objective: Any, params: Any, groups: Sequence[UnitGroup], rows: Any, key: jax.Array | None = None, *, masks: Any = None
) -> dict[str, jax.Array]:
    """|∂L/∂c| (SNAP; Verdenius et al. 2020, as used by Rachwan et al. 2022)."""
    del key
    if masks is not None:
        params = apply_masks(params, masks)
    return jax.tree.map(jnp.abs, _gate_gradient(objective, params, groups, rows))


def crop_units(
    objective: Any,
    params: Any,
    groups: Sequence[UnitGroup],
    rows: Any,
    key: jax.Array | None = None,
    *,
    masks: Any = None,
    prunable: Prunable = is_kernel,
) -> dict[str, jax.Array]:
    """|∂/∂c ⟨G, ∂L/∂W(c)⟩| at c = 1, with G the kernels' gradient held constant (CroP-S; Rachwan et al. 2022).

    One Jacobian-vector product: the tangent G through θ ↦ ∂L/∂c.
    """
    del key
    live = prunable_tree(params, prunable)
    if masks is not None:
        params = apply_masks(params, masks)
        live = jax.tree.map(jnp.logical_and, masks, live)
    gradient = jax.grad(objective)(params, rows)
    flow = jax.tree.map(lambda g, keep: jnp.where(keep, g, jnp.zeros((), g.dtype)), gradient, live)
    _, change = jax.jvp(lambda p: _gate_gradient(objective, p, groups, rows), (params,), (flow,))
    return jax.tree.map(jnp.abs, change)


def l1(
    objective: Any,
    params: Any,
    groups: Sequence[UnitGroup],
    rows: Any,
    key: jax.Array | None = None,
    *,
    masks: Any = None,
    prunable: Prunable = is_kernel,
) -> dict[str, jax.Array]:
    """Σ|w| over the kernel slices that produce a unit. Grows with a layer's fan-in: to be ranked layer by layer."""
    del objective, rows, key
    if masks is not None:
        params = apply_masks(params, masks)
    leaves = prunable_leaves(params, prunable)
    scores = {}
    for group in groups:
        kept_axes = {path: {axis, 0} if group.members else {axis} for path, axis in group.producers if path in leaves}
        norms = [jnp.sum(jnp.abs(leaves[path]), axis=tuple(set(range(leaves[path].ndim)) - axes)) for path, axes in kept_axes.items()]
        scores[group.name] = sum(norms[1:], norms[0])
    return scores


def random_units(
    objective: Any, params: Any, groups: Sequence[UnitGroup], rows: Any, key: jax.Array | None = None, *, masks: Any = None
) -> dict[str, jax.Array]:
    """Uniform scores in [0, 1).

    Raises:
      ValueError: no key.
    """
    del objective, rows, masks
    if key is None:
        raise ValueError("the unit criterion 'random' draws its scores: pass key=jax.random.key(seed)")
    dtype = jnp.result_type(*jax.tree.leaves(params))
    return {group.name: jax.random.uniform(jax.random.fold_in(key, i), _shape(group), dtype) for i, group in enumerate(groups)}


UNIT_CRITERIA: dict[str, UnitCriterion] = {"crop": crop_units, "snap": snap, "l1": l1, "random": random_units}
