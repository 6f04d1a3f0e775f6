"""Arms of an experiment, each a sweep of its own over seeds, and what a table says of one."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np

import jaxprune as jp
from jaxprune.reporting.tables import csv_text, markdown_table, widths_text
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
        "widths": widths_text(agent),
    }


def updates_of(algos: list[str], texts: list[str]) -> dict[str, int]:
    """{algorithm: updates of a run}, from the flags --algos and --steps."""
    if len(texts) != len(algos):
        raise ValueError(f"--steps={','.join(texts)}: expected one number for each of --algos={','.join(algos)}")
    if not all(text.isdigit() and int(text) for text in texts):
        raise ValueError(f"--steps={','.join(texts)}: expected whole numbers above 0")
    return dict(zip(algos, map(int, texts), strict=True))


def write_results(output: pathlib.Path, columns: dict[str, str], rows: list[dict[str, Any]], before: list[str], after: list[str]) -> None:
    """OUTPUT/table.csv, and OUTPUT/README.md with the table between what is said before and after it, which is printed too."""
    (output / "table.csv").write_text(csv_text(rows, list(columns)))
    text = "\n".join([*before, "", *markdown_table(columns, rows), "", *after]) + "\n"
    (output / "README.md").write_text(text)
    print(text)


def made_by(command: str, seconds: float) -> str:
    """The last paragraph of a result."""
    return f"Made by `{command}` in {seconds / 60:.0f} minutes with {json.dumps(versions())}."
