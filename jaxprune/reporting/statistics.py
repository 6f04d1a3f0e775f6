"""How far seeds agree: points and range for a few, bootstrap intervals for five or more.

The recommendations are those of Agarwal et al. 2021 (arXiv 2108.13264): interquartile means, and percentile bootstrap intervals stratified
by task. Everything here is deterministic: the bootstrap draws from a generator with a fixed seed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

FEWEST_SEEDS_FOR_INTERVALS = 5
CONFIDENCE = 0.95


@dataclasses.dataclass(frozen=True)
class Spread:
    """What several seeds returned.

    `low` and `high` bound the values themselves when `kind` is "range" (their minimum and maximum) and the MEAN when it is "bootstrap"
    (a 95 % percentile interval). The interquartile mean and its interval are there only for "bootstrap".
    """

    values: tuple[float, ...]
    mean: float
    low: float
    high: float
    kind: Literal["range", "bootstrap"]
    seeds: int
    tasks: int = 1
    iqm: float | None = None
    iqm_low: float | None = None
    iqm_high: float | None = None

    @property
    def label(self) -> str:
        """What the numbers are, for example `3 seeds, points and range`."""
        count = f"{self.seeds} seed{'' if self.seeds == 1 else 's'}" + (f" × {self.tasks} tasks" if self.tasks > 1 else "")
        if self.kind == "bootstrap":
            return f"{count}, mean and 95 % bootstrap interval"
        return f"{count}, one point, no spread" if len(self.values) == 1 else f"{count}, points and range"

    def overlaps(self, other: Spread) -> bool:
        """Whether the two ranges (or intervals) share a point."""
        return self.low <= other.high and other.low <= self.high


@dataclasses.dataclass(frozen=True)
class Ratio:
    """A mean over a mean, with a 95 % bootstrap interval where both sides have five seeds, and None where they have not."""

    value: float
    low: float | None = None
    high: float | None = None


def interquartile_mean(values: Any, axis: int = -1) -> Any:
    """The mean of what is left once ⌊n/4⌋ values are cut from either end of `axis`."""
    from scipy import stats

    return stats.trim_mean(np.asarray(values, float), 0.25, axis=axis)


def spread(values: Sequence[float], *, resamples: int = 2000, seed: int = 0) -> Spread:
    """The spread of one number per seed, on one task.

    Raises:
      ValueError: if there is no value, or one is not finite (a failed seed is to be named by the caller, not averaged).
    """
    return pooled_spread({"": values}, resamples=resamples, seed=seed)


def pooled_spread(values: Mapping[str, Sequence[float]], *, resamples: int = 2000, seed: int = 0) -> Spread:
    """The spread of all values pooled over tasks, {task: one number per seed}; the bootstrap resamples each task's seeds by themselves.

    The number of seeds is that of the task with the fewest.

    Raises:
      ValueError: if there is no value, a task has none, or one is not finite.
    """
    samples = {task: _checked(task, sample) for task, sample in values.items()}
    if not samples:
        raise ValueError("expected at least one task with one value per seed, got none")
    pooled = np.concatenate(list(samples.values()))
    seeds = min(len(sample) for sample in samples.values())
    every, least, most = tuple(pooled.tolist()), float(pooled.min()), float(pooled.max())
    # Rounding may put the mean of equal values beside them, and beside its own interval.
    mean = min(max(float(pooled.mean()), least), most)
    if seeds < FEWEST_SEEDS_FOR_INTERVALS:
        return Spread(every, mean, least, most, "range", seeds, len(samples))
    data = tuple(samples.values())
    low, high = _bootstrap(data, _pooled_mean, resamples=resamples, seed=seed)
    iqm_low, iqm_high = _bootstrap(data, _pooled_iqm, resamples=resamples, seed=seed)
    iqm = float(interquartile_mean(pooled))
    low, high = max(least, min(low, mean)), min(most, max(mean, high))
    return Spread(every, mean, low, high, "bootstrap", seeds, len(samples), iqm, iqm_low, iqm_high)


def ratio_of_means(values: Sequence[float], reference: Sequence[float], *, resamples: int = 2000, seed: int = 0) -> Ratio | None:
    """The mean of `values` over the mean of `reference`, or None where that mean is not positive and a ratio says nothing.

    The interval resamples both sides independently; it is given where both have five values and every reference value is positive.
    """
    top, bottom = _checked("values", values), _checked("reference", reference)
    if bottom.mean() <= 0:
        return None
    value = float(top.mean() / bottom.mean())
    if min(len(top), len(bottom)) < FEWEST_SEEDS_FOR_INTERVALS or bottom.min() <= 0:
        return Ratio(value)
    return Ratio(value, *_bootstrap((top, bottom), _mean_over_mean, resamples=resamples, seed=seed))


def _checked(task: str, sample: Sequence[float]) -> np.ndarray:
    array = np.asarray(sample, float).reshape(-1)
    where = f" of {task!r}" if task else ""
    if not array.size:
        raise ValueError(f"expected at least one value{where}, got none")
    if not np.isfinite(array).all():
        index = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(f"value {index}{where} is {array[index]}: leave failed seeds out and name them beside the result")
    return array


def _pooled_mean(*samples: np.ndarray, axis: int = -1) -> np.ndarray:
    return np.concatenate(samples, axis=axis).mean(axis=axis)


def _pooled_iqm(*samples: np.ndarray, axis: int = -1) -> np.ndarray:
    return interquartile_mean(np.concatenate(samples, axis=axis), axis=axis)


def _mean_over_mean(top: np.ndarray, bottom: np.ndarray, axis: int = -1) -> np.ndarray:
    return top.mean(axis=axis) / bottom.mean(axis=axis)


def _bootstrap(data: tuple[np.ndarray, ...], statistic: Any, *, resamples: int, seed: int) -> tuple[float, float]:
    from scipy import stats

    interval = stats.bootstrap(
        data,
        statistic,
        n_resamples=resamples,
        vectorized=True,
        axis=-1,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    low, high = float(interval.low), float(interval.high)
    if math.isnan(low) or math.isnan(high):
        raise ValueError(f"the bootstrap of {[sample.tolist() for sample in data]} has no interval")
    return low, high
