"""Where the units of each group lie in the leaves, and the change of arrays that follows from choosing units."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxprune.parameters import UnitGroup, path_name

_BIASES = ("bias", "b")


@dataclasses.dataclass(frozen=True)
class Segment:
    """The part of one axis of a leaf that counts a group's units.

    Attributes:
      group: whose units.
      axis: of the leaf with a leading member axis (of length 1 where the network is not stacked).
      offset: where they begin.
      produces: whether the leaf makes the units; else it reads them.
    """

    group: UnitGroup
    axis: int
    offset: int
    produces: bool

    @property
    def part(self) -> slice:
        """Indices of the axis."""
        return slice(self.offset, self.offset + self.group.size)


class UnitLayout:
    """The segments of every leaf that some group touches.

    Attributes:
      groups: by name.
      leaves: {leaf path: segments}.
    """

    def __init__(self, groups: Sequence[UnitGroup]):
        self.groups = {group.name: group for group in groups}
        if len(self.groups) != len(groups):
            raise ValueError(f"expected unit groups of different names, got {', '.join(group.name for group in groups)}")
        self.leaves: dict[str, list[Segment]] = {}
        for group in groups:
            lead = 0 if group.members else 1
            ends = [*((path, axis, 0, True) for path, axis in group.producers), *((*consumer, False) for consumer in group.consumers)]
            for path, axis, offset, produces in ends:
                self.leaves.setdefault(path, []).append(Segment(group, axis + lead, offset, produces))

    def stacked(self, path: str, leaf: Any) -> np.ndarray:
        """A leaf with a leading member axis, on the host."""
        array = np.asarray(leaf)
        return array if self.leaves[path][0].group.members else array[None]

    def unstacked(self, path: str, array: np.ndarray) -> np.ndarray:
        """The inverse of `stacked`."""
        return array if self.leaves[path][0].group.members else array[0]

    def check(self, leaves: Mapping[str, Any]) -> None:
        """Refuse groups that do not fit the leaves.

        Raises:
          ValueError: a group names a leaf that is not there, or more units than an axis has.
        """
        for path, segments in self.leaves.items():
            if path not in leaves:
                raise ValueError(f"unit group {segments[0].group.name!r} names {path!r}, which is no leaf; there are {', '.join(leaves)}")
            shape = self.stacked(path, np.empty(np.shape(leaves[path]), bool)).shape
            for segment in segments:
                room = shape[segment.axis] if segment.axis < len(shape) else 0
                if segment.part.stop > room or (segment.produces and room != segment.group.size):
                    raise ValueError(
                        f"unit group {segment.group.name!r} has {segment.group.size} units from index {segment.offset} of an axis of "
                        f"{path} with {room}; its declaration is wrong"
                    )

    def along(self, segment: Segment, per_unit: np.ndarray, ndim: int) -> np.ndarray:
        """[members, units] in the shape that broadcasts against the segment's leaf of `ndim` axes."""
        shape = [1] * ndim
        shape[0], shape[segment.axis] = per_unit.shape
        return per_unit.reshape(shape)

    def outer_masks(self, path: str, shape: tuple[int, ...], kept: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """For each axis after the members', which indices belong to kept units or to no unit: bool [members, length].

        Args:
          path: of the leaf.
          shape: of the leaf with a leading member axis.
          kept: {group: bool [members, units]}.
        """
        masks = [np.ones((shape[0], length), bool) for length in shape[1:]]
        for segment in self.leaves.get(path, ()):
            masks[segment.axis - 1][:, segment.part] &= kept[segment.group.name]
        return masks

    def regrouped(self, path: str, leaf: Any, units: Mapping[str, np.ndarray]) -> np.ndarray:
        """A leaf with other units in it: zeros (False) at padding.

        Args:
          path: of the leaf.
          leaf: with the sizes of `groups`.
          units: {group: int [members, new size]}, the old index of every new unit, −1 for padding.
        """
        if path not in self.leaves:
            return np.asarray(leaf)
        array = self.stacked(path, leaf)
        members = []
        for m, member in enumerate(array):
            for axis, length in enumerate(array.shape[1:]):
                index = self._index(path, axis + 1, length, m, units)
                if index is not None:
                    member = np.take(member, np.maximum(index, 0), axis=axis)
                    if (index < 0).any():
                        member[(slice(None),) * axis + (index < 0,)] = 0
            members.append(member)
        return self.unstacked(path, np.stack(members))

    def _index(self, path: str, axis: int, length: int, member: int, units: Mapping[str, np.ndarray]) -> np.ndarray | None:
        segments = sorted((s for s in self.leaves[path] if s.axis == axis), key=lambda s: s.offset)
        if not segments:
            return None
        pieces, at = [], 0
        for segment in segments:
            chosen = units[segment.group.name][member]
            pieces += [np.arange(at, segment.offset), np.where(chosen < 0, -1, segment.offset + chosen)]
            at = segment.part.stop
        return np.concatenate([*pieces, np.arange(at, length)])


def per_member(group: UnitGroup, array: Any) -> np.ndarray:
    """[units] or [members, units] as [members, units]."""
    return np.asarray(array) if group.members else np.asarray(array)[None]


def as_declared(group: UnitGroup, array: np.ndarray) -> np.ndarray:
    """The inverse of `per_member`."""
    return array if group.members else array[0]


def is_bias(path: str) -> bool:
    """Whether a leaf is added to a pre-activation, told by its name."""
    return path.rsplit("/", 1)[-1] in _BIASES


def bias_beside(path: str, leaves: Mapping[str, Any]) -> str | None:
    """The bias of the layer that a kernel belongs to: the leaf of that name in the same dict."""
    root = path.rpartition("/")[0]
    names = [f"{root}/{name}" if root else name for name in _BIASES]
    return next((name for name in names if name in leaves), None)


def map_named(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """`function(path name, leaf, …)` over a tree."""
    return jax.tree_util.tree_map_with_path(lambda path, *leaves: function(path_name(path), *leaves), tree, *rest)
