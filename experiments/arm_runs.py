"""Arms of an experiment, each a sweep of its own over seeds, and what a table says of one."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np

import jaxprune as jp
from jaxprune.training.sweep import versions


def run_arm(folder: pathlib.Path, data: jp.data.Dataset, config: jp.SweepConfig) -> dict[str, Any]:
    """Run one arm (or go on with it) and sum it up.

    Returns:
      return_mean, return_min and return_max over seeds, each the mean of its last three evaluations; score likewise; kept, executed;
      pruned_at of every seed; run_s, the seconds of one run's updates, dense ones before pruning and compilation included; step_ms, of
      the updates after the first evaluation that follows pruning, compilation left out; curve, [(step, mean return over seeds)]; widths.
    """
    records = jp.sweep(config, folder, dataset=data, resume=True, progress=False)
    by_seed: dict[int, list[dict[str, Any]]] = {}
    for record in sorted(records, key=lambda record: record["step"]):
        by_seed.setdefault(record["seed"], []).append(record)
    finals = [np.mean([row["return_mean"] for row in rows[-3:]]) for rows in by_seed.values()]
    scores = [np.mean([row["score"] for row in rows[-3:]]) for rows in by_seed.values() if rows[-1]["score"] is not None]
    timed = []
    for rows in by_seed.values():
        own = [row for row in rows if row["wall_s"] > 0]
        if len(own) > 1:
            timed.append((own[-1]["wall_s"] - own[0]["wall_s"]) / own[-1]["stack"] / (own[-1]["step"] - own[0]["step"]))
    lasts = [rows[-1] for rows in by_seed.values()]
    agent, _ = jp.load_run(folder / "runs" / lasts[0]["run_id"])
    return {
        "return_mean": float(np.mean(finals)),
        "return_min": float(np.min(finals)),
        "return_max": float(np.max(finals)),
        "score": float(np.mean(scores)) if scores else None,
        "kept": lasts[0]["kept"],
        "executed": lasts[0]["executed"],
        "pruned_at": [last["pruned_at"] for last in lasts],
        "run_s": float(np.mean([last["dense_s"] + last["wall_s"] / last["stack"] for last in lasts])),
        "step_ms": 1e3 * float(np.median(timed)) if timed else None,
        "curve": [
            (step, float(np.mean([row["return_mean"] for rows in by_seed.values() for row in rows if row["step"] == step])))
            for step in sorted({row["step"] for row in records})
        ],
        "widths": widths(agent),
    }


def widths(agent: jp.Agent) -> str:
    """Hidden sizes of every network, as in `policy:112-96`."""
    return " ".join(f"{name}:" + "-".join(str(group.size) for group in agent.groups(name)) for name in agent.order)


def markdown_table(columns: dict[str, str], rows: list[dict[str, Any]]) -> str:
    """Rows under headings, numbers in a reader's digits."""

    def cell(value: Any) -> str:
        if isinstance(value, float):
            return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
        if isinstance(value, list):
            return ", ".join(map(cell, value))
        return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)

    lines = ["| " + " | ".join(columns.values()) + " |", "|" + "---|" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(cell(row[name]) for name in columns) + " |" for row in rows)])


def made_by(command: str, seconds: float) -> str:
    """The last paragraph of a result."""
    return f"Made by `{command}` in {seconds / 60:.0f} minutes with {json.dumps(versions())}."
