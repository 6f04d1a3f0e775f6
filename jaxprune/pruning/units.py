"""From scores of whole hidden units to masks: which units stay, and what that leaves of the weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxprune.parameters import UnitGroup, is_kernel, named_leaves, prunable_leaves
from jaxprune.pruning.unit_layout import UnitLayout, as_declared, map_named, per_member

UNIT_ALLOCATIONS = ("global", "uniform")

Kept = dict[str, np.ndarray]


def check_unit_scores(scores: Mapping[str, Any], *, criterion: Any) -> None:
    """Refuse scores that rank nothing.

    Raises:
      ValueError: a NaN or infinite score, with the group's name, or every score zero.
    """
    for name, leaf in scores.items():
        if not np.isfinite(np.asarray(leaf)).all():
            raise ValueError(
                f"unit criterion {criterion!r}: scores of {name} are NaN or infinite; look for huge values in rows and parameters"
            )
    if scores and not any(np.asarray(leaf).any() for leaf in scores.values()):
        raise ValueError(f"unit criterion {criterion!r}: every score is zero, so nothing can be ranked; does the loss reach the units?")


def unit_order(
    scores: Mapping[str, Any], groups: Sequence[UnitGroup], *, allocation: str = "global", floor: int = 1, kept: Kept | None = None
) -> tuple[np.ndarray, int]:
    """Units in the order in which they are kept, and how many of them are kept at least.

    Args:
      scores: {group: [units] or [members, units]}; larger means keep. Ties go to the earlier group, member and unit.
      groups: the hidden layers ranked together.
      allocation: `global` compares scores across layers; `uniform` ranks within each layer (and member) and keeps the same fraction of all.
      floor: the best so many units of every layer (and member) come first.
      kept: units that an earlier round left, as `kept_units` gives them; the others come last.

    Returns:
      Positions in the groups' units laid end to end, int [units], and the number at the front that the floor claims.

    Raises:
      ValueError: an unknown allocation, or a floor below 1.
    """
    if allocation not in UNIT_ALLOCATIONS:
        raise ValueError(f"allocation={allocation!r} is unknown for units; expected one of {', '.join(UNIT_ALLOCATIONS)}")
    if floor < 1:
        raise ValueError(f"expected a floor of at least one unit a layer, got {floor}: without any unit nothing passes the layer")
    keys, floors = [], []
    for group in groups:
        own = np.array(per_member(group, scores[group.name]), np.float64)
        if kept is not None:
            own[~per_member(group, kept[group.name])] = -np.inf
        place = np.empty(own.shape, int)
        np.put_along_axis(place, np.argsort(-own, axis=1, kind="stable"), np.arange(group.size)[None], axis=1)
        first = place < min(floor, group.size)
        if kept is not None:
            first &= per_member(group, kept[group.name])
        floors.append(first.ravel())
        if allocation == "uniform":
            own = np.where(np.isneginf(own), own, -(place + 0.5) / group.size)
        keys.append(own.ravel())
    flat, first = np.concatenate(keys), np.concatenate(floors)
    order = np.argsort(-flat, kind="stable")
    return np.concatenate([order[first[order]], order[~first[order]]]), int(first.sum())


def kept_units(order: np.ndarray, count: int, groups: Sequence[UnitGroup]) -> Kept:
    """The first `count` units of an order: {group: bool [units] or [members, units]}."""
    flat = np.zeros(len(order), bool)
    flat[order[:count]] = True
    sizes = [max(1, group.members) * group.size for group in groups]
    parts = np.split(flat, np.cumsum(sizes)[:-1])
    return {g.name: as_declared(g, part.reshape(max(1, g.members), g.size)) for g, part in zip(groups, parts, strict=True)}


def weights_left(
    shapes: Mapping[str, tuple[int, ...]], groups: Sequence[UnitGroup], kept: Kept, masks: Mapping[str, np.ndarray] | None = None
) -> int:
    """How many weights the kernels have left when only some units stay.

    Args:
      shapes: {leaf path: shape} of the kernels.
      groups: the hidden layers.
      kept: {group: bool}.
      masks: {leaf path: bool} of the kernels, where single weights are gone too.
    """
    layout = UnitLayout(groups)
    chosen = {group.name: per_member(group, kept[group.name]) for group in groups}
    total = 0
    for path, shape in shapes.items():
        if path not in layout.leaves:
            total += int(np.prod(shape)) if masks is None else int(masks[path].sum())
            continue
        shape = shape if layout.leaves[path][0].group.members else (1, *shape)
        outer = layout.outer_masks(path, shape, chosen)
        if masks is None:
            total += int(np.prod([mask.sum(axis=1) for mask in outer], axis=0).sum())
        else:
            total += int((layout.stacked(path, masks[path]) & _product(outer)).sum())
    return total


def _product(outer: Sequence[np.ndarray]) -> np.ndarray:
    """Masks [members, length] of every axis after the members', as one mask."""
    out = np.ones((outer[0].shape[0], *(mask.shape[1] for mask in outer)), bool)
    for axis, along in enumerate(outer, start=1):
        shape = [1] * out.ndim
        shape[0], shape[axis] = along.shape
        out &= along.reshape(shape)
    return out


def units_left(masks: Mapping[str, np.ndarray], groups: Sequence[UnitGroup]) -> Kept:
    """The units that some weight still makes or reads: {group: bool [units] or [members, units]}.

    Args:
      masks: {leaf path: bool} of the kernels.
      groups: the hidden layers.
    """
    layout = UnitLayout(groups)
    kept = {group.name: np.zeros((max(1, group.members), group.size), bool) for group in groups}
    for path, mask in masks.items():
        for segment in layout.leaves.get(path, ()):
            array = np.moveaxis(layout.stacked(path, mask), segment.axis, 1)[:, segment.part]
            kept[segment.group.name] |= array.reshape(*array.shape[:2], -1).any(axis=-1)
    return {group.name: as_declared(group, kept[group.name]) for group in groups}


def _smallest(low: int, high: int, reached: Callable[[int], bool]) -> int:
    """The smallest count in [low, high] for which a monotone condition holds; `high` if for none below."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle + 1, high)
    return low


def count_within(weights: Callable[[int], int], floor: int, units: int, budget: int, where: str) -> int:
    """The largest number of units whose weights are not more than the budget.

    Args:
      weights: units kept -> weights left, increasing.
      floor: the least number of units.
      units: of how many.
      budget: number of weights.
      where: for the error.

    Raises:
      ValueError: the floor takes more than the budget.
    """
    if (least := weights(floor)) > budget:
        raise ValueError(
            f"{where}: at least one unit in every layer takes {least} weights, but the sparsity leaves {budget}; lower it, or prune weights"
        )
    if weights(units) <= budget:
        return units
    return _smallest(floor, units, lambda count: weights(count) > budget) - 1


def count_around(weights: Callable[[int], int], floor: int, units: int, wanted: float, least: int) -> int:
    """The number of units whose weights come nearest to `wanted`, among those that have at least `least`."""
    above = _smallest(floor, units, lambda count: weights(count) >= wanted)
    below = above - 1
    if below >= floor and least <= weights(below) and wanted - weights(below) < weights(above) - wanted:
        return below
    return above


def unit_masks(params: Any, groups: Sequence[UnitGroup], kept: Kept) -> Any:
    """Masks that remove units whole: what makes them, biases included, and what reads them.

    Args:
      params: of one network; only the structure is read.
      groups: the hidden layers.
      kept: {group: bool [units] or [members, units]}.

    Returns:
      Boolean masks, True at everything that belongs to units that stay.
    """
    layout = UnitLayout(groups)
    layout.check(named_leaves(params))
    chosen = {group.name: per_member(group, kept[group.name]) for group in groups}

    def mask(path, leaf):
        if path not in layout.leaves:
            return np.ones(np.shape(leaf), bool)
        shape = layout.stacked(path, np.empty(np.shape(leaf), bool)).shape
        return layout.unstacked(path, _product(layout.outer_masks(path, shape, chosen)))

    return jax.device_put(map_named(mask, params))


def prefixed(group: UnitGroup, network: str) -> UnitGroup:
    """The group as it is called in {network: parameters}."""
    return dataclasses.replace(
        group,
        name=f"{network}/{group.name}",
        producers=tuple((f"{network}/{path}", axis) for path, axis in group.producers),
        consumers=tuple((f"{network}/{path}", axis, offset) for path, axis, offset in group.consumers),
    )


def kernel_shapes(params: Any) -> dict[str, tuple[int, ...]]:
    """{leaf path: shape} of the prunable leaves."""
    return {name: tuple(np.shape(leaf)) for name, leaf in prunable_leaves(params, is_kernel).items()}
