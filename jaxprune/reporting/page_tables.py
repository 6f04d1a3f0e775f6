"""The tables of a report: what each setting returned, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from jaxprune.reporting import naming, page
from jaxprune.reporting.costs import Cost
from jaxprune.reporting.statistics import Spread
from jaxprune.reporting.summary import Cell, Series
from jaxprune.reporting.tables import kept_text, ratio_text, spread_text


def result_table(caption: str, cells: Sequence[Cell], labels: Mapping[Series, str], *, seconds: bool = True) -> str:
    """A row per criterion and sparsity; no columns of returns where nothing was evaluated, of seconds only on request."""
    pooled = any(len(cell.datasets) > 1 for cell in cells)
    evaluated = any(run.evaluated for cell in cells for run in cell.runs + cell.failed)
    told = [_told(cell) for cell in cells]
    iqm = any(spread is not None and spread.iqm is not None for spread in told)
    returned = ["Score" if pooled else "Return", *["IQM"] * iqm, *([] if pooled else ["Best", "Score"]), "Of dense"]
    headers = ["Criterion", "Sparsity", "Kept", *returned * evaluated, *["Training"] * seconds, "Seeds × sets" if pooled else "Seeds"]
    rows = []
    for place, (cell, spread) in enumerate(zip(cells, told, strict=True)):
        middle = naming.number(spread.iqm) if spread else "n/a"
        single = [naming.number(cell.best.mean if cell.best else None), _spread_html(spread_text(cell.scores))]
        seeds = f"{len(cell.runs)} of {len(cell.runs) + len(cell.failed)}" if cell.failed else str(len(cell.runs))
        if pooled and spread:
            seeds = f"{spread.seeds} × {spread.tasks}"
        share = "reference" if cell.series.dense else _meter(cell)
        numbers = [_spread_html(spread_text(spread)), *[middle] * iqm, *([] if pooled else single), share]
        texts = [
            escape(labels[cell.series]),
            naming.percent(cell.sparsity),
            escape(kept_text(cell, of_total=pooled)),
            *numbers * evaluated,
            *[naming.duration(cell.wall_s)] * seconds,
            f'<span class="bad">{seeds}</span>' if cell.failed else seeds,
        ]
        rows.append((_begins(cells, place), texts))
    return page.table(caption, headers, rows)


def cost_table(about: str, cells: Sequence[Cell], costs: Mapping[tuple[Series, float], Cost], labels: Mapping[Series, str]) -> str:
    """A row per criterion and sparsity, a column per kind of cost that any of them tells; empty where none does."""
    every = [costs[cell.series, cell.sparsity] for cell in cells]
    full = max((cost.dense for cost in every if cost.dense), default=None)
    columns = {
        "Training a run": [naming.duration(cost.seconds) for cost in every],
        "Side by side": ["n/a" if cost.together is None else str(cost.together) for cost in every],
        "Starting": [naming.duration(cost.starting) for cost in every],
        "Evaluation": [naming.duration(cost.evaluating) for cost in every],
        "Multiplied": ["n/a" if cost.executed is None else f"{cost.executed:,.0f}" for cost in every],
        "Exported": [naming.size(cost.stored) for cost in every],
        "As int8": [naming.size(cost.int8) for cost in every],
        "Smaller": [_times(full / cost.stored) if full and cost.stored else "n/a" for cost in every],
    }
    columns = {header: texts for header, texts in columns.items() if set(texts) - {"n/a", "0.0 s"}}
    if not columns:
        return ""
    meaning = {
        "Training a run": "Training a run: its share of the stack that it was trained in, side by side with others",
        "Starting": "Starting: initialising, scoring and pruning, compilation included",
        "Multiplied": "Multiplied: weights in the arrays that were trained",
        "Exported": f"Exported: the policy in float32, each layer sparse where that is smaller ({naming.size(full)} as dense arrays)",
    }
    caption = ". ".join([f"{about}, means over seeds", *(text for header, text in meaning.items() if header in columns)]) + "."
    rows = [
        (
            _begins(cells, place),
            [escape(labels[cell.series]), naming.percent(cell.sparsity), *(texts[place] for texts in columns.values())],
        )
        for place, cell in enumerate(cells)
    ]
    return page.table(caption, ["Criterion", "Sparsity", *columns], rows)


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}×" if ratio >= 100 else f"{ratio:.1f}×"


def _begins(cells: Sequence[Cell], place: int) -> bool:
    """Whether a row is the first of its series, and not of the table."""
    return place > 0 and cells[place - 1].series != cells[place].series


def _told(cell: Cell) -> Spread | None:
    """What a table is about: the return, or the score where data sets are pooled."""
    return cell.returns if len(cell.datasets) == 1 else cell.scores


def _spread_html(text: str) -> str:
    mean, bracket, rest = text.partition(" [")
    return escape(mean) + (f"<small>{escape(bracket.strip() + rest)}</small>" if bracket else "")


def _meter(cell: Cell) -> str:
    if cell.of_dense is None:
        return "n/a"
    share = min(max(cell.of_dense.value, 0.0), 1.0)
    return f'<span class="meter" style="--share: {100 * share:.0f}%">{_spread_html(ratio_text(cell.of_dense))}</span>'
