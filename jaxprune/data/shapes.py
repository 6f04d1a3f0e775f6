"""Shapes and dtypes of what people log, brought to one form."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxprune.errors import DataError


def numeric(key: str, array: Any) -> np.ndarray:
    """`array` as NumPy, if it holds plain numbers."""
    try:
        array = np.asarray(array)
    except ValueError as error:
        raise DataError(
            f"{key}: expected one rectangular array, got rows of different lengths ({error}); make every row the same length"
        ) from error
    check_numeric(key, array)
    return array


def check_numeric(key: str, array: Any) -> None:
    """Raises DataError unless the dtype is real numbers or booleans. Anything with a dtype and a shape will do."""
    if np.dtype(array.dtype).kind not in "fiub":
        raise DataError(f"{key}: expected numbers, got dtype {array.dtype}; convert the column to float32 before saving it")
    if not array.shape:
        raise DataError(f"{key}: expected an array with a row per step, got a single value; store one value a step")


def matrix_size(key: str, shape: tuple[int, ...]) -> int:
    """D of an [N, D] array."""
    if len(shape) != 2:
        raise DataError(f"{key}: expected shape [N, features], got {list(shape)}; flatten each row to a vector")
    if shape[1] == 0:
        raise DataError(f"{key}: expected at least one feature a row, got shape {list(shape)}")
    return shape[1]


def is_column(shape: tuple[int, ...]) -> bool:
    """Whether an array holds one number a row: [N] or [N, 1]."""
    return len(shape) == 1 or (len(shape) == 2 and shape[1] == 1)


def check_column(key: str, shape: tuple[int, ...]) -> None:
    """Raises DataError unless the shape is [N] or [N, 1]."""
    if not is_column(shape):
        raise DataError(f"{key}: expected shape [N] or [N, 1], got {list(shape)}; store one value a step")


def flags(key: str, array: np.ndarray) -> np.ndarray:
    """[N] bool from booleans, or from numbers that are all 0 or 1."""
    array = array.reshape(len(array))
    if array.dtype == bool:
        return array
    wrong = np.flatnonzero((array != 0) & (array != 1))
    if wrong.size:
        raise DataError(
            f"{key}: expected 0 or 1 in every row, got {array[wrong[0]]} at row {wrong[0]} ({wrong.size:,} such rows); store booleans"
        )
    return array.astype(bool)


def check_lengths(lengths: dict[str, int]) -> None:
    """Raises DataError unless all arrays have as many rows as the observations, and at least one."""
    rows = lengths["observations"]
    for key, length in lengths.items():
        if length != rows:
            raise DataError(
                f"{key}: expected {rows:,} rows as in observations, got {length:,}; every array needs one row per step "
                "(was the file cut off while it was written?)"
            )
    if rows == 0:
        raise DataError("observations: expected at least one row, got none; the log is empty")
