"""Dropping the hidden units that no live path crosses and packing the rest: the same function in smaller arrays.

What is live is told by the masks, never by values. A unit with no live output is dropped. One with no live input outputs the constant
activation(bias): that is folded into the biases of the layer that reads it, and the unit dropped.

Folding keeps the function. It also keeps the path of later training where the constant is zero and stays so, as with zero biases and ReLU;
elsewhere the masked network could still train the constant, the compacted one trains the bias it went into.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxprune.parameters import UnitGroup, named_leaves
from jaxprune.pruning.unit_layout import Segment, UnitLayout, as_declared, bias_beside, is_bias, map_named, per_member

__all__ = ["Plan", "compact_tree", "expand_tree", "fold_constants", "live_units", "packed_units", "regroup_tree"]


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a compaction did.

    Attributes:
      groups: the unit groups at their sizes before.
      units: {group: int32 [width] or [members, width]}, the old index of every new unit, −1 for padding.
      constants: {group: bool [size] or [members, size]}, the units that were folded into the biases after them.
    """

    groups: tuple[UnitGroup, ...]
    units: dict[str, np.ndarray]
    constants: dict[str, np.ndarray]

    @property
    def widths(self) -> dict[str, int]:
        """{group: units after}."""
        return {name: units.shape[-1] for name, units in self.units.items()}

    @property
    def shrinks(self) -> bool:
        """Whether any array gets smaller."""
        return any(self.units[group.name].shape[-1] < group.size for group in self.groups)


def _concrete(masks: Any) -> dict[str, np.ndarray]:
    leaves = named_leaves(masks)
    for name, leaf in leaves.items():
        if isinstance(leaf, Tracer):
            raise TypeError(
                f"the masks of {name} are traced, but a compacted network's shapes depend on them: compact outside jit, vmap and scan"
            )
    return {name: np.asarray(leaf) for name, leaf in leaves.items()}


class _Liveness:
    """Which units carry signal, by the masks alone."""

    def __init__(self, masks: Mapping[str, np.ndarray], groups: Sequence[UnitGroup]):
        self.layout = UnitLayout(groups)
        self.layout.check(masks)
        self.masks = {path: self.layout.stacked(path, masks[path]) for path in self.layout.leaves}
        self.bias_of = {path: bias_beside(path, masks) for path in self.layout.leaves}
        members = {path: array.shape[0] for path, array in self.masks.items()}
        self.biases = {}
        for path, bias in self.bias_of.items():
            if bias is not None:
                array = np.asarray(masks[bias])
                self.biases[bias] = array if array.ndim == 2 else np.broadcast_to(array, (members[path], *array.shape))
        self.alive = {group.name: np.ones((max(1, group.members), group.size), bool) for group in groups}

    def ends(self, group: UnitGroup, produces: bool) -> list[tuple[str, Segment]]:
        return [(path, s) for path, segments in self.layout.leaves.items() for s in segments if s.group is group and s.produces == produces]

    def reach(self, path: str, segment: Segment) -> np.ndarray:
        """The mask of the segment's part of the leaf, without what belongs to dropped units of other groups: bool [members, …]."""
        mask = self.masks[path]
        for other in self.layout.leaves[path]:
            if other is not segment:
                kept = np.ones((mask.shape[0], mask.shape[other.axis]), bool)
                kept[:, other.part] = self.alive[other.group.name]
                mask = mask & self.layout.along(other, kept, mask.ndim)
        return mask[(slice(None),) * segment.axis + (segment.part,)]

    def crossing(self, path: str, segment: Segment) -> np.ndarray:
        """Whether any live weight of the leaf touches each unit: bool [members, units]."""
        mask = self.reach(path, segment)
        return np.asarray(mask.any(axis=tuple(axis for axis in range(1, mask.ndim) if axis != segment.axis)))

    def with_output(self, group: UnitGroup) -> np.ndarray:
        return self._any(group, [self.crossing(*end) for end in self.ends(group, produces=False)])

    def with_input(self, group: UnitGroup) -> np.ndarray:
        """Units with a live input; all of them where something other than kernels and biases makes them."""
        producers = self.ends(group, produces=True)
        if any(self.masks[path].ndim == 2 and not is_bias(path) for path, _ in producers):
            return np.ones_like(self.alive[group.name])
        return self._any(group, [self.crossing(*end) for end in producers if self.masks[end[0]].ndim > 2])

    def _any(self, group: UnitGroup, parts: list[np.ndarray]) -> np.ndarray:
        return np.asarray(np.logical_or.reduce([np.zeros_like(self.alive[group.name]), *parts]))

    def foldable(self, group: UnitGroup) -> np.ndarray:
        """Units whose constant has a place to go: every live weight that reads it leads to a bias that is not masked.

        A unit without a bias of its own needs no place if the activation maps zero to zero.
        """
        blocked = np.zeros_like(self.alive[group.name])
        for path, segment in self.ends(group, produces=False):
            reach, bias = self.reach(path, segment), self.bias_of[path]
            if bias is None or reach.ndim != 3 or segment.axis != 1:
                blocked |= self.crossing(path, segment)
            else:
                blocked |= (reach & ~self.biases[bias][:, None, :]).any(axis=2)
        own = self._any(group, [self.masks[path] for path, _ in self.ends(group, produces=True) if self.masks[path].ndim == 2])
        return ~blocked | (~own & _maps_zero_to_zero(group))


def _maps_zero_to_zero(group: UnitGroup) -> bool:
    return not np.asarray(group.activation(jnp.zeros(1))).any()


def live_units(
    masks: Any, groups: Sequence[UnitGroup], *, may_fold: Mapping[str, np.ndarray] | None = None
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The units that must stay, and among the others those that output a constant.

    Args:
      masks: of one network or stack, concrete.
      groups: its hidden layers.
      may_fold: {group: bool [units] or [members, units]}, the units without live input that may be dropped at all; all of them by default.

    Returns:
      Two dicts {group: bool [units] or [members, units]}: live, and constant (dropped for want of a live input, so to be folded).

    Raises:
      TypeError: traced masks.
      ValueError: the groups do not fit the leaves.
    """
    net = _Liveness(_concrete(masks), groups)
    allowed = {
        group.name: np.ones_like(net.alive[group.name]) if may_fold is None else per_member(group, may_fold[group.name]) for group in groups
    }
    while True:
        before = {name: alive.copy() for name, alive in net.alive.items()}
        for group in groups:
            stays = net.with_input(group) | ~(net.foldable(group) & allowed[group.name])
            net.alive[group.name] &= net.with_output(group) & stays
        if all((before[name] == net.alive[name]).all() for name in before):
            break
    constants = {group.name: as_declared(group, ~net.alive[group.name] & ~net.with_input(group)) for group in groups}
    return {group.name: as_declared(group, net.alive[group.name]) for group in groups}, constants


def packed_units(
    live: Mapping[str, np.ndarray], groups: Sequence[UnitGroup], *, multiple: int = 1, widths: Mapping[str, int] | None = None
) -> dict[str, np.ndarray]:
    """Live units in their order, then padding: {group: int32 [width] or [members, width]}.

    Args:
      live: {group: bool}, from `live_units`.
      groups: the hidden layers.
      multiple: the width, that of the largest member and at least 1, is rounded up to a multiple of it, never above the group's size.
      widths: {group: width} to use instead; it may be above the group's size.

    Raises:
      ValueError: a width below the number of live units.
    """
    out = {}
    for group in groups:
        kept = per_member(group, live[group.name])
        most = max(1, int(kept.sum(axis=1).max()))
        width = min(group.size, -(-most // multiple) * multiple)
        if widths is not None and group.name in widths:
            width = widths[group.name]
            if width < most:
                raise ValueError(f"unit group {group.name!r} has {most} live units, more than the width {width} it was given")
        units = np.full((kept.shape[0], width), -1, np.int32)
        for m, row in enumerate(kept):
            units[m, : row.sum()] = np.flatnonzero(row)
        out[group.name] = as_declared(group, units)
    return out


def _in_order(layout: UnitLayout) -> list[UnitGroup]:
    """Groups before those they feed."""
    producers = {name: {path for path, _ in group.producers} for name, group in layout.groups.items()}
    feeds = {
        name: {other for other in layout.groups if {c[0] for c in group.consumers} & producers[other]}
        for name, group in layout.groups.items()
    }
    ordered: list[UnitGroup] = []
    while feeds:
        free = [name for name in feeds if not any(name in fed for fed in feeds.values())]
        if not free:
            raise ValueError(f"unit groups {', '.join(feeds)} feed one another in a circle")
        for name in free:
            ordered.append(layout.groups[name])
            del feeds[name]
    return ordered


def fold_constants(params: Any, groups: Sequence[UnitGroup], constants: Mapping[str, np.ndarray]) -> Any:
    """`params` with the output of constant units moved into the biases that follow, layer by layer.

    The units keep their weights: they are to be removed afterwards. Sums are taken in float64 and rounded once.

    Args:
      params: with masked weights exactly 0.0.
      groups: the hidden layers.
      constants: {group: bool}, from `live_units`.
    """
    layout, leaves = UnitLayout(groups), named_leaves(params)
    changed: dict[str, np.ndarray] = {}

    def stacked(path):
        return layout.stacked(path, changed.get(path, leaves[path]))

    for group in _in_order(layout):
        folded = per_member(group, constants[group.name])
        if not folded.any():
            continue
        before = [stacked(path) for path, _ in group.producers if is_bias(path)]
        pre = sum(before[1:], before[0]) if before else np.zeros(folded.shape, np.asarray(leaves[group.producers[0][0]]).dtype)
        outputs = np.where(folded, np.asarray(group.activation(jnp.asarray(pre))), 0).astype(np.float64)
        for path, _, offset in group.consumers:
            bias = bias_beside(path, leaves)
            kernel = stacked(path)
            if bias is None or kernel.ndim != 3:
                continue
            kernel = kernel[:, offset : offset + group.size].astype(np.float64)
            old = np.asarray(changed.get(bias, leaves[bias]))
            added = np.einsum("mi,mio->mo", outputs, kernel).reshape(old.shape)
            reached = ((outputs != 0)[:, :, None] & (kernel != 0)).any(axis=1).reshape(old.shape)
            changed[bias] = np.where(reached, old + added, old).astype(old.dtype)
    return map_named(lambda name, leaf: changed.get(name, leaf), params)


def regroup_tree(tree: Any, groups: Sequence[UnitGroup], units: Mapping[str, np.ndarray]) -> Any:
    """`tree` with the units of every group chosen anew, zeros (False) at padding.

    Args:
      tree: leaves of a network at the sizes of `groups`; an unchanged leaf is passed through.
      groups: the hidden layers.
      units: {group: int [new size] or [members, new size]}, the old index of every new unit, −1 for padding.
    """
    layout = UnitLayout(groups)
    chosen = {name: per_member(group, units[name]) for name, group in layout.groups.items()}

    def regrouped(name, leaf):
        # Not `jnp.asarray`, which compiles a program for every shape.
        return jax.device_put(layout.regrouped(name, leaf, chosen)) if name in layout.leaves else leaf

    return map_named(regrouped, tree)


def compact_tree(
    params: Any, masks: Any, groups: Sequence[UnitGroup], *, multiple: int = 1, widths: Mapping[str, int] | None = None
) -> tuple[Any, Any, Plan]:
    """The same function in smaller arrays.

    Args:
      params: of one network or stack. A stack's members are packed one by one and cut to the largest; padding units have zero, masked
        weights.
      masks: with the structure of `params`, concrete.
      groups: the hidden layers.
      multiple: widths are rounded up to a multiple of it, see `packed_units`.
      widths: {group: width} to use instead.

    Returns:
      Parameters, masks, and the plan, from which `expand_tree` gives full-size arrays back. At least one unit a layer is left, as padding
      if need be.

    Raises:
      TypeError: traced masks.
      ValueError: the groups do not fit the leaves, or a width too small.

    Examples:
      Nothing reads the first of two units, so it goes:

      >>> import jax
      >>> import jax.numpy as jnp
      >>> import jaxprune as jp
      >>> hidden = jp.UnitGroup("hidden", 2, jax.nn.relu, producers=(("first/kernel", 1),), consumers=(("second/kernel", 0, 0),))
      >>> params = {"first": {"kernel": jnp.array([[1.0, 2.0]])}, "second": {"kernel": jnp.array([[3.0], [4.0]])}}
      >>> masks = {"first": {"kernel": jnp.array([[True, True]])}, "second": {"kernel": jnp.array([[False], [True]])}}
      >>> small, small_masks, plan = jp.compact_tree(params, masks, [hidden])
      >>> small["first"]["kernel"].tolist(), small["second"]["kernel"].tolist(), plan.widths
      ([[2.0]], [[4.0]], {'hidden': 1})
    """
    live, constants = live_units(masks, groups)
    params = jax.tree.map(lambda leaf, mask: np.where(mask, leaf, np.zeros((), leaf.dtype)), params, masks)
    units = packed_units(live, groups, multiple=multiple, widths=widths)
    params = jax.device_put(regroup_tree(fold_constants(params, groups, constants), groups, units))
    return params, regroup_tree(masks, groups, units), Plan(tuple(groups), units, constants)


def original_positions(units: np.ndarray, size: int) -> np.ndarray:
    """Where each of `size` original units is among `units` [members, width], −1 where it is not: int32 [members, size]."""
    positions = np.full((units.shape[0], size), -1, np.int32)
    for m, row in enumerate(units):
        present = np.flatnonzero(row >= 0)
        positions[m, row[present]] = present
    return positions


def expand_tree(params: Any, masks: Any, plan: Plan) -> tuple[Any, Any]:
    """Full-size parameters and masks: what was dropped is exactly 0.0 and masked; constants stay where they were folded."""
    small = tuple(dataclasses.replace(group, size=plan.widths[group.name], consumers=_moved(group, plan)) for group in plan.groups)
    back = {
        group.name: as_declared(group, original_positions(per_member(group, plan.units[group.name]), group.size)) for group in plan.groups
    }
    return regroup_tree(params, small, back), regroup_tree(masks, small, back)


def _moved(group: UnitGroup, plan: Plan) -> tuple[tuple[str, int, int], ...]:
    """The group's consumers with the offsets they have after compaction."""

    def shift(path, axis, offset):
        return sum(
            other.size - plan.widths[other.name]
            for other in plan.groups
            for other_path, other_axis, other_offset in other.consumers
            if (other_path, other_axis) == (path, axis) and other_offset < offset
        )

    return tuple((path, axis, offset - shift(path, axis, offset)) for path, axis, offset in group.consumers)
