"""Runs of a finished sweep, found by what they are or by what they earned."""

from __future__ import annotations

import os
import pathlib
from typing import Any

from jaxprune.agents.base import Agent, AgentState
from jaxprune.reporting.summary import LAST_EVALUATIONS, trained_on
from jaxprune.training.arms import DENSE
from jaxprune.training.checkpoint import load_run as load_saved
from jaxprune.training.records import read_records

COLUMNS = ("algo", "criterion", "sparsity", "seed")


def load_run(
    folder: str | os.PathLike,
    *,
    algo: str | None = None,
    criterion: str | None = None,
    sparsity: float | None = None,
    seed: int | None = None,
    agent: Agent | None = None,
) -> tuple[Agent, AgentState]:
    """The agent and state of a saved run, ready to act or to train on.

    Args:
      folder: of one run, such as OUTPUT/runs/bc-snip-0.95-0; or OUTPUT, with enough of what follows to name one run.
      algo: the run's.
      criterion: the run's; `dense` for the reference.
      sparsity: the run's.
      seed: the run's.
      agent: needed only where the run was trained with an optimizer of your own. At any widths: the file knows the run's.

    Raises:
      FileNotFoundError: the folder holds no run, or none such.
      ValueError: several runs are meant; it was written by a newer version, or with an optimizer that a file cannot name; or the agent
        given is another one.
    """
    where = {"algo": algo, "criterion": criterion, "sparsity": sparsity, "seed": seed}
    if any(value is not None for value in where.values()):
        folder = find_run(folder, **where)
    return load_saved(pathlib.Path(folder), agent=agent)


def find_run(folder: str | os.PathLike, **where: Any) -> pathlib.Path:
    """The folder of the one run of a sweep with these values; see `load_run`."""
    found = _matching(folder, where)
    if len(found) > 1:
        raise ValueError(f"{folder} holds {len(found)} runs with {_told(where)}: {', '.join(sorted(found)[:4])}, …; give more of {COLUMNS}")
    return pathlib.Path(folder) / "runs" / next(iter(found))


def best(
    folder: str | os.PathLike, *, algo: str | None = None, criterion: str | None = None, sparsity: float | None = None
) -> pathlib.Path:
    """The folder of the run with the highest return, the mean of its last three evaluations (since it was pruned), for `load_run`.

    Args:
      folder: of a sweep.
      algo: look among its runs only.
      criterion: look among its runs only; without it, and without a sparsity, among all pruned runs.
      sparsity: look among its runs only.

    Raises:
      FileNotFoundError: no such run was evaluated and finished.
    """
    where = {"algo": algo, "criterion": criterion, "sparsity": sparsity}
    found = _matching(folder, where)
    if criterion is None and sparsity is None:
        found = {run: rows for run, rows in found.items() if rows[-1]["criterion"] != DENSE}
    returns = {}
    for run, rows in found.items():
        rows = sorted(rows, key=lambda row: row["step"])
        own = rows[-trained_on([row["step"] for row in rows], rows[-1].get("pruned_at", 0)) :]
        last = [row["return_mean"] for row in own[-LAST_EVALUATIONS:]]
        if None not in last and rows[-1]["status"] == "ok":
            returns[run] = sum(last) / len(last)
    if not returns:
        raise FileNotFoundError(f"{folder} holds no finished run with a return and {_told(where) or 'a criterion'}")
    return pathlib.Path(folder) / "runs" / max(returns, key=returns.__getitem__)


def _matching(folder: str | os.PathLike, where: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """{run: its rows} of the saved runs with the values that are not None."""
    if not (pathlib.Path(folder) / "records.jsonl").exists():
        raise FileNotFoundError(f"{folder} holds no sweep (no records.jsonl in it)")
    runs: dict[str, list[dict[str, Any]]] = {}
    for row in read_records(folder):
        if all(value is None or row[name] == value for name, value in where.items()):
            runs.setdefault(row["run_id"], []).append(row)
    saved = {run: rows for run, rows in runs.items() if (pathlib.Path(folder) / "runs" / run / "agent.json").exists()}
    if not saved:
        raise FileNotFoundError(f"{folder} holds no finished run with {_told(where)}")
    return saved


def _told(where: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in where.items() if value is not None)
