"""`report.html` of a sweep: the answer, the tables, the figures, what failed, and how it was made, in one file that works offline."""

from __future__ import annotations

import gzip
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from jaxprune.files import write_whole
from jaxprune.reporting import naming, page, verdict
from jaxprune.reporting.costs import checked_sizes
from jaxprune.reporting.figures import return_against_sparsity
from jaxprune.reporting.layers import checked_layers
from jaxprune.reporting.page_tables import result_table
from jaxprune.reporting.parts import Part, part_html
from jaxprune.reporting.summary import Cell, Record, Run, Series, cells_of, pooled_cells, runs_of, series_labels
from jaxprune.reporting.svg import to_svg
from jaxprune.reporting.tables import brackets_text, csv_text, text_table

__all__ = ["report_html", "text_table", "write_report"]

# Keys of `config` that have a place of their own; everything else is listed as it is.
COMMAND, VERSIONS, HARDWARE = "command", "versions", "hardware"
BEHAVIOUR, BEHAVIOUR_SCORE = "behaviour_return", "behaviour_score"
# Bytes of CSV beyond which the records travel compressed.
LARGE = 200_000


def write_report(
    path: str | os.PathLike[str],
    records: Iterable[Record],
    config: Mapping[str, Any],
    *,
    layers: Iterable[Record] = (),
    sizes: Iterable[Record] = (),
    masks: Iterable[Mapping[str, Any]] = (),
    notes: str | Sequence[str] | None = None,
) -> Path:
    """Write the report of a sweep as one HTML file, whole or not at all, and return its path.

    Args:
      path: of the file; its folder must exist.
      records: one row per run and evaluation (see `summary.runs_of`); with wall_s, stack, executed and such, costs are shown too.
      config: of the sweep. `command` (str), `versions` and `hardware` (mappings or str), `behaviour_return` and `behaviour_score` (of the
        policy that recorded the data: a float, or {dataset: float}) are shown in their own places, the rest in a list.
      layers: one row per run and layer: algo, criterion, sparsity, seed, layer, kept, total; optionally dataset and network.
      sizes: one row per run, or per one run of each setting: run_id, and the bytes of its policy, dense_bytes, stored_bytes, int8_bytes
        (see `costs.Cost`).
      masks: one row per run whose mask is drawn: run_id, and kernels, {path: bool [in, out] or [members, in, out]}.
      notes: paragraphs shown below the title.

    Raises:
      ValueError: if there are no records, a row lacks a column, or masks are of unknown runs; nothing is written then.
    """
    target = Path(path)
    html = report_html(records, config, layers=layers, sizes=sizes, masks=masks, notes=notes)
    write_whole(target, html)
    return target


def report_html(
    records: Iterable[Record],
    config: Mapping[str, Any],
    *,
    layers: Iterable[Record] = (),
    sizes: Iterable[Record] = (),
    masks: Iterable[Mapping[str, Any]] = (),
    notes: str | Sequence[str] | None = None,
) -> str:
    """The page of `write_report` as text: the same for the same inputs."""
    rows = list(records)
    layer_rows, size_rows = checked_layers(layers), checked_sizes(sizes)
    runs = runs_of(rows)
    mask_rows = _checked_masks(masks, runs)
    labels = series_labels(run.series for run in runs)
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells_of(runs):
        groups.setdefault((cell.algo, cell.datasets[0]), []).append(cell)
    headlines = [(cells, verdict.headline(cells, labels)) for cells in groups.values()]
    title = verdict.overall(headlines)
    failed = [run for run in runs if run.failure is not None]
    body = [f"<h1>{page.words(title)}</h1>", _lead(runs, failed)]
    body += [f"<p>{page.words(note)}</p>" for note in ([notes] if isinstance(notes, str) else notes or ())]
    if len(headlines) > 1:
        links = [f'<li><a href="#part-{place}">{page.words(told)}</a></li>' for place, (_, told) in enumerate(headlines)]
        body.append(f"<ul>{''.join(links)}</ul>")
    for place, ((algo, dataset), (cells, told)) in enumerate(zip(groups, headlines, strict=True)):
        own = {run.run_id for run in runs if (run.algo, run.dataset) == (algo, dataset) and run.failure is None}
        part = Part(
            place,
            cells,
            [row for row, pair in _paired(rows) if pair == (algo, dataset)],
            layers=[row for row in layer_rows if str(row["algo"]) == algo and str(row.get("dataset") or dataset) == dataset],
            sizes=[row for row in size_rows if str(row["run_id"]) in own],
            masks=[row for row in mask_rows if str(row["run_id"]) in own],
            behaviour=_behaviour(config, dataset),
        )
        alone = "Return against sparsity" if part.finished else "Runs"
        body += part_html(part, labels, heading=alone if len(groups) == 1 else told)
    body += _pooled(runs, rows, labels)
    body += _failures(failed)
    body += _making(config, rows)
    return page.page(title, body)


def _checked_masks(rows: Iterable[Mapping[str, Any]], runs: Sequence[Run]) -> list[Mapping[str, Any]]:
    checked, known = list(rows), {run.run_id for run in runs}
    for index, row in enumerate(checked):
        if missing := [column for column in ("run_id", "kernels") if column not in row]:
            raise ValueError(f"mask row {index} has no {', '.join(missing)}; expected run_id and kernels")
        if str(row["run_id"]) not in known:
            raise ValueError(f"mask row {index} is of run {row['run_id']}, which no record is of")
    return checked


def _lead(runs: Sequence[Run], failed: Sequence[Run]) -> str:
    evaluations = sum(len(run.steps) for run in runs)
    count = "1 run failed and counts" if len(failed) == 1 else f"{len(failed)} runs failed and count"
    lost = f' <strong class="bad">{count} in no number: see below.</strong>' if failed else ""
    if not any(run.evaluated for run in runs) and len(failed) < len(runs):
        return (
            f'<p class="lead">{len(runs)} runs, not evaluated: they were trained without playing episodes, so there is no '
            f"return. Sparsity is the fraction of prunable weights removed before training.{lost}</p>"
        )
    return (
        f'<p class="lead">{len(runs)} runs, {evaluations:,} evaluations. Sparsity is the fraction of prunable weights removed before '
        f"training. A run's return is the mean of its last three evaluations; its best is reported apart.{lost}</p>"
    )


def _pooled(runs: Sequence[Run], rows: Sequence[Record], labels: dict[Series, str]) -> list[str]:
    """Scores over all data sets of an algorithm, where it has several with reference scores."""
    body = []
    for algo in dict.fromkeys(run.algo for run in runs):
        own = [run for run in runs if run.algo == algo]
        datasets = {run.dataset for run in own}
        cells = pooled_cells(own) if len(datasets) > 1 else []
        if not cells:
            continue
        about = f"{naming.name(algo)}, normalised score over {len(datasets)} data sets"
        drawn = return_against_sparsity([row for row in rows if str(row["algo"]) == algo], value="score")
        image = to_svg(drawn, prefix=f"pooled-{algo}", title=about, description=f"{about} against sparsity.")
        body += [
            f"<h2>{escape(about)}</h2>",
            page.figure(image, "Settings with a score on every data set, pooled; intervals are stratified by data set."),
        ]
        body.append(result_table(f"{about}, in brackets {brackets_text(cells)}", cells, labels))
    return body


def _failures(failed: Sequence[Run]) -> list[str]:
    if not failed:
        return []
    headers = ("Run", "Algorithm", "Criterion", "Sparsity", "Seed", "Why")
    rows = []
    for run in failed:
        names = (naming.name(run.algo), naming.name(run.series.criterion), naming.percent(run.sparsity))
        rows.append((False, [escape(word) for word in (run.run_id, *names, str(run.seed), run.failure or "")]))
    return ['<h2 class="bad">Failed runs</h2>', page.table("These seeds count in no number and no line above", headers, rows, prose=True)]


def _making(config: Mapping[str, Any], rows: Sequence[Record]) -> list[str]:
    body = ["<h2>How this was made</h2>"]
    if command := config.get(COMMAND):
        body.append(f"<pre>{escape(command if isinstance(command, str) else ' '.join(str(word) for word in command))}</pre>")
    for key, heading in ((HARDWARE, "Hardware"), (VERSIONS, "Versions")):
        if value := config.get(key):
            body += [f"<h3>{heading}</h3>", page.definitions(value) if isinstance(value, Mapping) else f"<p>{escape(str(value))}</p>"]
    if rest := {key: value for key, value in config.items() if key not in (COMMAND, HARDWARE, VERSIONS)}:
        body.append(f"<details><summary>Configuration ({len(rest)} settings)</summary>{page.definitions(rest)}</details>")
    text, label = csv_text(rows), f"Download the {len(rows):,} records as CSV"
    if len(text) > LARGE:
        body.append(
            f"<p>{page.download(gzip.compress(text.encode(), mtime=0), 'records.csv.gz', 'application/gzip', label + ' (gzip)')}</p>"
        )
    else:
        body.append(f"<p>{page.download(text.encode(), 'records.csv', 'text/csv;charset=utf-8', label)}</p>")
    return body


def _behaviour(config: Mapping[str, Any], dataset: str) -> tuple[float | None, float | None]:
    """Return and score of the policy that recorded the data."""

    def number(key: str) -> float | None:
        value = config.get(key)
        if isinstance(value, Mapping):
            value = value.get(dataset)
        return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None

    return number(BEHAVIOUR), number(BEHAVIOUR_SCORE)


def _paired(rows: Sequence[Record]) -> list[tuple[Record, tuple[str, str]]]:
    return [(row, (str(row["algo"]), str(row.get("dataset") or row.get("env_id") or ""))) for row in rows]
