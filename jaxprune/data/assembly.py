"""From a log to a validated data set: actions checked against their bounds, rows dropped, statistics taken, the report written."""

from __future__ import annotations

import numpy as np
from absl import logging

from jaxprune.data import suspicions
from jaxprune.data.columns import chunks, keep_rows, summarize
from jaxprune.data.episodes import Log
from jaxprune.data.reference import reference_returns
from jaxprune.data.report import LoadReport
from jaxprune.data.transitions import Dataset, Spec, Transitions
from jaxprune.errors import DataError


def assemble(
    log: Log,
    *,
    name: str,
    low=None,
    high=None,
    discrete: int | None = None,
    env_id: str | None = None,
    reference: tuple[float, float] | None = None,
    clip_actions: bool = False,
) -> Dataset:
    """Drops the rows that `log` names, checks what is left, and reports.

    Args:
      log: every row of a source; its arrays are changed in place and become the data set's.
      name: what was loaded.
      low: lower bounds of the actions, [A] or a scalar.
      high: upper bounds, likewise.
      discrete: the number of actions, where they are integers.
      env_id: Gymnasium id to evaluate in.
      reference: (random, expert) returns for an environment that D4RL's table does not know.
      clip_actions: move actions outside the bounds to the bound.

    Raises:
      DataError: no usable row, or actions or bounds that do not fit.
    """
    warnings = list(log.warnings)
    spec = _spec(log, low, high, discrete)
    keep = np.ones(len(log.rewards), bool)
    for rows in log.dropped.values():
        keep[rows] = False
    keep = np.flatnonzero(keep)
    if not len(keep):
        reasons = "; ".join(f"{len(rows):,} × {reason}" for reason, rows in log.dropped.items())
        raise DataError(
            f"observations: expected at least one whole transition, got none of {len(log.rewards):,} rows ({reasons}); "
            "record next_observations"
        )

    episodes = _episodes(log)
    dropped_rewards = {reason: float(log.rewards[rows].sum(dtype=np.float64)) for reason, rows in log.dropped.items()}
    transitions = Transitions(
        observations=keep_rows(log.observations, keep),
        actions=keep_rows(log.actions, keep),
        rewards=keep_rows(log.rewards, keep),
        next_observations=keep_rows(log.next_observations, keep),
        discounts=1.0 - log.terminals[keep].astype(np.float32),
    )

    at_bounds = outside = np.zeros(0, np.int64)
    if not spec.discrete:
        at_bounds, outside = _count_at_bounds(transitions.actions, spec)
        if outside.any():
            warnings.append(suspicions.outside_bounds(transitions.actions, outside, spec, clip_actions))
        if clip_actions:
            np.clip(transitions.actions, np.asarray(spec.low, np.float32), np.asarray(spec.high, np.float32), out=transitions.actions)

    summaries = {key: summarize(getattr(transitions, key)) for key in ("observations", "actions", "rewards", "next_observations")}
    constant = {key: tuple(np.flatnonzero(summaries[key].constant).tolist()) for key in ("observations", "actions", "rewards")}
    constant = {key: columns for key, columns in constant.items() if columns}
    # Where an episode can end, steps that all earn the same still tell actions apart, by how many of them there are (CartPole).
    lasting = bool(summaries["rewards"].low[0] != 0 and not transitions.discounts.all())
    warnings += suspicions.constant_columns({k: v for k, v in constant.items() if k != "rewards" or not lasting}, summaries)
    warnings += suspicions.still_columns(summaries["observations"])
    for key, columns in summaries.items():
        warnings += suspicions.magnitudes(key, columns)

    report = LoadReport(
        rows_read=len(log.rewards),
        rows_kept=len(keep),
        dropped={reason: len(rows) for reason, rows in log.dropped.items()},
        dropped_rewards=dropped_rewards,
        action_low=summaries["actions"].low,
        action_high=summaries["actions"].high,
        actions_at_bounds=at_bounds,
        actions_outside=outside,
        actions_clipped=clip_actions,
        constant_columns=constant,
        warnings=tuple(warnings),
        **episodes,
    )
    for warning in warnings:
        logging.warning("%s: %s", name, warning)
    return Dataset(
        transitions=transitions,
        spec=spec,
        env_id=env_id,
        reference=reference_returns(env_id) or reference,
        statistics=summaries["observations"].statistics(),
        report=report,
        name=name,
    )


def _spec(log: Log, low, high, discrete: int | None) -> Spec:
    observation_size = log.observations.shape[1]
    if discrete is not None:
        wrong = np.flatnonzero((log.actions < 0) | (log.actions >= discrete))
        if len(wrong):
            raise DataError(
                f"actions: expected integers from 0 to {discrete - 1}, got {log.actions[wrong[0]]} at {log.where(int(wrong[0]))} "
                f"({len(wrong):,} such rows); give the right number of actions"
            )
        return Spec(observation_size, discrete, (), (), discrete=True)
    size = log.actions.shape[1]
    try:
        low, high = (np.broadcast_to(np.asarray(bound, np.float64), (size,)) for bound in (low, high))
        return Spec(observation_size, size, tuple(low), tuple(high))
    except (ValueError, TypeError) as error:
        raise DataError(
            f"actions: bounds that do not fit {size} action features: {error}; give low and high as finite numbers or [{size}] arrays"
        ) from error


def _episodes(log: Log) -> dict:
    """The report's fields on episodes, of every row read."""
    ends = np.flatnonzero(log.ends)
    starts = np.concatenate([[0], ends[:-1] + 1])
    closed = log.terminals[ends] | log.timeouts[ends]
    return {
        "episodes": len(ends),
        "terminals": int(log.terminals[ends].sum()),
        "timeouts": int(log.timeouts[ends].sum()),
        "episode_returns": np.add.reduceat(log.rewards, starts, dtype=np.float64),
        "episode_lengths": ends - starts + 1,
        "episode_terminal": log.terminals[ends],
        "episode_open": ~closed,
    }


def _count_at_bounds(actions: np.ndarray, spec: Spec) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.asarray(spec.low, np.float32), np.asarray(spec.high, np.float32)
    at, outside = np.zeros(spec.action_size, np.int64), np.zeros(spec.action_size, np.int64)
    for rows in chunks(len(actions)):
        at += ((actions[rows] == low) | (actions[rows] == high)).sum(axis=0)
        outside += ((actions[rows] < low) | (actions[rows] > high)).sum(axis=0)
    return at, outside
