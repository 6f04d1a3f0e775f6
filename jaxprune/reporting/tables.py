"""Tables as text: the summary for a terminal, the records as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from jaxprune.agents.base import Agent
from jaxprune.reporting import naming
from jaxprune.reporting.statistics import Ratio, Spread
from jaxprune.reporting.summary import Cell, Record, cells_of, runs_of, series_labels

HEADERS = ("criterion", "sparsity", "kept", "return", "best", "score", "of dense", "train", "seeds")


def kept_text(cell: Cell, *, of_total: bool = True) -> str:
    """`3,571 of 71,424`; `3,540 to 3,602 of 71,424` where the runs differ."""
    if cell.kept is None:
        return "n/a"
    low, high = cell.kept
    counts = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return counts + (f" of {cell.total:,}" if of_total and cell.total else "")


def spread_text(spread: Spread | None) -> str:
    """`1,946 [1,902, 2,004]`: the mean, and the range or the interval."""
    if spread is None:
        return "n/a"
    if len(spread.values) == 1:
        return naming.number(spread.mean)
    return f"{naming.number(spread.mean)} [{naming.number(spread.low)}, {naming.number(spread.high)}]"


def ratio_text(ratio: Ratio | None) -> str:
    """`98 %`, with its interval where it has one: `98 % [95, 101]`."""
    if ratio is None:
        return "n/a"
    interval = "" if ratio.low is None or ratio.high is None else f" [{100 * ratio.low:.0f}, {100 * ratio.high:.0f}]"
    return f"{100 * ratio.value:.0f} %{interval}".replace("-", "−")


def seeds_text(cell: Cell) -> str:
    """`3`; where runs failed `2 of 3 (seed 1 failed)`."""
    if not cell.failed:
        return str(len(cell.runs))
    names = f"seed{'s' if len(cell.failed) > 1 else ''} {', '.join(str(run.seed) for run in cell.failed)}"
    return f"{len(cell.runs)} of {len(cell.runs) + len(cell.failed)} ({names} failed)"


def text_table(records: Iterable[Record]) -> str:
    """The summary of a sweep as aligned text: a block per algorithm and data set, a line per criterion and sparsity.

    Raises:
      ValueError: as `summary.runs_of`.
    """
    runs = runs_of(records)
    cells = cells_of(runs)
    labels = series_labels(run.series for run in runs)
    rows = [
        (
            labels[cell.series],
            naming.percent(cell.sparsity),
            kept_text(cell, of_total=False),
            spread_text(cell.returns),
            naming.number(cell.best.mean if cell.best else None),
            naming.number(cell.scores.mean if cell.scores else None),
            "" if cell.series.dense else ratio_text(cell.of_dense),
            naming.duration(cell.wall_s),
            seeds_text(cell),
        )
        for cell in cells
    ]
    head, *body = _aligned([HEADERS, *rows])
    lines = []
    block = None
    for cell, line in zip(cells, body, strict=True):
        if block != (block := (cell.algo, cell.datasets)):
            total = f" ({cell.total:,} prunable weights)" if cell.total else ""
            lines += [""] * bool(lines) + [
                f"{naming.name(cell.algo)} on {naming.dataset_name(cell.datasets[0])}{total}",
                head,
                "-" * len(head),
            ]
        lines.append(line)
    if any(run.evaluated for run in runs) or all(run.failure for run in runs):
        lines += ["", f"Return and score: the mean of a run's last three evaluations, over seeds; in brackets {brackets_text(cells)}."]
    else:
        lines += ["", "Not evaluated: the runs were trained without playing episodes."]
    lines += [f"Failed, in no number above: {run.run_id} (seed {run.seed}): {run.failure}" for cell in cells for run in cell.failed]
    return "\n".join(lines)


def brackets_text(cells: Sequence[Cell]) -> str:
    """What the brackets of `spread_text` hold in a table of these cells."""
    kinds = {spread.kind for cell in cells if (spread := cell.returns or cell.scores)}
    if kinds == {"bootstrap"}:
        return "the 95 % bootstrap interval of the mean"
    if kinds <= {"range"}:
        return "the range [min, max] (fewer than five seeds)"
    return "the range [min, max] under five seeds, else the 95 % bootstrap interval of the mean"


def csv_text(records: Sequence[Record], columns: Sequence[str] | None = None) -> str:
    """The records as CSV with a header: these columns, or all of them in order of appearance."""
    if columns is None:
        columns = list(dict.fromkeys(column for record in records for column in record))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return buffer.getvalue()


def plain_cell(value: Any) -> str:
    """A value in a reader's digits: three of a float below 100, none after its point above."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(plain_cell, value))
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def widths_text(agent: Agent) -> str:
    """Hidden sizes of every network, as in `critic:400-300 actor:400-300`."""
    return " ".join(f"{name}:" + "-".join(str(group.size) for group in agent.groups(name)) for name in agent.order)


def markdown_table(
    columns: Mapping[str, str] | Sequence[str], records: Iterable[Record], cell: Callable[[Any], str] = plain_cell
) -> list[str]:
    """The lines of a table: {column: heading}, or columns that are their own headings; a missing value is None."""
    headings = list(columns.values()) if isinstance(columns, Mapping) else list(columns)
    rows = [[cell(record.get(name)) for name in columns] for record in records]
    return [f"| {' | '.join(headings)} |", "|" + "---|" * len(headings), *(f"| {' | '.join(row)} |" for row in rows)]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            text.ljust(width) if column == 0 else text.rjust(width) for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
