"""What each layer keeps: rows of kept and total weights per layer, as bars."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from jaxprune.reporting import naming
from jaxprune.reporting.appearance import INK, drawing, legend_above, looks
from jaxprune.reporting.figures import WIDTH
from jaxprune.reporting.summary import SERIES, Record, Series, series_labels

REQUIRED = ("algo", "criterion", "sparsity", "seed", "layer", "kept", "total")


# What keeps every weight of its layers.
WHOLE = ("dense", "small_dense")


def checked_layers(rows: Iterable[Record]) -> list[Record]:
    """The rows, one per run and layer, if all have what `layer_fractions` needs.

    Raises:
      ValueError: naming the row and the missing column, or a count that is not between 0 and its total.
    """
    checked = list(rows)
    for index, row in enumerate(checked):
        if missing := [column for column in REQUIRED if column not in row]:
            raise ValueError(
                f"layer row {index} has no column {', '.join(missing)}; expected one row per run and layer with {', '.join(REQUIRED)}"
            )
        if not 0 <= int(row["kept"]) <= int(row["total"]):
            raise ValueError(f"layer row {index} ({row['layer']}): kept {row['kept']} is not between 0 and the total, {row['total']}")
    return checked


def layer_fractions(rows: Iterable[Record], *, title: str | None = None) -> Any:
    """Bars of the fraction each layer keeps, a panel per sparsity, mean over seeds with their range; dashed, the fraction kept of all.

    Args:
      rows: of one algorithm (and data set), one per run and layer: algo, criterion, sparsity, seed, layer, kept, total; optionally network.
        The dense and the small dense network, which keep all of their layers, are left out.
      title: above the panels.

    Raises:
      ValueError: if there are no rows, or one lacks a column, or they are of several algorithms or data sets.
    """
    from matplotlib.figure import Figure

    checked = [row for row in checked_layers(rows) if str(row["criterion"]) not in WHOLE and int(row["total"]) > 0]
    if not checked:
        raise ValueError("no layer rows of a pruned run: expected one row per run and layer, got none")
    for column in ("algo", "dataset"):
        if len(values := {str(row.get(column) or "") for row in checked}) > 1:
            raise ValueError(f"expected layer rows of one {column}, got {', '.join(sorted(values))}; draw one figure each")
    layers = list(dict.fromkeys(_layer(row) for row in checked))
    series = list(dict.fromkeys(_series(row) for row in checked))
    sparsities = sorted({float(row["sparsity"]) for row in checked})
    labels, styles = series_labels(series), looks(series)
    fractions: dict[tuple[float, Series, str], list[float]] = {}
    for row in checked:
        fractions.setdefault((float(row["sparsity"]), _series(row), _layer(row)), []).append(int(row["kept"]) / int(row["total"]))
    columns = min(3, len(sparsities))
    panels = math.ceil(len(sparsities) / columns)
    height = 0.8 / len(series)
    with drawing():
        size = (WIDTH, 0.9 + panels * (0.45 + len(layers) * max(0.22, 0.105 * len(series))))
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(panels, columns, sharey=True, squeeze=False)
        for axes, sparsity in zip(grid.flat, sparsities, strict=False):
            for order, each in enumerate(series):
                places, means, lows, highs = [], [], [], []
                for place, layer in enumerate(layers):
                    if found := fractions.get((sparsity, each, layer)):
                        # The mean of equal fractions is rounded too, and matplotlib refuses a bar's end on the wrong side of it.
                        mean = min(max(math.fsum(found) / len(found), min(found)), max(found))
                        places.append(place - 0.4 + height * (order + 0.5))
                        means.append(100 * mean)
                        lows.append(100 * (mean - min(found)))
                        highs.append(100 * (max(found) - mean))
                look = styles[each]
                axes.barh(
                    places,
                    means,
                    height * 0.9,
                    facecolor=look.color,
                    edgecolor="white",
                    hatch=look.hatch,
                    linewidth=0,
                    alpha=0.9,
                    label=labels[each],
                )
                axes.errorbar(means, places, xerr=[lows, highs], fmt="none", ecolor=INK, elinewidth=0.8)
            axes.axvline(100 * (1 - sparsity), color=INK, linestyle=(0, (4, 3)), linewidth=0.9)
            axes.set_title(f"{naming.percent(sparsity)} sparsity")
            axes.grid(axis="x")
            axes.tick_params(axis="y", length=0)
        grid[0, 0].set_yticks(range(len(layers)), layers)
        grid[0, 0].set_ylim(len(layers) - 0.5, -0.5)
        for axes in list(grid.flat)[len(sparsities) :]:
            axes.set_axis_off()
        figure.supxlabel("Weights kept, % of the layer (dashed: of all prunable weights)", fontsize=9)
        handles, names = grid[0, 0].get_legend_handles_labels()
        legend_above(figure, dict(zip(names, handles, strict=True)))
        if title:
            figure.suptitle(title, fontsize=9.5, fontweight="bold")
    return figure


def _layer(row: Record) -> str:
    network = str(row.get("network") or "")
    return f"{network} {str(row['layer']).removesuffix('/kernel')}".strip()


def _series(row: Record) -> Series:
    return Series(str(row["criterion"]), tuple((column, str(row[column])) for column in SERIES if row.get(column) not in (None, "")))
