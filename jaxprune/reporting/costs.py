"""What the runs of a setting cost: seconds of training, weights that are multiplied, bytes of the policy."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

from jaxprune.reporting.summary import ABSENT, Cell, Record, Run, Series

SIZES = ("run_id", "dense_bytes", "stored_bytes", "int8_bytes")


@dataclasses.dataclass(frozen=True)
class Cost:
    """Means over the runs of a setting that finished; None where the records do not tell.

    Attributes:
      seconds: of training one run: its share of the stack it was trained in, and before that its own dense training.
      starting: seconds of initialising, scoring and pruning, compilation included.
      evaluating: seconds of playing episodes, its share of the stack.
      together: the most runs that were trained in one stack.
      executed: kernel weights in the arrays that are trained, padding included: what a forward pass multiplies by.
      dense: bytes of the policy at full size, dense float32.
      stored: bytes of the policy as exported, float32, each layer sparse where that is smaller.
      int8: likewise with int8 weights.
    """

    seconds: float | None = None
    starting: float | None = None
    evaluating: float | None = None
    together: int | None = None
    executed: float | None = None
    dense: float | None = None
    stored: float | None = None
    int8: float | None = None

    @property
    def total(self) -> float | None:
        """Seconds until a run is trained: starting it, which for some baselines is a training of its own, and its training."""
        return None if self.seconds is None else self.seconds + (self.starting or 0.0)


def checked_sizes(rows: Iterable[Record]) -> list[Record]:
    """The rows, one per run, if all have what a report needs of them.

    Raises:
      ValueError: naming the row and the missing column, or a size that is not a positive number.
    """
    checked = list(rows)
    for index, row in enumerate(checked):
        if missing := [column for column in SIZES if column not in row]:
            raise ValueError(f"size row {index} has no column {', '.join(missing)}; expected one row per run with {', '.join(SIZES)}")
        for column in SIZES[1:]:
            if not float(row[column]) > 0:
                raise ValueError(f"size row {index} ({row['run_id']}): expected {column} above 0, got {row[column]!r}")
    return checked


def costs_of(cells: Sequence[Cell], records: Iterable[Record], sizes: Iterable[Record] = ()) -> dict[tuple[Series, float], Cost]:
    """{(series, sparsity): cost} of the cells of one algorithm and data set.

    Args:
      cells: from `summary.cells_of`.
      records: one row per run and evaluation. wall_s, eval_s (both of the stack), stack, dense_s, start_s and executed are read where they
        are.
      sizes: one row per run, not necessarily of all runs.
    """
    last, weighed = last_rows(records), {str(row["run_id"]): row for row in sizes}
    return {(cell.series, cell.sparsity): _cost([last[run.run_id] for run in cell.runs], cell.runs, weighed) for cell in cells}


def last_rows(records: Iterable[Record]) -> dict[str, Record]:
    """{run: its row with the highest step, of several the later}."""
    found: dict[str, Record] = {}
    for record in records:
        before = found.get(run_id := str(record["run_id"]))
        if before is None or _number(record, "step", 0.0) >= _number(before, "step", 0.0):
            found[run_id] = record
    return found


def pareto_front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Of (cost, value), those with more value than all that cost no more, in the order of cost."""
    front: list[tuple[float, float]] = []
    for cost, value in sorted(points, key=lambda point: (point[0], -point[1])):
        if not front or value > front[-1][1]:
            front.append((cost, value))
    return front


def _cost(rows: Sequence[Record], runs: Sequence[Run], weighed: Mapping[str, Record]) -> Cost:
    stacks = [_number(row, "stack", 1.0) for row in rows]
    own = [weighed[run.run_id] for run in runs if run.run_id in weighed]
    return Cost(
        seconds=_mean(_number(row, "wall_s") / stack + _number(row, "dense_s", 0.0) for row, stack in zip(rows, stacks, strict=True)),
        starting=_mean(_number(row, "start_s") for row in rows),
        evaluating=_mean(_number(row, "eval_s") / stack for row, stack in zip(rows, stacks, strict=True)),
        together=int(max(stacks)) if any("stack" in row for row in rows) else None,
        executed=_mean(_number(row, "executed") for row in rows),
        dense=_mean(_number(row, "dense_bytes") for row in own),
        stored=_mean(_number(row, "stored_bytes") for row in own),
        int8=_mean(_number(row, "int8_bytes") for row in own),
    )


def _number(row: Record, column: str, otherwise: float = math.nan) -> float:
    value = row.get(column)
    return otherwise if value in ABSENT else float(value)  # pyright: ignore[reportArgumentType]


def _mean(values: Iterable[float]) -> float | None:
    known = [value for value in values if math.isfinite(value)]
    return math.fsum(known) / len(known) if known else None
