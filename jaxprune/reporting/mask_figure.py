"""Heat maps of masks: where in each layer the kept weights are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxprune.reporting import naming
from jaxprune.reporting.appearance import INK, PAPER, drawing
from jaxprune.reporting.figures import WIDTH, round_ticks

CELLS = 48


def block_density(mask: np.ndarray, cells: int = CELLS) -> np.ndarray:
    """The fraction kept in each of at most `cells` × `cells` blocks of a mask [in, out]; a stack [members, in, out] is averaged first."""
    values = np.asarray(mask, float)
    values = values.mean(axis=0) if values.ndim == 3 else values
    for axis in (0, 1):
        bounds = np.linspace(0, values.shape[axis], min(cells, values.shape[axis]) + 1).astype(int)
        sums = np.add.reduceat(values, bounds[:-1], axis=axis)
        values = sums / np.expand_dims(np.diff(bounds), 1 - axis)
    return values


def mask_figure(masks: Mapping[str, Mapping[str, np.ndarray]], *, title: str | None = None) -> Any:
    """A row of panels per labelled mask, a column per kernel; darker means more weights kept, on one logarithmic scale.

    Args:
      masks: {label: {kernel path: bool [in, out] or [members, in, out]}}, with the same kernels everywhere.
      title: above the panels.
    """
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    densities = {label: {name: block_density(mask) for name, mask in kernels.items()} for label, kernels in masks.items()}
    names = list(next(iter(densities.values())))
    positive = [image[image > 0] for row in densities.values() for image in row.values() if (image > 0).any()]
    least = max(1e-4, min((float(image.min()) for image in positive), default=1e-2))
    norm = LogNorm(least, 1)
    with drawing():
        figure = Figure(figsize=(WIDTH, 0.9 + min(1.35 * len(densities), 8.0)), layout="constrained")
        grid = figure.subplots(len(densities), len(names), squeeze=False)
        for row, (label, images) in enumerate(densities.items()):
            for column, name in enumerate(names):
                axes = grid[row, column]
                drawn = axes.imshow(images[name], aspect="auto", interpolation="none", cmap="Blues", norm=norm)
                axes.set_facecolor(PAPER)
                axes.set_xticks([])
                axes.set_yticks([])
                for spine in axes.spines.values():
                    spine.set_visible(True)
                kept = np.asarray(masks[label][name]).mean()
                shape = " × ".join(map(str, np.shape(masks[label][name])[-2:]))
                if row == 0:
                    lines = [*name.removesuffix("/kernel").split("/"), shape]
                    axes.set_title("\n".join(lines), fontsize=8, fontweight="normal", loc="center")
                axes.set_xlabel(f"{100 * kept:.2g} % kept", fontsize=7.5, color=INK if kept else "#d55e00")
            grid[row, 0].set_ylabel(label.replace(", ", ",\n"), rotation=0, ha="right", va="center")
        ticks = round_ticks(least, 1, most=8)
        bar = figure.colorbar(drawn, ax=grid, shrink=0.8, aspect=40, pad=0.01, ticks=ticks)
        bar.ax.yaxis.set_minor_locator(NullLocator())
        bar.ax.set_yticklabels([naming.percent(tick) for tick in ticks])
        bar.set_label("Kept in a block (blank: nothing)", fontsize=8)
        if title:
            figure.suptitle(title, fontsize=9.5, fontweight="bold")
    return figure
