"""The one shape of data that training sees."""

from __future__ import annotations

import dataclasses
from typing import Any

import flax.struct
import jax
import numpy as np


class Transitions(flax.struct.PyTreeNode):
    """A log of transitions, or a batch of them; the leading axis counts rows.

    Attributes:
      observations: [N, S] float32.
      actions: [N, A] float32 in environment units, or [N] int32 for discrete actions.
      rewards: [N] float32.
      next_observations: [N, S] float32.
      discounts: [N] float32; 0 where the episode terminated, 1 elsewhere, timeouts included. The agent multiplies it by its own
        discount factor.
    """

    observations: Any
    actions: Any
    rewards: Any
    next_observations: Any
    discounts: Any

    def __len__(self) -> int:
        return self.rewards.shape[0]

    def take(self, indices: Any) -> Transitions:
        """The rows at `indices`."""
        return jax.tree.map(lambda array: array[indices], self)


class Statistics(flax.struct.PyTreeNode):
    """Mean and standard deviation of every observation coordinate, both [S]."""

    mean: Any
    std: Any


@dataclasses.dataclass(frozen=True)
class Spec:
    """What a network must know of an environment. Hashable, so it may be static under `jax.jit`.

    Attributes:
      observation_size: S, number of observation features (flattened).
      action_size: A, number of action features; of actions when `discrete`.
      low, high: bounds of each action feature, as tuples of A floats; empty when `discrete`.
      discrete: whether actions are integers in [0, A).
    """

    observation_size: int
    action_size: int
    low: Any
    high: Any
    discrete: bool = False

    def __post_init__(self):
        for name in ("low", "high"):
            object.__setattr__(self, name, tuple(float(x) for x in np.ravel(getattr(self, name))))
        if self.discrete:
            return
        if not len(self.low) == len(self.high) == self.action_size:
            raise ValueError(f"expected {self.action_size} bounds in low and high, got {len(self.low)} and {len(self.high)}")
        if not all(np.isfinite(l) and np.isfinite(h) and l < h for l, h in zip(self.low, self.high, strict=True)):
            raise ValueError(f"expected finite bounds with low < high, got low={self.low} and high={self.high}")


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A validated log.

    Attributes:
      transitions: the rows, NumPy arrays.
      spec: sizes and bounds.
      env_id: Gymnasium id to evaluate in, or None.
      reference: (random, expert) mean returns that make a score 0 and 100, or None.
      statistics: of the observations.
      report: what was found and dropped; see `LoadReport`.
      name: what was loaded.
    """

    transitions: Transitions
    spec: Spec
    env_id: str | None
    reference: tuple[float, float] | None
    statistics: Statistics
    report: Any
    name: str = ""
