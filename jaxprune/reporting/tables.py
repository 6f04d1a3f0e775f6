"""Tables as text: the summary for a terminal, the records as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

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
    lines += ["", "Return and score: the mean of a run's last three evaluations, over seeds; in brackets " + brackets_text(cells) + "."]
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


def csv_text(records: Sequence[Record]) -> str:
    """The records as CSV with a header, columns in order of appearance."""
    columns = list(dict.fromkeys(column for record in records for column in record))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return buffer.getvalue()


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            text.ljust(width) if column == 0 else text.rjust(width) for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
