"""Data sets from arrays or episodes in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxprune.data import shapes
from jaxprune.data.assembly import assemble
from jaxprune.data.episodes import OPEN, TIMEOUT, Log, check_finite, flat_log
from jaxprune.data.transitions import Dataset
from jaxprune.errors import DataError


def from_arrays(
    observations: Any,
    actions: Any,
    rewards: Any,
    terminals: Any,
    timeouts: Any = None,
    next_observations: Any = None,
    *,
    low: Any = None,
    high: Any = None,
    discrete: int | None = None,
    env_id: str | None = None,
    reference: tuple[float, float] | None = None,
    clip_actions: bool = False,
    max_episode_steps: int | None = None,
    name: str = "arrays",
) -> Dataset:
    """A data set from rows recorded one after the other. The arrays are copied.

    Args:
      observations: [N, S].
      actions: [N, A], or [N] integers with `discrete`.
      rewards: [N] or [N, 1].
      terminals: [N] or [N, 1], booleans or 0 and 1: the episode ended in a state from which nothing more can be earned.
      timeouts: the same, where a time limit cut the episode. See `jaxprune.data.episodes.flat_log` for what holds without it.
      next_observations: [N, S]; without it, the observation below.
      low: lower bounds of the actions, a scalar or [A]; required unless `discrete`.
      high: upper bounds, likewise.
      discrete: the number of actions, where they are integers.
      env_id: Gymnasium id to evaluate in.
      reference: (random, expert) mean returns, for an environment that D4RL's table does not know.
      clip_actions: move actions outside the bounds to the bound.
      max_episode_steps: the time limit, needed where neither timeouts nor next_observations are given.
      name: for messages and reports.

    Raises:
      DataError: whatever would poison a mask or a value; the message names key, row and remedy.
    """
    given = {"observations": observations, "actions": actions, "rewards": rewards, "terminals": terminals}
    given |= {"timeouts": timeouts, "next_observations": next_observations}
    columns = {key: shapes.numeric(key, array) for key, array in given.items() if array is not None}
    for key in ("observations", "actions", "rewards", "terminals"):
        if key not in columns:
            raise DataError(f"{key}: expected an array, got None; it is needed")
    shapes.check_lengths({key: len(array) for key, array in columns.items()})
    _check_bounds_given(low, high, discrete)
    log = flat_log(
        observations=_matrix("observations", columns["observations"]),
        actions=_actions(columns["actions"], discrete),
        rewards=_column("rewards", columns["rewards"]),
        terminals=_flags("terminals", columns["terminals"]),
        timeouts=_flags("timeouts", columns["timeouts"]) if "timeouts" in columns else None,
        next_observations=_next(columns["next_observations"], columns["observations"]) if "next_observations" in columns else None,
        max_episode_steps=max_episode_steps,
    )
    return assemble(log, name=name, low=low, high=high, discrete=discrete, env_id=env_id, reference=reference, clip_actions=clip_actions)


def from_episodes(
    episodes: Sequence[Mapping[str, Any]],
    *,
    low: Any = None,
    high: Any = None,
    discrete: int | None = None,
    env_id: str | None = None,
    reference: tuple[float, float] | None = None,
    clip_actions: bool = False,
    name: str = "episodes",
) -> Dataset:
    """A data set from a list of episodes.

    Args:
      episodes: dicts with ``observations`` [T + 1, S] (or [T, S]: then the last step of an episode that was not terminal is dropped),
        ``actions`` [T, A], ``rewards`` [T], ``terminals`` and, if there are time limits, ``timeouts``: each [T], or one value for the
        episode's end. ``terminations`` and ``truncations`` are read as well. An episode with neither flag at its end counts as open.
      low: as the following ones, as in `from_arrays`.
      high: upper bounds.
      discrete: number of actions.
      env_id: Gymnasium id.
      reference: (random, expert) returns.
      clip_actions: move actions outside the bounds to the bound.
      name: for messages and reports.

    Raises:
      DataError: as `from_arrays`; the message names the episode.
    """
    _check_bounds_given(low, high, discrete)
    if not len(episodes):
        raise DataError("episodes: expected at least one, got none; the log is empty")
    parts = [_episode(f"episode {number}", episode, discrete) for number, episode in enumerate(episodes)]
    size = parts[0]["observations"].shape[1]
    for number, part in enumerate(parts):
        if part["observations"].shape[1] != size:
            raise DataError(
                f"episode {number}, observations: expected {size} features as in episode 0, got {part['observations'].shape[1]}"
            )
    return assemble(
        join_episodes(parts),
        name=name,
        low=low,
        high=high,
        discrete=discrete,
        env_id=env_id,
        reference=reference,
        clip_actions=clip_actions,
    )


def join_episodes(parts: Sequence[Mapping[str, np.ndarray]]) -> Log:
    """A log of whole episodes: dicts of observations [T or T + 1, S], actions, rewards, terminals and timeouts [T]."""
    lengths = np.asarray([len(part["rewards"]) for part in parts])
    rows, stops = int(lengths.sum()), np.cumsum(lengths)

    def where(row: int) -> str:
        episode = int(np.searchsorted(stops, row, side="right"))
        return f"episode {episode}, step {row - (stops[episode] - lengths[episode])}"

    first = parts[0]
    observations = np.empty((rows, first["observations"].shape[1]), np.float32)
    following = np.empty_like(observations)
    unknown = []
    for part, stop, length in zip(parts, stops, lengths, strict=True):
        span = slice(stop - length, stop)
        observations[span] = part["observations"][:length]
        following[stop - length : stop - 1] = part["observations"][1:length]
        if len(part["observations"]) > length:
            following[stop - 1] = part["observations"][length]
        else:
            following[stop - 1] = part["observations"][length - 1]
            unknown.append(stop - 1)
    log = Log(
        observations=observations,
        actions=np.concatenate([part["actions"] for part in parts]),
        rewards=np.concatenate([part["rewards"] for part in parts]),
        terminals=np.concatenate([part["terminals"] for part in parts]),
        timeouts=np.concatenate([part["timeouts"] for part in parts]),
        ends=np.zeros(rows, bool),
        next_observations=following,
        where=where,
    )
    return close_episodes(log, stops - 1, np.asarray(unknown, np.int64))


def close_episodes(log: Log, last: np.ndarray, unknown: np.ndarray) -> Log:
    """Marks the ends of whole episodes and what is not known there.

    Args:
      log: rows of whole episodes, one after the other.
      last: the last row of each.
      unknown: those of them whose next observation was not recorded.
    """
    for key in ("observations", "actions", "rewards", "next_observations"):
        check_finite(key, getattr(log, key), log.where)
    log.timeouts &= ~log.terminals
    log.ends[last] = True
    unknown = unknown[~log.terminals[unknown]]
    dropped = {TIMEOUT: unknown[log.timeouts[unknown]], OPEN: unknown[~log.timeouts[unknown]]}
    log.dropped = {reason: rows for reason, rows in dropped.items() if len(rows)}
    inside = np.flatnonzero(log.terminals & ~log.ends)
    if len(inside):
        log.warnings.append(
            f"terminals: {len(inside):,} rows inside an episode are terminal, first at {log.where(int(inside[0]))}; "
            "their discount is 0 and the steps after them are kept"
        )
    return log


def _check_bounds_given(low: Any, high: Any, discrete: int | None) -> None:
    if discrete is None and (low is None or high is None):
        raise DataError(
            "low, high: expected the bounds of the actions, got None; pass them, or discrete=<number of actions> for integer actions"
        )
    if discrete is not None and (isinstance(discrete, bool) or discrete < 1):
        raise DataError(f"discrete: expected the number of actions, got {discrete!r}; pass an integer of at least 1")


def _matrix(key: str, array: np.ndarray) -> np.ndarray:
    shapes.matrix_size(key, array.shape)
    with np.errstate(over="ignore"):
        return np.array(array, np.float32)


def _next(array: np.ndarray, observations: np.ndarray) -> np.ndarray:
    if array.shape != observations.shape:
        raise DataError(f"next_observations: expected shape {list(observations.shape)} as observations, got {list(array.shape)}")
    return _matrix("next_observations", array)


def _column(key: str, array: np.ndarray) -> np.ndarray:
    shapes.check_column(key, array.shape)
    with np.errstate(over="ignore"):
        return np.array(array.reshape(len(array)), np.float32)


def _flags(key: str, array: np.ndarray) -> np.ndarray:
    shapes.check_column(key, array.shape)
    return np.array(shapes.flags(key, array))


def _actions(array: np.ndarray, discrete: int | None) -> np.ndarray:
    if discrete is None:
        return _matrix("actions", array)
    shapes.check_column("actions", array.shape)
    array = array.reshape(len(array))
    wrong = np.flatnonzero(array != np.floor(array))
    if len(wrong):
        raise DataError(f"actions: expected integers, got {array[wrong[0]]} at row {wrong[0]}; leave out `discrete` for continuous actions")
    large = np.flatnonzero(np.abs(array) >= 2**31)
    if len(large):
        raise DataError(f"actions: expected integers from 0 to {discrete - 1}, got {array[large[0]]} at row {large[0]}")
    return np.array(array, np.int32)


def _episode(label: str, episode: Mapping[str, Any], discrete: int | None) -> dict[str, np.ndarray]:
    names = {"terminals": ("terminals", "terminations"), "timeouts": ("timeouts", "truncations")}
    for key in ("observations", "actions", "rewards"):
        if key not in episode:
            raise DataError(f"{label}: expected the key {key!r}, got {sorted(episode)}; add it")
    try:
        rewards = _column("rewards", shapes.numeric("rewards", episode["rewards"]))
        observations = _matrix("observations", shapes.numeric("observations", episode["observations"]))
        actions = _actions(shapes.numeric("actions", episode["actions"]), discrete)
        part = {"observations": observations, "actions": actions, "rewards": rewards}
        steps = len(rewards)
        if steps == 0:
            raise DataError("rewards: expected at least one step, got none; leave the episode out")
        if len(actions) != steps:
            raise DataError(f"actions: expected {steps} as rewards, got {len(actions)}")
        check_episode_observations(len(observations), steps)
        for key, aliases in names.items():
            value = next((episode[alias] for alias in aliases if alias in episode), False)
            part[key] = _end_flags(key, np.asarray(value), steps)
    except DataError as error:
        raise DataError(f"{label}, {error}") from error
    return part


def check_episode_observations(observations: int, steps: int) -> None:
    """Raises DataError unless an episode has an observation before each step, and perhaps one after the last."""
    if observations not in (steps, steps + 1):
        raise DataError(f"observations: expected {steps + 1} (one before each of {steps} steps and one after the last), got {observations}")


def _end_flags(key: str, value: np.ndarray, steps: int) -> np.ndarray:
    if value.shape == ():
        value = np.append(np.zeros(steps - 1, bool), bool(value))
    result = _flags(key, shapes.numeric(key, value))
    if len(result) != steps:
        raise DataError(f"{key}: expected {steps} as rewards, or one value, got {len(result)}")
    return result
