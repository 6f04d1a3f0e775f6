"""Whether a sparse agent is as good as the dense one, within a tolerance: a one-sided bootstrap bound."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from jaxprune.reporting.statistics import FEWEST_SEEDS_FOR_INTERVALS

CONFIDENCE = 0.95


@dataclasses.dataclass(frozen=True)
class Margin:
    """How far a sparse agent is above what the tolerance asks of it, sparse − (dense − tolerance·|dense|), in the returns' units.

    Attributes:
      mean: of the margin.
      low: its 95 % lower bound; above zero, the agent is within the tolerance.
      high: its 95 % upper bound; below zero, it is not.
      pooled: whether single evaluations were resampled, there being fewer than five seeds: the bounds then say nothing of other seeds.
    """

    mean: float
    low: float
    high: float
    pooled: bool


def margin(
    dense: Mapping[int, Sequence[float]],
    sparse: Mapping[int, Sequence[float]],
    tolerance: float,
    *,
    resamples: int = 10_000,
    seed: int = 0,
) -> Margin:
    """The margin of a sparse agent over seeds that both have; runs of one seed are paired.

    With five seeds or more, seeds are resampled, each by the mean of its evaluations; with fewer, evaluations are, within each seed.

    Args:
      dense: {seed: returns of its last evaluations}.
      sparse: likewise.
      tolerance: fraction of |dense| that may be lost.
      resamples: of the bootstrap.
      seed: of the bootstrap.

    Raises:
      ValueError: no seed in common, or a return that is not finite.
    """
    seeds = sorted(set(dense) & set(sparse))
    if not seeds:
        raise ValueError("expected a seed that the dense and the sparse runs have in common, got none")
    pairs = [(np.asarray(dense[s], float), np.asarray(sparse[s], float)) for s in seeds]
    if not all(np.isfinite(values).all() and values.size for pair in pairs for values in pair):
        raise ValueError("expected finite returns of at least one evaluation, got NaN, infinity or none")
    rng = np.random.default_rng(seed)
    pooled = len(seeds) < FEWEST_SEEDS_FOR_INTERVALS

    def asked(reference):
        return reference - tolerance * np.abs(reference)

    means = np.array([(d.mean(), s.mean()) for d, s in pairs])
    if pooled:
        drawn = np.stack([[rng.choice(v, (resamples, v.size)).mean(1) for v in pair] for pair in pairs], -1).mean(-1)
    else:
        drawn = means[rng.integers(0, len(seeds), (resamples, len(seeds)))].mean(1).T
    low, high = np.quantile(drawn[1] - asked(drawn[0]), [1 - CONFIDENCE, CONFIDENCE])
    centre = means.mean(0)
    return Margin(float(centre[1] - asked(centre[0])), float(low), float(high), pooled)
