"""Statistics of the columns of a long array, in chunks, accumulated in float64."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from jaxprune.data.transitions import Statistics

CHUNK = 65_536

# Rows of float32 that differ by less than this fraction of their size differ by rounding only.
_CONSTANT = 1e-6

# TD3+BC (Fujimoto and Gu 2021) adds as much to every deviation: a coordinate that hardly moved in the log may move at evaluation.
SMALLEST_DEVIATION = 1e-3


@dataclasses.dataclass(frozen=True)
class Columns:
    """Of an [N, D] array, each [D] float64: low, high, mean, std (0 where constant); `constant` is [D] bool."""

    low: np.ndarray
    high: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    constant: np.ndarray

    def statistics(self) -> Statistics:
        """Mean and standard deviation as float32, the latter at least `SMALLEST_DEVIATION`, and 1 where a column is constant."""
        std = np.where(self.constant, 1.0, np.maximum(self.std, SMALLEST_DEVIATION))
        return Statistics(mean=self.mean.astype(np.float32), std=std.astype(np.float32))

    @property
    def still(self) -> np.ndarray:
        """[D] bool: columns that vary, but by less than `SMALLEST_DEVIATION`."""
        return ~self.constant & (self.std < SMALLEST_DEVIATION)


def chunks(rows: int) -> Iterator[slice]:
    """Slices that cover `rows` rows."""
    return (slice(start, min(start + CHUNK, rows)) for start in range(0, rows, CHUNK))


def summarize(array: np.ndarray) -> Columns:
    """Column statistics of [N, D] (or [N], as one column), without a copy of the whole."""
    array = array.reshape(len(array), -1)
    size = array.shape[1]
    low, high, total, squares = np.full(size, np.inf), np.full(size, -np.inf), np.zeros(size), np.zeros(size)
    for rows in chunks(len(array)):
        low, high = np.minimum(low, array[rows].min(axis=0)), np.maximum(high, array[rows].max(axis=0))
        total += array[rows].sum(axis=0, dtype=np.float64)
    mean = total / len(array)
    for rows in chunks(len(array)):
        squares += np.square(array[rows] - mean).sum(axis=0)
    constant = high - low <= _CONSTANT * np.maximum(np.abs(low), np.abs(high))
    return Columns(low, high, mean, np.where(constant, 0.0, np.sqrt(squares / len(array))), constant)


def first_nonfinite(array: np.ndarray) -> tuple[int, int, int] | None:
    """(row, column, number of rows affected) of the first NaN or infinity in [N, …], or None."""
    flat = array.reshape(len(array), -1)
    first, affected = None, 0
    for rows in chunks(len(flat)):
        with np.errstate(invalid="ignore"):
            total = flat[rows].sum(dtype=np.float64)
        if np.isfinite(total):
            continue
        bad = ~np.isfinite(flat[rows])
        affected += int(bad.any(axis=1).sum())
        if first is None and bad.any():
            row, column = np.argwhere(bad)[0]
            first = (rows.start + int(row), int(column))
    return None if first is None else (*first, affected)


def keep_rows(array: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """The rows at increasing indices `keep`, moved to the front of `array` itself, so that no second copy is held."""
    if len(keep) == len(array):
        return array
    for rows in chunks(len(keep)):
        array[rows] = array[keep[rows]]
    return array[: len(keep)]
