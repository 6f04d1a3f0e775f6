"""Bytes, latency and return of exported policies, drawn from the rows of a measurement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jaxprune.reporting import naming
from jaxprune.reporting.appearance import INK, PAPER, SLOTS, Look, drawing
from jaxprune.reporting.costs import pareto_front
from jaxprune.reporting.figures import WIDTH, sparsity_positions

Row = Mapping[str, Any]


def against_sparsity(rows: Iterable[Row], *, label: str, title: str | None = None) -> Any:
    """One line per format over the sparsity, both axes logarithmic.

    Args:
      rows: with `format`, `sparsity` and `value` > 0; several of one format and sparsity are drawn as their mean.
      label: of the vertical axis, with its unit.
      title: above the plot.

    Raises:
      ValueError: no rows.
    """
    from matplotlib.figure import Figure

    grouped: dict[str, dict[float, list[float]]] = {}
    for row in rows:
        grouped.setdefault(row["format"], {}).setdefault(float(row["sparsity"]), []).append(float(row["value"]))
    if not grouped:
        raise ValueError("expected rows to draw, got none")
    sparsities = sorted({sparsity for by in grouped.values() for sparsity in by})
    places = dict(zip(sparsities, sparsity_positions(sparsities), strict=True))
    with drawing():
        figure = Figure(figsize=(WIDTH, 4.2), layout="constrained")
        axes = figure.subplots()
        for (name, by), look in zip(grouped.items(), _looks(len(grouped)), strict=True):
            points = sorted((places[sparsity], sum(values) / len(values)) for sparsity, values in by.items())
            axes.plot(*zip(*points, strict=True), color=look.color, linestyle=look.line, label=name, **_marks(look))
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.12g}")
        axes.set_xticks([places[sparsity] for sparsity in sparsities], [naming.percent(sparsity) for sparsity in sparsities])
        axes.set_xlabel("Sparsity (log scale of what is kept)")
        axes.set_ylabel(label)
        axes.grid(axis="y")
        figure.legend(loc="outside right upper", handlelength=2.8)
        if title:
            axes.set_title(title, pad=10)
    return figure


def return_against_bytes(rows: Iterable[Row], *, title: str | None = None) -> Any:
    """Mean return over bytes of the policy, a point for each row, and a line along those that no smaller one reaches.

    Sparsities are written, in a format's colour, at the points on the line and at the ends of each format, where there is room.

    Args:
      rows: with `format`, `bytes`, `return` and `sparsity`, and `low` and `high` where there is a range to show.
      title: above the plot.

    Raises:
      ValueError: no rows.
    """
    from matplotlib.figure import Figure

    rows = list(rows)
    if not rows:
        raise ValueError("expected rows to draw, got none")
    formats = list(dict.fromkeys(row["format"] for row in rows))
    with drawing():
        figure = Figure(figsize=(WIDTH, 4.2), layout="constrained")
        axes = figure.subplots()
        for order, (name, look) in enumerate(zip(formats, _looks(len(formats)), strict=True)):
            own = [row for row in rows if row["format"] == name]
            x, y = zip(*sorted((row["bytes"], row["return"]) for row in own), strict=True)
            axes.plot(x, y, color=look.color, label=name, linestyle=look.line, linewidth=0.8, zorder=2 + order / 10, **_marks(look))
            for row in own:
                if "low" in row:
                    axes.vlines(row["bytes"], row["low"], row["high"], color=look.color, linewidth=1.0)
        front = pareto_front([(row["bytes"], row["return"]) for row in rows])
        axes.plot(*zip(*front, strict=True), color=INK, linewidth=0.9, drawstyle="steps-post", zorder=1, label="Pareto front")
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.12g}")
        axes.set_xlabel("Bytes of the policy's constants")
        axes.set_ylabel("Return, with its range over seeds" if any("low" in row for row in rows) else "Return")
        axes.grid(axis="both")
        figure.legend(loc="outside right upper", handlelength=2.8)
        if title:
            axes.set_title(title, pad=10)
        ends = [end for name in formats for end in _ends([row for row in rows if row["format"] == name])]
        on_front = [row for row in rows if (row["bytes"], row["return"]) in front]
        colors = {name: look.color for name, look in zip(formats, _looks(len(formats)), strict=True)}
        _label_where_there_is_room(figure, axes, [*on_front, *ends], colors)
    return figure


def _ends(rows: list[Row]) -> list[Row]:
    ordered = sorted(rows, key=lambda row: row["bytes"])
    return [ordered[0], ordered[-1]]


def _label_where_there_is_room(figure: Any, axes: Any, rows: Iterable[Row], colors: Mapping[str, str]) -> None:
    """Write each row's sparsity beside its point, above or below; where both places are taken, not at all."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer, taken, labelled = canvas.get_renderer(), [], set()
    for row in rows:
        at = (row["bytes"], row["return"])
        if (at, row["sparsity"]) in labelled:
            continue
        for offset in ((4, 4), (4, -10), (-22, 4), (-22, -10)):
            style = dict(xytext=offset, textcoords="offset points", fontsize=6.5, color=colors[row["format"]])
            text = axes.annotate(naming.percent(row["sparsity"]), at, **style)
            box = text.get_window_extent(renderer)
            if not any(box.overlaps(other) for other in taken):
                taken.append(box)
                labelled.add((at, row["sparsity"]))
                break
            text.remove()


def _looks(count: int) -> list[Look]:
    slots = (*SLOTS, (INK, "*", "dotted", ""))
    return [Look(*slots[i % len(slots)]) for i in range(count)]


def _marks(look: Look) -> dict[str, Any]:
    return dict(marker=look.marker, markersize=5.5, markeredgecolor=PAPER, markeredgewidth=0.8)
