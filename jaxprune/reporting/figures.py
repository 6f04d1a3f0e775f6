"""The figures of a sweep, from its records: return against sparsity, learning curves, what each layer keeps.

Every function returns a matplotlib Figure that belongs to no window and no global state, made for a page about 7 inches wide.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Literal

from jaxprune.reporting import naming
from jaxprune.reporting.appearance import FAINT, INK, PAPER, Look, drawing, legend_above, looks
from jaxprune.reporting.statistics import Spread
from jaxprune.reporting.summary import ABSENT, Cell, Record, Series, cells_of, pooled_cells, runs_of, series_labels

WIDTH = 7.2  # inches
DODGE = 0.014  # how far range bars of neighbouring criteria stand apart, in widths of the plot


def return_against_sparsity(
    records: Iterable[Record], *, value: Literal["return", "score"] = "return", behaviour: float | None = None, title: str | None = None
) -> Any:
    """One line per criterion over the sparsity, on a log scale of the weights kept; dense is a horizontal line with its own spread.

    Fewer than five seeds are drawn as points with range bars round their mean, five or more as the mean in its 95 % bootstrap interval.

    Args:
      records: of one algorithm. With `score`, several data sets are pooled (stratified); with `return` there must be one.
      value: `return` in the environment's units, or the normalised `score`.
      behaviour: the same value for the policy that recorded the data: a dashed line.
      title: above the plot.

    Raises:
      ValueError: if the records are of several algorithms (or data sets, with `return`), or no run of them has the value.
    """
    from matplotlib.figure import Figure

    cells = _cells(records, value)
    spreads = {(cell.series, cell.sparsity): found for cell in cells if (found := _value(cell, value)) is not None}
    if not spreads:
        raise ValueError(
            f"no run has a finite {value}: failed runs are never drawn"
            + ("; does the task lack reference scores?" if value == "score" else "")
        )
    series = list(dict.fromkeys(each for each, _ in spreads))
    pruned = [each for each in series if not each.dense]
    labels, styles = series_labels(series), looks(series)
    sparsities = sorted({sparsity for each, sparsity in spreads if not each.dense}) or [0.0]
    places = {sparsity: place for sparsity, place in zip(sparsities, sparsity_positions(sparsities), strict=True)}
    extent = (places[sparsities[-1]] - places[sparsities[0]]) or 1.0
    gaps = [places[upper] - places[lower] for lower, upper in pairwise(sparsities)]
    dodge = (
        min([DODGE * extent, *(0.5 * gap / len(pruned) for gap in gaps)])
        if any(found.kind == "range" for found in spreads.values())
        else 0.0
    )
    alpha = 0.16 if len(pruned) <= 4 else 0.08
    with drawing():
        figure = Figure(figsize=(WIDTH, 3.9))
        axes = figure.add_axes((0.115, 0.17, 0.67, 0.73 if title else 0.80))
        ends: list[tuple[str, float, float, Look]] = []
        for order, each in enumerate(pruned):
            points = [(places[sparsity], spreads[each, sparsity]) for sparsity in sparsities if (each, sparsity) in spreads]
            shift = dodge * (order - (len(pruned) - 1) / 2)
            _draw_line(axes, points, styles[each], labels[each], shift, alpha)
            ends.append((labels[each], points[-1][0] + shift, points[-1][1].mean, styles[each]))
        margin = max(0.07 * extent, 0.5 * dodge * len(pruned) + 0.02 * extent)
        left, right = places[sparsities[0]] - margin, places[sparsities[-1]] + margin
        axes.set_xlim(left, right)
        for each in series:
            if each.dense:
                dense = next(found for (other, _), found in spreads.items() if other == each)
                axes.axhspan(dense.low, dense.high, color=INK, alpha=0.08, linewidth=0, zorder=0)
                axes.axhline(dense.mean, color=INK, linewidth=1.4, zorder=1, label=labels[each])
                ends.append((labels[each], right, dense.mean, Look(INK, "", "solid", "")))
        if behaviour is not None and math.isfinite(behaviour):
            line = Look(FAINT, "", (0, (4, 3)), "")
            axes.axhline(behaviour, color=FAINT, linestyle=line.line, linewidth=1.2, zorder=1, label="Behaviour")
            ends.append(("Behaviour", right, behaviour, line))
        low, high = axes.get_ylim()
        if low > 0 and low < 0.45 * high:
            axes.set_ylim(0, high)
        axes.set_xticks([places[sparsity] for sparsity in sparsities], _sparsity_ticks(sparsities, cells))
        axes.set_xlabel("Sparsity" + (", and prunable weights kept" if _kept_counts(cells) else "") + " (log scale of what is kept)")
        axes.set_ylabel("Return" if value == "return" else "Normalised score (0 random, 100 expert)")
        axes.grid(axis="y")
        number_axis(axes.yaxis)
        _label_ends(axes, ends, right=0.97)
        if title:
            axes.set_title(title, pad=10)
    return figure


def learning_curves(
    records: Iterable[Record], *, by: Literal["sparsity", "criterion"] = "sparsity", value: str = "return_mean", title: str | None = None
) -> Any:
    """Return (or a loss) against update step, a panel per sparsity (or per criterion), the dense runs in every panel.

    Fewer than five seeds: a thin line each and their mean; five or more: the mean in the band of its 95 % bootstrap interval. The mean is
    drawn at the steps all seeds share.

    Args:
      records: of one algorithm and data set.
      by: what a panel is for.
      value: the column to draw, such as `policy_loss`; rows without it are left out.
      title: above the panels.

    Raises:
      ValueError: if the records are of several algorithms or data sets, every run failed, or none has the value.
    """
    from matplotlib.figure import Figure

    if value != "return_mean":
        records = [{**row, "return_mean": row[value]} for row in records if row.get(value) not in ABSENT]
        if not records:
            raise ValueError(f"no row has a {value}: there is no curve to draw")
    cells = [cell for cell in _cells(records, "return") if cell.returns]
    if not cells:
        raise ValueError("every run failed or was not evaluated: there is no curve to draw")
    series = list(dict.fromkeys(cell.series for cell in cells))
    labels, styles = series_labels(series), looks(series)
    dense = [cell for cell in cells if cell.series.dense]
    pruned = [cell for cell in cells if not cell.series.dense]
    panels: dict[Any, list[Cell]] = {}
    for cell in pruned:
        panels.setdefault(cell.sparsity if by == "sparsity" else cell.series, []).append(cell)
    if by == "sparsity":
        panels = dict(sorted(panels.items()))
        names = {key: f"{naming.percent(key)} sparsity" for key in panels}
    else:
        names = {key: labels[key] for key in panels}
    if not panels:
        panels, names = {None: []}, {None: "Dense"}
    columns = min(3, len(panels))
    lines = math.ceil(len(panels) / columns)
    with drawing():
        figure = Figure(figsize=(WIDTH if columns > 1 else WIDTH * 0.62, 0.75 + 2.05 * lines))
        figure.set_layout_engine("constrained", w_pad=0.12)  # the last tick of a panel and the first of the next stay apart
        grid = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
        shown: dict[str, Any] = {}
        for axes, (key, members) in zip(grid.flat, panels.items(), strict=False):
            shades = _shades(members) if by == "criterion" else {}
            for cell in dense + members:
                label = labels[cell.series] if by == "sparsity" or cell.series.dense else f"{naming.percent(cell.sparsity)} sparsity"
                look = styles[cell.series] if by == "sparsity" or cell.series.dense else shades[cell.sparsity]
                shown.setdefault(label, _draw_curve(axes, cell, look, label))
            axes.set_title(names[key])
            axes.grid(axis="y")
        for axes in list(grid.flat)[len(panels) :]:
            axes.set_axis_off()
        number_axis(grid[0, 0].yaxis)
        number_axis(grid[0, 0].xaxis)
        figure.supxlabel("Updates", fontsize=9)
        figure.supylabel("Return" if value == "return_mean" else naming.sentence(value), fontsize=9)
        legend_above(figure, shown, handlelength=2.8)
        if title:
            figure.suptitle(title, fontsize=9.5, fontweight="bold")
    return figure


def sparsity_positions(sparsities: Sequence[float]) -> list[float]:
    """Where sparsities stand on the axis: −log10 of the fraction kept, so 90, 95 and 99 % are at 1, 1.3 and 2.

    100 % has no logarithm and stands half a decade beyond the rest.
    """
    finite = [-math.log10(1 - sparsity) for sparsity in sparsities if sparsity < 1]
    beyond = max(finite, default=0.0) + 0.5
    return [-math.log10(1 - sparsity) if sparsity < 1 else beyond for sparsity in sparsities]


def _cells(records: Iterable[Record], value: str) -> list[Cell]:
    runs = runs_of(records)
    algos = sorted({run.algo for run in runs})
    datasets = sorted({run.dataset for run in runs})
    if len(algos) > 1:
        raise ValueError(f"expected records of one algorithm, got {', '.join(algos)}; draw one figure each")
    if len(datasets) > 1 and value == "return":
        raise ValueError(
            f"expected records of one data set, got {', '.join(datasets)}; draw one figure each, or pool their scores with value='score'"
        )
    return cells_of(runs) if len(datasets) == 1 else pooled_cells(runs)


def _value(cell: Cell, value: str) -> Spread | None:
    return cell.returns if value == "return" else cell.scores


def _draw_line(axes: Any, points: list[tuple[float, Spread]], look: Look, label: str, shift: float, alpha: float) -> None:
    x = [place + shift for place, _ in points]
    means = [found.mean for _, found in points]
    marks = dict(marker=look.marker, markersize=5.5, markeredgecolor=PAPER, markeredgewidth=0.8)
    axes.plot(x, means, color=look.color, linestyle=look.line, linewidth=1.7, label=label, zorder=4, **marks)
    if all(found.kind == "bootstrap" for _, found in points):
        axes.fill_between(
            x, [found.low for _, found in points], [found.high for _, found in points], color=look.color, alpha=alpha, linewidth=0, zorder=2
        )
        if len(points) > 1:
            return
    for place, (_, found) in zip(x, points, strict=True):
        axes.vlines(place, found.low, found.high, color=look.color, linewidth=1.1, zorder=3)
        if found.kind == "range" and len(found.values) > 1:
            size = 9
            axes.scatter(
                [place] * len(found.values), found.values, s=size, facecolors=PAPER, edgecolors=look.color, linewidths=0.9, zorder=3.5
            )


def _draw_curve(axes: Any, cell: Cell, look: Look, label: str) -> Any:
    from jaxprune.reporting.statistics import FEWEST_SEEDS_FOR_INTERVALS, spread

    steps = sorted(
        set.intersection(*(set(run.steps) for run in cell.runs))
    )  # none where checkpoints differ: then the seeds alone are drawn
    by_step = [dict(zip(run.steps, run.returns, strict=True)) for run in cell.runs]
    found = [spread([returns[step] for returns in by_step]) for step in steps]
    if len(cell.runs) >= FEWEST_SEEDS_FOR_INTERVALS:
        axes.fill_between(steps, [each.low for each in found], [each.high for each in found], color=look.color, alpha=0.14, linewidth=0)
    elif len(cell.runs) > 1:
        for run in cell.runs:
            axes.plot(run.steps, run.returns, color=look.color, linewidth=0.5, alpha=0.45)
    marks = dict(marker=look.marker, markevery=max(1, len(steps) // 4), markersize=4.5, markeredgecolor=PAPER, markeredgewidth=0.6)
    return axes.plot(steps, [each.mean for each in found], color=look.color, linestyle=look.line, linewidth=1.5, label=label, **marks)[0]


def _shades(cells: list[Cell]) -> dict[float, Look]:
    sparsities = sorted({cell.sparsity for cell in cells})
    stand_ins = looks([Series(f"sparsity {sparsity:g}") for sparsity in sparsities])
    return dict(zip(sparsities, stand_ins.values(), strict=True))


def _kept_counts(cells: Sequence[Cell]) -> dict[float, int]:
    """The weights kept at each sparsity, if every run of it keeps the same number."""
    counts: dict[float, set[int]] = {}
    for cell in cells:
        if not cell.series.dense:
            counts.setdefault(cell.sparsity, set()).update(cell.kept or (-1, -2))
    return {sparsity: found.pop() for sparsity, found in counts.items()} if all(len(found) == 1 for found in counts.values()) else {}


def _sparsity_ticks(sparsities: Sequence[float], cells: Sequence[Cell]) -> list[str]:
    counts = _kept_counts(cells)
    return [naming.percent(sparsity) + (f"\n{counts[sparsity]:,}" if sparsity in counts else "") for sparsity in sparsities]


def number_axis(axis: Any) -> None:
    """Ticks of an axis as numbers a reader knows: 1,500; 20k; 2M; a true minus sign."""
    from matplotlib.ticker import FuncFormatter

    def text(value: float, _: int) -> str:
        largest = max(abs(end) for end in axis.get_view_interval())
        unit, name = (1e6, "M") if largest >= 2e6 else (1e3, "k") if largest >= 1.5e4 else (1.0, "")
        return (f"{value / unit:,g}{name}" if value else "0").replace("-", "−")

    axis.set_major_formatter(FuncFormatter(text))


def round_ticks(low: float, high: float, most: int = 4) -> list[float]:
    """At most `most` of 1, 2, 5 times powers of ten between the two, evenly chosen; sparser steps where those are more."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for digits in ((1, 2, 5), (1, 3), (1,)):
        found = [digit * 10.0**power for power in powers for digit in digits if low <= digit * 10.0**power <= high]
        if len(found) <= most:
            return found
    return found[:: -(-len(found) // most)]


def _label_ends(axes: Any, ends: Sequence[tuple[str, float, float, Look]], *, right: float) -> None:
    """Names beside the lines' right ends, outside the plot and pushed apart so that none covers another or the data.

    Args:
      axes: of a fixed place; made narrower where the names would pass `right`.
      ends: (name, x, y, look) of each line.
      right: how far names may reach, a fraction of the figure's width.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    low, high = axes.get_ylim()
    heights = spread_apart([(y - low) / (high - low) for _, _, y, _ in ends], gap=0.068)
    for (label, x, y, look), height in zip(ends, heights, strict=True):
        placed = dict(xycoords="data", textcoords="axes fraction", annotation_clip=False)
        leader = dict(arrowstyle="-", color=FAINT, linewidth=0.6, alpha=0.7, shrinkA=0, shrinkB=4 if look.marker else 0)
        axes.annotate("", (x, y), (1.035, height), arrowprops=leader, **placed)
        axes.plot(
            [1.045, 1.095],
            [height] * 2,
            color=look.color,
            linestyle=look.line,
            linewidth=1.7,
            transform=axes.transAxes,
            clip_on=False,
            scalex=False,
            scaley=False,
        )
        if look.marker:
            mark = dict(marker=look.marker, markersize=5.5, markeredgecolor=PAPER, markeredgewidth=0.8, linestyle="none")
            axes.plot([1.07], [height], color=look.color, transform=axes.transAxes, clip_on=False, scalex=False, scaley=False, **mark)
        axes.text(1.11, height, label, transform=axes.transAxes, va="center", color=INK, fontsize=9)
    figure, place = axes.figure, axes.get_position()
    renderer = FigureCanvasAgg(figure).get_renderer()
    widest = max(text.get_window_extent(renderer).width for text in axes.texts if text.get_text()) / figure.bbox.width
    axes.set_position((place.x0, place.y0, min(place.width, (right - widest - place.x0) / 1.11), place.height))


def spread_apart(heights: Sequence[float], *, gap: float) -> list[float]:
    """The heights in [0, 1], moved little and in order until neighbours are `gap` apart (closer only where too many must fit)."""
    gap = min(gap, 1 / max(len(heights) - 1, 1))
    order = sorted(range(len(heights)), key=lambda place: heights[place])
    placed = [min(max(heights[place], 0.0), 1.0) for place in order]
    for _ in range(200):
        moved = False
        for lower in range(len(placed) - 1):
            overlap = gap - (placed[lower + 1] - placed[lower])
            if overlap > 1e-9:
                placed[lower], placed[lower + 1] = placed[lower] - overlap / 2, placed[lower + 1] + overlap / 2
                moved = True
        placed = [min(max(height, gap * place), 1 - gap * (len(placed) - 1 - place)) for place, height in enumerate(placed)]
        if not moved:
            break
    result = [0.0] * len(heights)
    for place, height in zip(order, placed, strict=True):
        result[place] = height
    return result
