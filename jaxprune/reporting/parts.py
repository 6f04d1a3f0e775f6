"""The part of a report about one algorithm on one data set: its figures and tables, with what they mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from jaxprune.reporting import naming, page, verdict
from jaxprune.reporting.costs import costs_of
from jaxprune.reporting.figures import learning_curves, return_against_sparsity
from jaxprune.reporting.layers import WHOLE, layer_fractions
from jaxprune.reporting.mask_figure import CELLS, mask_figure
from jaxprune.reporting.page_tables import cost_table, result_table
from jaxprune.reporting.pareto import costly_axes, return_against_cost
from jaxprune.reporting.summary import ABSENT, Cell, Record, Series
from jaxprune.reporting.svg import to_svg
from jaxprune.reporting.tables import brackets_text, spread_text


@dataclasses.dataclass(frozen=True)
class Part:
    """What a report knows of one algorithm on one data set.

    Attributes:
      place: of the part in its report.
      cells: from `summary.cells_of`.
      records, layers, sizes, masks: the rows of `report.write_report` that are about it.
      behaviour: return and score of the policy that recorded the data.
    """

    place: int
    cells: Sequence[Cell]
    records: Sequence[Record]
    layers: Sequence[Record] = ()
    sizes: Sequence[Record] = ()
    masks: Sequence[Mapping[str, Any]] = ()
    behaviour: tuple[float | None, float | None] = (None, None)

    @property
    def about(self) -> str:
        """`BC on Hopper medium`."""
        return verdict.subject(self.cells[0])

    @property
    def finished(self) -> list[Cell]:
        """Cells with a return."""
        return [cell for cell in self.cells if cell.returns]

    @property
    def scored(self) -> bool:
        """Whether figures show normalised scores: where all cells have one."""
        return all(cell.scores for cell in self.finished)

    def figure(self, drawn: Any, name: str, title: str, description: str, caption: str) -> str:
        """A figure of this part, inline."""
        return page.figure(
            to_svg(drawn, prefix=f"{name}-{self.place}", title=f"{self.about}: {title}", description=description),
            f"{self.about}. {caption}",
        )


def part_html(part: Part, labels: dict[Series, str], *, heading: str) -> list[str]:
    """The lines of a section."""
    cells = part.cells
    body = [f'<section id="part-{part.place}">', f"<h2>{page.words(heading)}</h2>"]
    if warnings := verdict.caveats(cells, labels):
        body.append("<p>" + page.words(" ".join(warnings)) + "</p>")
    if part.finished:
        body.append(_returns(part, labels))
    told = f": return and score over seeds, in brackets {brackets_text(cells)}" if part.finished else ""
    costs = _costs(part, labels)
    body.append(result_table(f"{part.about}{_prunable(cells)}{told}", cells, labels, seconds=not costs))
    return [*body, *costs, *_curves(part, labels), *_layers(part), *_masks(part, labels), "</section>"]


def _returns(part: Part, labels: dict[Series, str]) -> str:
    drawn = return_against_sparsity(part.records, value="score" if part.scored else "return", behaviour=part.behaviour[part.scored])
    kind = "normalised score" if part.scored else "return"
    return part.figure(drawn, "returns", f"{kind} against sparsity", _described(part.cells, labels), _marks(part.cells))


def _costs(part: Part, labels: dict[Series, str]) -> list[str]:
    costs = costs_of(part.cells, part.records, part.sizes)
    body = []
    if axes := costly_axes(part.cells, costs):
        drawn = return_against_cost(part.cells, costs, value="score" if part.scored else "return")
        kinds = ", ".join(axis.label[:1].lower() + axis.label[1:] for axis in axes)
        caption = (
            "Up and to the left is better. Points: means over seeds, with their range or interval. The line is the Pareto front of the "
            "means: the settings that no other beats at both, named by their sparsity."
        )
        body.append(part.figure(drawn, "costs", "return against cost", f"Return against {kinds}, a point per setting.", caption))
    if table := cost_table(part.about, part.cells, costs, labels):
        body.append(table)
    return ["<h3>What it costs</h3>", *body] if body else []


def _curves(part: Part, labels: dict[Series, str]) -> list[str]:
    trained = [cell for cell in part.cells if cell.runs]
    if not trained or max(len(run.steps) for cell in trained for run in cell.runs) < 2:
        return []
    names = ", ".join(dict.fromkeys(labels[cell.series] for cell in trained))
    if part.finished:
        described = f"Return against updates, one panel per sparsity, a line each for {names}."
        drawn = part.figure(learning_curves(part.records), "curves", "learning curves", described, _curve_marks(trained))
        return ["<h3>Learning curves</h3>", drawn]
    losses = dict.fromkeys(column for row in part.records for column in row if column.endswith("_loss") and row[column] not in ABSENT)
    body = ["<h3>Training losses</h3>"] if losses else []
    for column in losses:
        what = naming.sentence(column)
        described = f"{what} against updates, one panel per sparsity, a line each for {names}."
        drawn = learning_curves(part.records, value=column)
        body.append(part.figure(drawn, column, what.lower(), described, f"{what}: the mean over the updates since the row before."))
    return body


def _layers(part: Part) -> list[str]:
    if all(str(row["criterion"]) in WHOLE for row in part.layers):
        return []
    names = list(dict.fromkeys(f"{row.get('network') or ''} {row['layer']}".strip() for row in part.layers))
    described = f"Fraction of weights kept in each of {len(names)} layers ({', '.join(names)}), by criterion and sparsity."
    drawn = layer_fractions(part.layers)
    caption = "Bars: mean over seeds; whiskers: range over seeds."
    return ["<h3>What each layer keeps</h3>", part.figure(drawn, "layers", "weights kept per layer", described, caption)]


def _masks(part: Part, labels: dict[Series, str]) -> list[str]:
    runs = {run.run_id: (cell, run) for cell in part.cells for run in cell.runs}
    shown = [(row["kernels"], *runs[str(row["run_id"])]) for row in part.masks]
    if not shown:
        return []
    seeds, sparsities = sorted({run.seed for _, _, run in shown}), sorted({cell.sparsity for _, cell, _ in shown})
    pictures = {_mask_label(labels[cell.series], cell, run, seeds, sparsities): kernels for kernels, cell, run in shown}
    where = f" at {naming.percent(sparsities[0])} sparsity" if len(sparsities) == 1 else ""
    whose = f" of seed {seeds[0]}" if len(seeds) == 1 else ""
    caption = (
        f"Masks{whose}{where}: inputs downwards, outputs to the right, in at most {CELLS} × {CELLS} blocks. "
        "The stronger the colour, the more of a block is kept; the page's own: nothing. Compacted runs have lost the weights that lay on "
        "no path from an input to an output."
    )
    described = f"Heat maps of the masks of {', '.join(pictures)}, kernel by kernel: {', '.join(shown[0][0])}."
    return ["<h3>Where the kept weights are</h3>", part.figure(mask_figure(pictures), "masks", "masks", described, caption)]


def _mask_label(label: str, cell: Cell, run: Any, seeds: Sequence[int], sparsities: Sequence[float]) -> str:
    more = [naming.percent(cell.sparsity)] * (len(sparsities) > 1) + [f"seed {run.seed}"] * (len(seeds) > 1)
    return ", ".join([label, *more])


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


def _described(cells: Sequence[Cell], labels: dict[Series, str]) -> str:
    """The figure in words, for those who cannot see it."""
    told = [
        f"{labels[cell.series]} at {naming.percent(cell.sparsity)}: {spread_text(cell.returns)}"
        for cell in cells
        if cell.returns is not None
    ]
    return "Mean return by criterion and sparsity. " + "; ".join(told) + "."
