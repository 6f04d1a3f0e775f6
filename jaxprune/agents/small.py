"""The small dense network: the baseline that spends a sparse network's weights on fewer units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jaxprune.agents.base import Agent
from jaxprune.agents.sparse import chosen_networks
from jaxprune.parameters import UnitGroup, prunable_leaves
from jaxprune.pruning.masks import kept_count
from jaxprune.pruning.prune import below


def _weights(shapes: dict[str, tuple[int, ...]], groups: Sequence[UnitGroup], widths: dict[str, int]) -> int:
    """How many weights the kernels have when the groups have `widths`."""
    total = 0
    for name, shape in shapes.items():
        axes = list(shape)
        for group in groups:
            change = widths[group.name] - group.size
            for path, axis in group.producers:
                axes[axis] += change if path == name else 0
            for path, axis, _ in group.consumers:
                axes[axis] += change if path == name else 0
        total += int(np.prod(axes))
    return total


def _fitting_widths(shapes: dict[str, tuple[int, ...]], groups: Sequence[UnitGroup], keep: int, where: str) -> dict[str, int]:
    """Hidden sizes in the original proportions with at most `keep` weights, as many as fit.

    Raises:
      ValueError: one unit a layer is already too much.
    """

    def scaled(ratio: float) -> dict[str, int]:
        return {group.name: max(1, round(ratio * group.size)) for group in groups}

    if (smallest := _weights(shapes, groups, scaled(0))) > keep:
        raise ValueError(f"{where}: one unit in every hidden layer takes {smallest} weights, but the sparsity leaves {keep}; lower it")
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _weights(shapes, groups, scaled(middle)) <= keep else (low, middle)
    widths, growing = scaled(low), True
    while growing:
        growing = False
        for group in groups:
            wider = {**widths, group.name: widths[group.name] + 1}
            if wider[group.name] <= group.size and _weights(shapes, groups, wider) <= keep:
                widths, growing = wider, True
    return widths


def small_dense(agent: Agent, sparsity: float, *, networks: Any = None) -> Agent:
    """The same algorithm with fewer hidden units: every perceptron has at most as many weights as pruning at `sparsity` would keep.

    Hidden layers shrink in proportion, then by single units until no more fits. Its `init` draws a fresh dense network.

    Args:
      agent: the algorithm, at full size.
      sparsity: fraction of each perceptron's prunable weights to do without, in [0, 1].
      networks: which ones to shrink; all by default.

    Raises:
      ValueError: an unknown network, a sparsity outside [0, 1], or one that no network with a unit in every layer can reach.
    """
    widths = dict(agent.widths)
    for name in chosen_networks(agent, networks):
        network = agent.networks[name]
        shapes = {leaf: array.shape for leaf, array in prunable_leaves(jax.eval_shape(network.init, jax.random.key(0))).items()}
        for chain in network.chains:
            kernels = {leaf: shape for leaf, shape in shapes.items() if below(chain, leaf)}
            groups = [group for group in network.groups if below(chain, group.name)]
            keep = kept_count(sparsity, sum(int(np.prod(shape)) for shape in kernels.values()))
            fitting = _fitting_widths(kernels, groups, keep, "/".join(filter(None, (name, chain))))
            widths |= {f"{name}/{group}": width for group, width in fitting.items()}
    return agent.with_widths(widths)
