"""Hidden sizes that a number of weights pays for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from jaxprune.parameters import UnitGroup

Shapes = Mapping[str, tuple[int, ...]]


def weights_at(shapes: Shapes, groups: Sequence[UnitGroup], widths: Mapping[str, int]) -> int:
    """How many weights the kernels have when the groups have `widths`.

    Args:
      shapes: {leaf path: shape} of the kernels at the sizes of `groups`.
      groups: the hidden layers.
      widths: {group: number of units}.
    """
    total = 0
    for name, shape in shapes.items():
        axes = list(shape)
        for group in groups:
            change = widths[group.name] - group.size
            for path, axis, *_ in (*group.producers, *group.consumers):
                if path == name:
                    axes[axis] += change
        total += int(np.prod(axes))
    return total


def fitting_widths(shapes: Shapes, groups: Sequence[UnitGroup], keep: int, *, where: str = "the network") -> dict[str, int]:
    """{group: width}: sizes in the original proportions with at most `keep` weights, then single units until no more fits.

    Args:
      shapes: {leaf path: shape} of the kernels at the sizes of `groups`.
      groups: the hidden layers; no width is above the group's size.
      keep: number of weights.
      where: for the error.

    Raises:
      ValueError: one unit a layer is already too much.
    """

    def scaled(ratio: float) -> dict[str, int]:
        return {group.name: max(1, round(ratio * group.size)) for group in groups}

    if (smallest := weights_at(shapes, groups, scaled(0))) > keep:
        raise ValueError(f"{where}: one unit in every hidden layer takes {smallest} weights, but the sparsity leaves {keep}; lower it")
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if weights_at(shapes, groups, scaled(middle)) <= keep else (low, middle)
    widths, growing = scaled(low), True
    while growing:
        growing = False
        for group in groups:
            wider = {**widths, group.name: widths[group.name] + 1}
            if wider[group.name] <= group.size and weights_at(shapes, groups, wider) <= keep:
                widths, growing = wider, True
    return widths
