"""Return against what it costs: which settings no other beats at both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from jaxprune.reporting import naming
from jaxprune.reporting.appearance import INK, PAPER, drawing, legend_above, looks
from jaxprune.reporting.costs import Cost, pareto_front
from jaxprune.reporting.figures import WIDTH, number_axis, round_ticks
from jaxprune.reporting.statistics import Spread
from jaxprune.reporting.summary import Cell, Series, series_labels

Costs = Mapping[tuple[Series, float], Cost]


class Axis(NamedTuple):
    """One kind of cost: its name on the axis, its ticks in words, and where a `Cost` has it."""

    label: str
    text: Callable[[float], str]
    of: Callable[[Cost], float | None]


AXES = (
    Axis("Exported policy, bytes", naming.size, lambda cost: cost.stored),
    Axis("Starting and training, seconds", lambda seconds: f"{seconds:.3g}", lambda cost: cost.total),
    Axis("Weights multiplied in training", naming.short, lambda cost: cost.executed),
)
# A logarithmic axis from this ratio of its ends on.
WIDE = 3.0
MARK = 3.0  # half the side of a point, in pixels


def costly_axes(cells: Sequence[Cell], costs: Costs) -> list[Axis]:
    """Those in which at least two settings that returned something differ."""
    return [axis for axis in AXES if len({cost for _, cost, _ in _points(cells, costs, axis, "return")}) > 1]


def return_against_cost(
    cells: Sequence[Cell], costs: Costs, *, value: Literal["return", "score"] = "return", title: str | None = None
) -> Any:
    """A panel per kind of cost; a point per criterion and sparsity, its range or interval, and the Pareto front of the means.

    Args:
      cells: of one algorithm and data set.
      costs: of them, from `costs.costs_of`.
      value: `return` in the environment's units, or the normalised `score`.
      title: above the panels.

    Raises:
      ValueError: no kind of cost sets two settings apart.
    """
    from matplotlib.figure import Figure

    axes_of_cost = costly_axes(cells, costs)
    if not axes_of_cost:
        raise ValueError("no two settings that returned something differ in bytes, seconds or weights: there is nothing to draw")
    series = list(dict.fromkeys(cell.series for cell in cells if cell.returns))
    labels, styles = series_labels(series), looks(series)
    with drawing():
        figure = Figure(figsize=(WIDTH, 3.6), layout="constrained")
        grid = figure.subplots(1, len(axes_of_cost), sharey=True, squeeze=False)[0]
        shown: dict[str, Any] = {}
        named = []
        for panel, axis in zip(grid, axes_of_cost, strict=True):
            points = _points(cells, costs, axis, value)
            for each in series:
                own = [(cost, spread) for cell, cost, spread in points if cell.series == each]
                if own:
                    shown.setdefault(labels[each], _draw_points(panel, own, styles[each]))
            front = pareto_front([(cost, spread.mean) for _, cost, spread in points])
            shown["Pareto front"] = panel.plot(*zip(*front, strict=True), color=INK, linewidth=0.9, drawstyle="steps-post", zorder=1)[0]
            told = {(cost, spread.mean): naming.percent(cell.sparsity) for cell, cost, spread in points if not cell.series.dense}
            named.append([(point, told[point]) for point in front if point in told])
            _cost_axis(panel, axis, [cost for _, cost, _ in points], ticks=3 if len(axes_of_cost) > 2 else 5)
            panel.grid(axis="both")
        number_axis(grid[0].yaxis)
        grid[0].set_ylabel("Return" if value == "return" else "Normalised score")
        legend_above(figure, {**shown, "Pareto front": shown.pop("Pareto front")}, handlelength=1.6)
        if title:
            figure.suptitle(title, fontsize=9.5, fontweight="bold")
        figure.draw_without_rendering()
        for panel, points in zip(grid, named, strict=True):
            _name_points(panel, points)
    return figure


def _points(cells: Sequence[Cell], costs: Costs, axis: Axis, value: str) -> list[tuple[Cell, float, Spread]]:
    found = []
    for cell in cells:
        spread = cell.returns if value == "return" else cell.scores
        cost = axis.of(costs.get((cell.series, cell.sparsity), Cost()))
        if spread is not None and cost:
            found.append((cell, cost, spread))
    return found


def _draw_points(panel: Any, points: list[tuple[float, Spread]], look: Any) -> Any:
    x, means = [cost for cost, _ in points], [spread.mean for _, spread in points]
    for cost, spread in points:
        panel.vlines(cost, spread.low, spread.high, color=look.color, linewidth=1.0, alpha=0.6, zorder=2)
    mark = dict(marker=look.marker or "*", markersize=5.5 if look.marker else 9, markeredgecolor=PAPER, markeredgewidth=0.6)
    return panel.plot(x, means, color=look.color, linestyle="none", zorder=3 if look.marker else 4, **mark)[0]


def _cost_axis(panel: Any, axis: Axis, costs: Sequence[float], *, ticks: int) -> None:
    """A few round ticks; logarithmic where the costs are far apart."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

    low, high = min(costs), max(costs)
    panel.set_xlabel(axis.label)
    if high / low < WIDE:
        panel.xaxis.set_major_locator(MaxNLocator(ticks))
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: axis.text(value)))
        return
    panel.set_xscale("log")
    margin = (high / low) ** 0.08
    panel.set_xlim(low / margin, high * margin)
    places = round_ticks(low / margin, high * margin, ticks)
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xticks(places, [axis.text(place) for place in places])


def _name_points(panel: Any, points: Sequence[tuple[tuple[float, float], str]]) -> None:
    """Sparsities beside points, each where it fits into the panel and covers no other, nor a point; one that fits nowhere is left out."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.transforms import Bbox

    renderer = FigureCanvasAgg(panel.figure).get_renderer()
    room = panel.get_window_extent(renderer)
    marks = np.concatenate([panel.transData.transform(line.get_xydata()) for line in panel.get_lines() if line.get_linestyle() == "None"])
    taken = [Bbox.from_extents(x - MARK, y - MARK, x + MARK, y + MARK) for x, y in marks]
    for place, text in points:
        for right, up in ((False, True), (True, False), (True, True), (False, False)):
            made = panel.annotate(
                text,
                place,
                xytext=(4 if right else -4, 3 if up else -3),
                textcoords="offset points",
                ha="left" if right else "right",
                va="bottom" if up else "top",
                fontsize=7,
                zorder=5,
            )
            box = made.get_window_extent(renderer)
            inside = room.x0 <= box.x0 and box.x1 <= room.x1 and room.y0 <= box.y0 and box.y1 <= room.y1
            if inside and not any(box.overlaps(other) for other in taken):
                taken.append(box.padded(0.3 * box.height))  # a browser's letters may be larger
                break
            made.remove()
