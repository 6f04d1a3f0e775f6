"""What loading a log found in it, and what it left out."""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """Counts and ranges of a loaded log; `str` of it is a readable summary.

    Attributes:
      rows_read: rows in the source.
      rows_kept: rows in the transitions.
      dropped: rows left out, by reason; sums to ``rows_read - rows_kept``.
      dropped_rewards: sum of the rewards of those rows, by reason.
      episodes: episodes in the source, an open last one included.
      terminals: episodes that ended in a terminal state.
      timeouts: episodes that were cut by a time limit (or at a break of continuity, where no time limits are recorded).
      episode_returns: [episodes] float64 undiscounted returns, of every row read.
      episode_lengths: [episodes] rows read.
      episode_terminal: [episodes] bool.
      episode_open: [episodes] bool; neither terminal nor timeout: the recording stopped inside the episode.
      action_low, action_high: [A] smallest and largest action kept.
      actions_at_bounds: [A] actions exactly at a bound; empty for discrete actions.
      actions_outside: [A] actions outside the bounds before any clipping; empty for discrete actions.
      actions_clipped: whether those were clipped.
      constant_columns: key -> columns that never change.
      warnings: one sentence for each thing that a person should know before training.
    """

    rows_read: int
    rows_kept: int
    dropped: dict[str, int]
    dropped_rewards: dict[str, float]
    episodes: int
    terminals: int
    timeouts: int
    episode_returns: np.ndarray
    episode_lengths: np.ndarray
    episode_terminal: np.ndarray
    episode_open: np.ndarray
    action_low: np.ndarray
    action_high: np.ndarray
    actions_at_bounds: np.ndarray
    actions_outside: np.ndarray
    actions_clipped: bool
    constant_columns: dict[str, tuple[int, ...]]
    warnings: tuple[str, ...]

    @property
    def return_statistics(self) -> dict[str, float]:
        """Mean, standard deviation, min, median and max return of the closed episodes (of all, if every one is open)."""
        return _summary(self.episode_returns[self._counted])

    @property
    def length_statistics(self) -> dict[str, float]:
        """The same of their lengths."""
        return _summary(self.episode_lengths[self._counted])

    @property
    def _counted(self) -> np.ndarray:
        return np.ones_like(self.episode_open) if self.episode_open.all() else ~self.episode_open

    def __str__(self) -> str:
        returns, lengths = self.return_statistics, self.length_statistics
        open_episodes = int(self.episode_open.sum())
        ends = f"{self.terminals:,} terminal, {self.timeouts:,} timeout" + (f", {open_episodes:,} open" if open_episodes else "")
        lines = [
            f"rows      {self.rows_kept:,} kept of {self.rows_read:,}",
            *(f"  dropped {count:,}: {reason}" for reason, count in self.dropped.items()),
            f"episodes  {self.episodes:,} ({ends})",
            "returns   " + _line(returns, ".1f"),
            "lengths   " + _line(lengths, ".0f"),
        ]
        if self.actions_outside.size:
            elements = self.rows_kept * self.actions_outside.size
            at, outside = int(self.actions_at_bounds.sum()), int(self.actions_outside.sum())
            clipped = ", clipped" if self.actions_clipped and outside else ""
            lines.append(f"actions   {at / elements:.1%} at a bound, {outside / elements:.1%} outside{clipped}")
        lines += [f"warning   {warning}" for warning in self.warnings]
        return "\n".join(lines)


def _summary(values: np.ndarray) -> dict[str, float]:
    values = np.asarray(values, np.float64)
    statistics = {"mean": values.mean(), "std": values.std(), "min": values.min(), "median": np.median(values), "max": values.max()}
    return {name: float(value) for name, value in statistics.items()}


def _line(statistics: dict[str, float], form: str) -> str:
    mean, std, low, middle, high = (format(value, form) for value in statistics.values())
    return f"mean {mean} (std {std}), median {middle}, range {low} to {high}"
