"""Where episodes begin and end in a flat log, and which of its rows are whole transitions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from jaxprune.data.columns import chunks, first_nonfinite
from jaxprune.errors import DataError

TIMEOUT = "last row of an episode cut by a time limit: its next observation was not recorded"
OPEN = "last row of an episode still open where the recording stops: its next observation was not recorded"
JOINED = "last row of an episode cut by a time limit: its next observation is the first one of the next episode"


@dataclasses.dataclass
class Log:
    """Every row of a source, before rows are dropped. The arrays are owned: they are changed in place later on.

    Attributes:
      observations, next_observations: [N, S] float32.
      actions: [N, A] float32, or [N] int32.
      rewards: [N] float32.
      terminals: [N] bool.
      timeouts: [N] bool, never where a terminal is.
      ends: [N] bool, the last row of each episode, an open one included.
      dropped: reason -> indices of rows to leave out; disjoint.
      warnings: sentences for the report.
      where: names a row for a message.
    """

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminals: np.ndarray
    timeouts: np.ndarray
    ends: np.ndarray
    next_observations: np.ndarray
    dropped: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    warnings: list[str] = dataclasses.field(default_factory=list)
    where: Callable[[int], str] = "row {}".format


def flat_log(
    observations: np.ndarray,
    actions: np.ndarray,
    rewards: np.ndarray,
    terminals: np.ndarray,
    timeouts: np.ndarray | None,
    next_observations: np.ndarray | None,
    max_episode_steps: int | None = None,
) -> Log:
    """Finds the episodes in rows recorded one after the other.

    An episode ends at a terminal, at a timeout, and where the recording stops. Without `timeouts`, a time limit is seen where a row's
    next observation is not the observation of the row below; without `next_observations` as well, it is taken to strike every
    `max_episode_steps` steps, and must be given. Without `next_observations`, a row's next observation is the observation below it in the
    same episode: the last row of an episode that did not end in a terminal is dropped, a terminal row is kept with its own observation in
    its place.

    Args:
      observations: [N, S] float32; this and the other arrays become the log's own.
      actions: [N, A] float32 or [N] int32.
      rewards: [N] float32.
      terminals: [N] bool.
      timeouts: [N] bool or None.
      next_observations: [N, S] float32 or None.
      max_episode_steps: the time limit, used only where it is needed.

    Raises:
      DataError: NaN or infinity, or episodes that cannot be told apart.
    """
    for key, array in (("observations", observations), ("actions", actions), ("rewards", rewards)):
        check_finite(key, array)
    warnings: list[str] = []
    seen = timeouts is not None
    if timeouts is None:
        if next_observations is not None:
            check_finite("next_observations", next_observations, rows=~terminals)
            timeouts = _breaks(observations, next_observations) & ~terminals
            warnings += _describe_breaks(timeouts, terminals)
        elif max_episode_steps is not None:
            timeouts = _time_limits(terminals, max_episode_steps)
        else:
            raise DataError(
                "timeouts: expected a time-limit flag per row (or next_observations, from which it can be told), got neither; without one, "
                "a transition could join two episodes. Pass max_episode_steps=… if every episode was cut after that many steps, or add "
                "the key"
            )
    timeouts = timeouts & ~terminals
    ends = terminals | timeouts
    ends[-1] = True
    if next_observations is None:
        next_observations = _shift(observations, terminals)
        dropped = {TIMEOUT: np.flatnonzero(timeouts)}
        if not (terminals[-1] or timeouts[-1]):
            dropped[OPEN] = np.asarray([len(ends) - 1])
    else:
        dropped = _unusable(observations, next_observations, terminals, ends, warnings)
        if seen:
            inside = _breaks(observations, next_observations) & ~ends
            if inside.any():
                warnings.append(
                    f"next_observations: {inside.sum():,} rows inside an episode do not lead to the row below, first at row "
                    f"{int(inside.argmax())}; their transitions are kept as recorded, but ends of episodes may be missing, so returns and "
                    "lengths in this report may be wrong"
                )
    return Log(
        observations=observations,
        actions=actions,
        rewards=rewards,
        terminals=terminals,
        timeouts=timeouts,
        ends=ends,
        next_observations=next_observations,
        dropped={reason: rows for reason, rows in dropped.items() if len(rows)},
        warnings=warnings,
    )


def check_finite(key: str, array: np.ndarray, where: Callable[[int], str] = "row {}".format, rows: np.ndarray | None = None) -> None:
    """Raises DataError at the first NaN or infinity; only `rows` ([N] bool) count, if given."""
    found = first_nonfinite(array)
    if found and rows is not None:
        index = np.flatnonzero(rows)
        found = first_nonfinite(array[index]) if len(index) else None
        found = found and (int(index[found[0]]), *found[1:])
    if found:
        row, column, affected = found
        value = array.reshape(len(array), -1)[row, column]
        raise DataError(
            f"{key}: expected finite float32 numbers, got {value} at {where(row)}, column {column} ({affected:,} such rows); "
            "repair the values or leave out the episodes that hold them (numbers beyond 3.4e38 become infinite)"
        )


def _breaks(observations: np.ndarray, next_observations: np.ndarray) -> np.ndarray:
    """[N] bool: rows whose next observation is not the observation below; False in the last row."""
    breaks = np.zeros(len(observations), bool)
    for rows in chunks(len(observations) - 1):
        below = observations[rows.start + 1 : rows.stop + 1]
        breaks[rows] = (np.abs(next_observations[rows] - below) > 1e-6 + 1e-5 * np.abs(below)).any(axis=1)
    return breaks


def _describe_breaks(timeouts: np.ndarray, terminals: np.ndarray) -> list[str]:
    inner = len(terminals) - 1 - int(terminals[:-1].sum())
    if inner and timeouts.sum() > inner / 2:
        return [
            f"timeouts: not in the data, and {timeouts.sum():,} of {inner:,} rows that are not terminal do not lead to the row below; "
            "the rows seem to be shuffled, so episodes, returns and lengths in this report mean nothing"
        ]
    return [
        f"timeouts: not in the data; {timeouts.sum():,} were told from breaks between next_observations and the observations below them"
    ]


def _time_limits(terminals: np.ndarray, max_episode_steps: int) -> np.ndarray:
    if max_episode_steps < 1:
        raise DataError(f"max_episode_steps: expected at least 1, got {max_episode_steps}")
    rows = np.arange(len(terminals))
    starts = np.concatenate([[0], np.flatnonzero(terminals)[:-1] + 1 if terminals[-1] else np.flatnonzero(terminals) + 1])
    start = starts[np.searchsorted(starts, rows, side="right") - 1]
    return (rows - start + 1) % max_episode_steps == 0


def _shift(observations: np.ndarray, terminals: np.ndarray) -> np.ndarray:
    following = np.empty_like(observations)
    following[:-1] = observations[1:]
    following[-1] = observations[-1]
    rows = np.flatnonzero(terminals)
    following[rows] = observations[rows]
    return following


def _unusable(
    observations: np.ndarray, next_observations: np.ndarray, terminals: np.ndarray, ends: np.ndarray, warnings: list[str]
) -> dict[str, np.ndarray]:
    """Rows at an episode's end whose recorded next observation is no use. Changes next_observations at terminals where it is not finite."""
    check_finite("next_observations", next_observations, rows=~ends)
    last = np.flatnonzero(ends)
    finite = np.isfinite(next_observations[last]).all(axis=1)
    unknown = last[~finite]
    replaced = unknown[terminals[unknown]]
    if len(replaced):
        next_observations[replaced] = observations[replaced]
        warnings.append(
            f"next_observations: {len(replaced):,} terminal rows hold NaN or infinity, first at row {replaced[0]}; replaced by their own "
            "observation, which has no effect"
        )
    unknown = unknown[~terminals[unknown]]
    cut = last[finite & ~terminals[last]]
    cut = cut[cut < len(ends) - 1]
    joined = cut[(next_observations[cut] == observations[cut + 1]).all(axis=1)]
    return {TIMEOUT: unknown[unknown < len(ends) - 1], OPEN: unknown[unknown == len(ends) - 1], JOINED: joined}
