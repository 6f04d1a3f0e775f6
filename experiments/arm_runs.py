"""Arms of an experiment, each a sweep of its own over seeds, and what a table says of one."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import jaxprune as jp
from jaxprune.files import read_json, write_whole
from jaxprune.reporting import naming
from jaxprune.reporting.summary import Run, cells_of, runs_of
from jaxprune.reporting.tables import csv_text, markdown_table, widths_text
from jaxprune.training.records import read_records
from jaxprune.training.sweep import changed_setting, fingerprint, versions

# Of a sweep's files, what a folder of records keeps; the rows last, so that where they are the others are too.
KEPT = ("config.json", "records.jsonl")


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
    finished = [run for run in runs_of(records) if run.failure is None]
    finals = [run.final for run in finished]
    scores = [run.final_score for run in finished if run.final_score is not None]
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


def sweep_runs(
    folder: pathlib.Path, data: jp.data.Dataset, config: jp.SweepConfig, *, progress: bool = False, records: pathlib.Path | None = None
) -> tuple[list[Run], float]:
    """Run a sweep (or go on with it); its runs, and the seconds they took, starting, evaluation and compilation included.

    Args:
      folder: of the sweep.
      data: its data set.
      config: its settings.
      progress: show a bar where standard error is a terminal.
      records: a folder that keeps what sweeps recorded: one whose rows are there is not run, the rows of others are put there.

    Raises:
      ValueError: the rows that are there are of other settings or data.
    """
    rows = kept_rows(folder, data, config, records)
    if rows is None:
        rows = jp.sweep(config, folder, dataset=data, resume=True, progress=progress)
        if records is not None:
            keep_rows(folder, records)
    last = {record["run_id"]: record for record in rows}
    done = [record for record in last.values() if "stack" in record]
    return runs_of(rows), sum(r["start_s"] + r["dense_s"] + (r["wall_s"] + r["eval_s"]) / r["stack"] for r in done)


def keep_rows(folder: pathlib.Path, records: pathlib.Path) -> None:
    """Put the rows of a finished sweep, and its settings, in a folder of records."""
    kept = records / folder.name
    kept.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        write_whole(kept / name, (folder / name).read_text())


def kept_rows(
    folder: pathlib.Path, data: jp.data.Dataset, config: jp.SweepConfig, records: pathlib.Path | None
) -> list[dict[str, Any]] | None:
    """The rows of a sweep that a folder of records keeps; None where it has none.

    Raises:
      ValueError: they are of other settings or data.
    """
    if records is None or not (records / folder.name / KEPT[-1]).exists():
        return None
    kept = records / folder.name
    now = {**dataclasses.asdict(config), "env_id": config.env_id or data.env_id, "data": fingerprint(data)}
    if changed := changed_setting(read_json(kept / "config.json"), now):
        raise ValueError(f"{kept} holds the rows of {changed}; name another --records folder")
    return read_records(kept)


def is_done(folder: pathlib.Path, records: pathlib.Path | None = None) -> bool:
    """Whether a sweep in this folder has come to its end, where it writes its report, or has its rows in a folder of records."""
    return (folder / "report.html").exists() or (records is not None and (records / folder.name / KEPT[-1]).exists())


def returns_of(runs: Iterable[Run]) -> dict[tuple[str, float], dict[int, float]]:
    """{(criterion, sparsity): {seed: mean return of the last three evaluations}} of the runs that finished."""
    found: dict[tuple[str, float], dict[int, float]] = {}
    for run in runs:
        if run.failure is None:
            found.setdefault((run.series.criterion, run.sparsity), {})[run.seed] = run.final
    return found


def cell_rows(runs: Sequence[Run], **names: Any) -> list[dict[str, Any]]:
    """A row for all seeds of a criterion and sparsity: names, return, score and the ratio to dense with their spread, kept, seeds, failed.

    `spread` says what low and high are: the range of the seeds, or the bootstrap interval of their mean.
    """
    rows = []
    for cell in cells_of(runs):
        row: dict[str, Any] = {**names, "criterion": naming.name(cell.series.criterion), "sparsity": cell.sparsity}
        if cell.returns is not None:
            row |= {"return_mean": cell.returns.mean, "return_low": cell.returns.low, "return_high": cell.returns.high}
            row |= {"spread": cell.returns.kind, "score": None if cell.scores is None else cell.scores.mean}
            row["of_dense"] = None if cell.of_dense is None else cell.of_dense.value
        row |= {"kept": None if cell.kept is None else cell.kept[0], "total": cell.total, "seeds": len(cell.runs)}
        rows.append({**row, "failed": "; ".join(f"seed {run.seed}: {run.failure}" for run in cell.failed)})
    return rows


def failures_told(rows: Sequence[Mapping[str, Any]], *names: str) -> list[str]:
    """A sentence for every row of `cell_rows` with failed runs, told by its data set, criterion, sparsity and these columns."""
    found = []
    for row in rows:
        if row["failed"]:
            about = ", ".join((row["dataset"], f"{row['criterion']} at {naming.percent(row['sparsity'])}", *(row[name] for name in names)))
            found.append(f"Failed, in no number above: {about} ({row['failed']}).")
    return found


def authors_settings(algo: str, data: jp.data.Dataset, steps: int | None = None) -> dict[str, Any]:
    """What an algorithm's authors set by data set, and by the length of a run where that is given."""
    if algo != "iql":
        return {}
    returns = data.report.return_statistics
    gap = returns["max"] - returns["min"]
    return {"reward_scale": 1000 / gap if gap else 1.0, **({} if steps is None else {"max_steps": steps})}


class KeptRows:
    """Rows that are on disk as soon as they are made: after a stop, what is there is not made again.

    Args:
      path: of the file, JSON lines; made if absent.
      settings: what the rows depend on.

    Raises:
      ValueError: the file was begun with other settings.
    """

    def __init__(self, path: pathlib.Path, settings: Mapping[str, Any]):
        self.path, self.rows = path, {}
        head = json.dumps(settings, sort_keys=True)
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        # A line that was being written when the process was killed has no end.
        lines = [line for line in lines if line.endswith("\n")]
        if lines and lines[0].strip() != head:
            raise ValueError(f"{path} was begun with {lines[0].strip()}, not {head}; name another --work folder, or delete it")
        for line in lines[1:]:
            key, rows = json.loads(line)
            self.rows[key] = rows
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, "".join(lines) or head + "\n")

    def add(self, key: str, rows: Any) -> None:
        """Keep what was made under a key."""
        self.rows[key] = rows
        with self.path.open("a") as file:
            file.write(json.dumps([key, rows]) + "\n")


def numbers_of(flag: str, texts: Sequence[str], kind: type) -> tuple:
    """A list flag as numbers.

    Raises:
      ValueError: names the flag.
    """
    try:
        return tuple(kind(text) for text in texts)
    except ValueError:
        raise ValueError(f"--{flag}={','.join(texts)}: expected {kind.__name__} numbers separated by commas") from None


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


def write_page(output: pathlib.Path, lines: Sequence[str], tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """OUTPUT/README.md of some lines, which are printed too, and {NAME: rows} as OUTPUT/NAME.csv."""
    for name, rows in tables.items():
        write_whole(output / f"{name}.csv", csv_text(list(rows)))
    text = "\n".join(lines) + "\n"
    write_whole(output / "README.md", text)
    print(text)


def made_by(command: str, seconds: float) -> str:
    """The last paragraph of a result."""
    return f"Made by `{command}` in {seconds / 60:.0f} minutes with {json.dumps(versions())}."
