"""`report.html` of a sweep: the answer, the table, the figures, what failed, and how it was made, in one file that works offline."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from jaxprune.files import write_whole
from jaxprune.reporting import naming, page, verdict
from jaxprune.reporting.figures import learning_curves, return_against_sparsity
from jaxprune.reporting.layers import checked_layers, layer_fractions
from jaxprune.reporting.statistics import Spread
from jaxprune.reporting.summary import Cell, Record, Run, Series, cells_of, pooled_cells, runs_of, series_labels
from jaxprune.reporting.svg import to_svg
from jaxprune.reporting.tables import brackets_text, csv_text, kept_text, ratio_text, spread_text, text_table

__all__ = ["report_html", "text_table", "write_report"]

# Keys of `config` that have a place of their own; everything else is listed as it is.
COMMAND, VERSIONS, HARDWARE = "command", "versions", "hardware"
BEHAVIOUR, BEHAVIOUR_SCORE = "behaviour_return", "behaviour_score"


def write_report(
    path: str | os.PathLike[str],
    records: Iterable[Record],
    config: Mapping[str, Any],
    *,
    layers: Iterable[Record] | None = None,
    notes: str | Sequence[str] | None = None,
) -> Path:
    """Write the report of a sweep as one HTML file, whole or not at all, and return its path.

    Args:
      path: of the file; its folder must exist.
      records: one row per run and evaluation (see `summary.runs_of`).
      config: of the sweep. `command` (str), `versions` and `hardware` (mappings or str), `behaviour_return` and `behaviour_score` (of the
        policy that recorded the data: a float, or {dataset: float}) are shown in their own places, the rest in a list.
      layers: one row per run and layer: algo, criterion, sparsity, seed, layer, kept, total; optionally dataset and network.
      notes: paragraphs shown below the title.

    Raises:
      ValueError: if there are no records, or a row lacks a column; nothing is written then.
    """
    target = Path(path)
    html = report_html(records, config, layers=layers, notes=notes)
    write_whole(target, html)
    return target


def report_html(
    records: Iterable[Record],
    config: Mapping[str, Any],
    *,
    layers: Iterable[Record] | None = None,
    notes: str | Sequence[str] | None = None,
) -> str:
    """The page of `write_report` as text: the same for the same inputs."""
    rows = list(records)
    layer_rows = checked_layers(layers or ())
    runs = runs_of(rows)
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
        body.append(
            "<ul>"
            + "".join(f'<li><a href="#part-{place}">{page.words(told)}</a></li>' for place, (_, told) in enumerate(headlines))
            + "</ul>"
        )
    for place, ((algo, dataset), cells) in enumerate(groups.items()):
        own = [row for row, run in _paired(rows) if run == (algo, dataset)]
        own_layers = [row for row in layer_rows if str(row["algo"]) == algo and str(row.get("dataset") or dataset) == dataset]
        body += _part(place, cells, labels, own, own_layers, _behaviour(config, dataset), alone=len(groups) == 1)
    body += _pooled(runs, rows, labels)
    body += _failures(failed)
    body += _making(config, rows)
    return page.page(title, body)


def _lead(runs: Sequence[Run], failed: Sequence[Run]) -> str:
    evaluations = sum(len(run.steps) for run in runs)
    count = "1 run failed and counts" if len(failed) == 1 else f"{len(failed)} runs failed and count"
    lost = f' <strong class="bad">{count} in no number: see below.</strong>' if failed else ""
    return (
        f'<p class="lead">{len(runs)} runs, {evaluations:,} evaluations. Sparsity is the fraction of prunable weights removed before '
        f"training. A run's return is the mean of its last three evaluations; its best is reported apart.{lost}</p>"
    )


def _part(
    place: int,
    cells: list[Cell],
    labels: dict[Series, str],
    rows: list[Record],
    layers: list[Record],
    behaviour: tuple[float | None, float | None],
    *,
    alone: bool,
) -> list[str]:
    about = verdict.subject(cells[0])
    told = verdict.headline(cells, labels)
    body = [f'<section id="part-{place}">', f"<h2>{page.words('Return against sparsity' if alone else told)}</h2>"]
    if warnings := verdict.caveats(cells, labels):
        body.append("<p>" + page.words(" ".join(warnings)) + "</p>")
    finished = [cell for cell in cells if cell.returns]
    if finished:
        scored = all(cell.scores for cell in finished)
        drawn = return_against_sparsity(rows, value="score" if scored else "return", behaviour=behaviour[scored])
        kind = "normalised score" if scored else "return"
        image = to_svg(drawn, prefix=f"returns-{place}", title=f"{about}: {kind} against sparsity", description=_described(cells, labels))
        body.append(page.figure(image, f"{about}. {_marks(cells)}"))
    body.append(_table(f"{about}{_prunable(cells)}: return and score over seeds, in brackets {brackets_text(cells)}", cells, labels))
    if finished and max(len(run.steps) for cell in finished for run in cell.runs) > 1:
        names = dict.fromkeys(labels[cell.series] for cell in finished)
        curves = to_svg(
            learning_curves(rows),
            prefix=f"curves-{place}",
            title=f"{about}: learning curves",
            description=f"Return against updates, one panel per sparsity, a line each for {', '.join(names)}.",
        )
        body += ["<h3>Learning curves</h3>", page.figure(curves, f"{about}. {_curve_marks(cells)}")]
    if any(str(row["criterion"]) != "dense" for row in layers):
        bars = to_svg(
            layer_fractions(layers),
            prefix=f"layers-{place}",
            title=f"{about}: weights kept per layer",
            description=_layers_described(layers),
        )
        body += ["<h3>What each layer keeps</h3>", page.figure(bars, f"{about}. Bars: mean over seeds; whiskers: range over seeds.")]
    return [*body, "</section>"]


def _table(caption: str, cells: Sequence[Cell], labels: dict[Series, str]) -> str:
    pooled = any(len(cell.datasets) > 1 for cell in cells)
    told = [_told(cell) for cell in cells]
    iqm = any(spread is not None and spread.iqm is not None for spread in told)
    headers = ["Criterion", "Sparsity", "Kept", "Score" if pooled else "Return", *["IQM"] * iqm]
    headers += [*([] if pooled else ["Best", "Score"]), "Of dense", "Training", "Seeds × sets" if pooled else "Seeds"]
    rows = []
    for place, (cell, spread) in enumerate(zip(cells, told, strict=True)):
        middle = naming.number(spread.iqm) if spread else "n/a"
        single = [naming.number(cell.best.mean if cell.best else None), _spread_html(spread_text(cell.scores))]
        seeds = f"{len(cell.runs)} of {len(cell.runs) + len(cell.failed)}" if cell.failed else str(len(cell.runs))
        if pooled and spread:
            seeds = f"{spread.seeds} × {spread.tasks}"
        texts = [
            escape(labels[cell.series]),
            naming.percent(cell.sparsity),
            escape(kept_text(cell, of_total=pooled)),
            _spread_html(spread_text(spread)),
            *[middle] * iqm,
            *([] if pooled else single),
            "reference" if cell.series.dense else _meter(cell),
            naming.duration(cell.wall_s),
            f'<span class="bad">{seeds}</span>' if cell.failed else seeds,
        ]
        rows.append((place > 0 and cells[place - 1].series != cell.series, texts))
    return page.table(caption, headers, rows)


def _told(cell: Cell) -> Spread | None:
    """What a table is about: the return, or the score where data sets are pooled."""
    return cell.returns if len(cell.datasets) == 1 else cell.scores


def _marks(cells: Sequence[Cell]) -> str:
    """What the marks of a figure of return against sparsity stand for."""
    kinds = {cell.returns.kind for cell in cells if cell.returns}
    if kinds == {"range"}:
        return "Filled markers: mean over seeds; open points: single seeds, the bar their range. Grey band: the range of the dense runs."
    if kinds == {"bootstrap"}:
        return "Lines: mean over seeds, in its 95 % bootstrap interval; the grey band is that of the dense runs."
    return "Lines: mean over seeds. Bars and bands: the range under five seeds, else the 95 % bootstrap interval of the mean; grey: dense."


def _curve_marks(cells: Sequence[Cell]) -> str:
    kinds = {cell.returns.kind for cell in cells if cell.returns}
    thin, band = "thin: single seeds", "band: the 95 % bootstrap interval of the mean"
    return f"Thick: mean over seeds; {thin if kinds == {'range'} else band if kinds == {'bootstrap'} else f'{thin}, or {band}'}."


def _prunable(cells: Sequence[Cell]) -> str:
    totals = {cell.total for cell in cells}
    total = totals.pop() if len(totals) == 1 else None
    return f", {total:,} prunable weights" if total else ""


def _spread_html(text: str) -> str:
    mean, bracket, rest = text.partition(" [")
    return escape(mean) + (f"<small>{escape(bracket.strip() + rest)}</small>" if bracket else "")


def _meter(cell: Cell) -> str:
    if cell.of_dense is None:
        return "n/a"
    share = min(max(cell.of_dense.value, 0.0), 1.0)
    return f'<span class="meter" style="--share: {100 * share:.0f}%">{_spread_html(ratio_text(cell.of_dense))}</span>'


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
        body.append(_table(f"{about}, in brackets {brackets_text(cells)}", cells, labels))
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
    body.append(f"<p>{page.download(csv_text(rows), 'records.csv', 'text/csv', f'Download the {len(rows):,} records as CSV')}</p>")
    return body


def _described(cells: Sequence[Cell], labels: dict[Series, str]) -> str:
    """The figure in words, for those who cannot see it."""
    told = [
        f"{labels[cell.series]} at {naming.percent(cell.sparsity)}: {spread_text(cell.returns)}"
        for cell in cells
        if cell.returns is not None
    ]
    return "Mean return by criterion and sparsity. " + "; ".join(told) + "."


def _layers_described(layers: Sequence[Record]) -> str:
    names = list(dict.fromkeys(f"{row.get('network') or ''} {row['layer']}".strip() for row in layers))
    return f"Fraction of weights kept in each of {len(names)} layers ({', '.join(names)}), by criterion and sparsity."


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
