"""The small dense network: the baseline that spends a sparse network's weights on fewer units."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jaxprune.agents.base import Agent
from jaxprune.agents.sparse import chosen_networks
from jaxprune.parameters import prunable_leaves
from jaxprune.pruning.masks import kept_count
from jaxprune.pruning.prune import below
from jaxprune.pruning.widths import fitting_widths


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
            fitting = fitting_widths(kernels, groups, keep, where="/".join(filter(None, (name, chain))))
            widths |= {f"{name}/{group}": width for group, width in fitting.items()}
    return agent.with_widths(widths)
