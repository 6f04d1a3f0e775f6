"""Gymnasium spaces as flat vectors and bounds.

A Dict observation is flattened by its keys in alphabetical order, at every level; a Tuple in its own order; a Box in C order; a Discrete
value becomes one-hot. The same order holds for logs and at evaluation.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from jaxprune.errors import DataError


def leaves(space: Any, value: Any = None, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(path, leaf space, its part of `value`) in the order of flattening.

    Raises:
      DataError: `value` lacks a part that the space has.
    """
    kind = type(space).__name__
    if kind == "Dict":
        for key in sorted(space.spaces):
            yield from leaves(space.spaces[key], None if value is None else _part(value, key, path), f"{path}/{key}" if path else str(key))
    elif kind == "Tuple":
        for index, part in enumerate(space.spaces):
            yield from leaves(part, None if value is None else _part(value, index, path), f"{path}/{index}" if path else str(index))
    else:
        yield path, space, value


def _part(value: Any, key: Any, path: str) -> Any:
    try:
        return value[key]
    except (KeyError, IndexError) as error:
        found = sorted(value) if isinstance(value, Mapping) else f"{len(value)} parts"
        raise DataError(f"{_name(path)}: expected {key!r} in it, as the space has, got {found}; add it") from error


def _name(path: str) -> str:
    return f"observations/{path}" if path else "observations"


def flat_size(space: Any) -> int:
    """Features of a flattened observation.

    Raises:
      DataError: a space that is no vector of numbers.
    """
    return sum(_leaf_size(path, leaf) for path, leaf, _ in leaves(space))


def flatten(space: Any, value: Any) -> np.ndarray:
    """[T, S] float32 from a (nested) value whose arrays have a leading axis of T steps.

    Raises:
      DataError: a value that is not in the shape of the space, or holds no numbers.
    """
    columns = []
    for path, leaf, part in leaves(space, value):
        array = np.asarray(part)
        if array.dtype.kind not in "fiub":
            raise DataError(f"{_name(path)}: expected numbers, got dtype {array.dtype}; convert them to float32 before storing them")
        if type(leaf).__name__ == "Discrete":
            columns.append(_one_hot(path, leaf, array.reshape(-1)))
            continue
        expected = tuple(leaf.shape)
        if not array.shape or array.shape[1:] != expected:
            raise DataError(f"{_name(path)}: expected shape {list(expected)} a step, got {list(array.shape[1:])}")
        columns.append(array.reshape(len(array), -1))
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        raise DataError(f"observations: expected equally many under every key, got {sorted(lengths)}")
    with np.errstate(over="ignore"):
        return np.asarray(columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1), np.float32)


def _one_hot(path: str, space: Any, values: np.ndarray) -> np.ndarray:
    start, stop = int(space.start), int(space.start + space.n)
    wrong = np.flatnonzero(~((values >= start) & (values < stop) & (values == np.floor(values))))
    if len(wrong):
        raise DataError(f"{_name(path)}: expected integers from {start} to {stop - 1}, got {values[wrong[0]]} at step {wrong[0]}")
    return np.eye(stop - start, dtype=np.float32)[values.astype(np.int64) - start]


def _leaf_size(path: str, space: Any) -> int:
    kind = type(space).__name__
    if kind == "Discrete":
        return int(space.n)
    if kind in ("Box", "MultiBinary") and space.shape:
        return int(np.prod(space.shape))
    raise DataError(
        f"{_name(path)}: expected a Box, Dict, Tuple, Discrete or MultiBinary space, got {space}; "
        "leave it out or encode it as numbers first"
    )


def action_bounds(env_id: str | None, observation_size: int, action_size: int, notes: list[str]) -> tuple[Any, Any]:
    """(low, high) of an environment's actions; −1 and 1 where there is no environment, or none that can be made here.

    Raises:
      DataError: the environment's sizes are not those of the data.
    """
    if env_id is None:
        return -1.0, 1.0
    import gymnasium

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as that a newer version exists: the data were made with this one
            environment = gymnasium.make(env_id)
    except Exception as error:  # an unknown id, a missing simulator, a version that is gone: all end in the same default
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        notes.append(
            f"actions: {env_id} cannot be made here ({reason}), so its bounds are not known; "
            "taken as -1 and 1 where low and high are not passed"
        )
        return -1.0, 1.0
    observation_space, action_space = environment.observation_space, environment.action_space
    environment.close()
    if not isinstance(action_space, gymnasium.spaces.Box):
        raise DataError(
            f"env_id: {env_id} has {action_space}, but the actions are vectors of {action_size} numbers; name the right environment"
        )
    sizes = flat_size(observation_space), int(np.prod(action_space.shape))
    if sizes != (observation_size, action_size):
        raise DataError(
            f"env_id: {env_id} has {sizes[0]} observation and {sizes[1]} action features, the data have {observation_size} and "
            f"{action_size}; name the environment that made the data"
        )
    return action_space.low.reshape(-1), action_space.high.reshape(-1)
