"""What is in a data set, in one figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jaxprune.data.description import principal_directions, sample_rows
from jaxprune.data.transitions import Dataset

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TERMINAL, _TIMEOUT, _OPEN, _BOUND = "#0072b2", "#e69f00", "#7f7f7f", "#d55e00"


def describe_figure(dataset: Dataset) -> Figure:
    """Six panels: returns, lengths, return against length, actions, observations and coverage. Needs matplotlib; draws off screen."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 8.5), layout="constrained")
    axes = figure.subplots(2, 3).ravel()
    ends = _ends(dataset)
    _returns(axes[0], dataset, ends)
    _histogram(axes[1], dataset.report.episode_lengths, ends, "steps of an episode")
    _return_against_length(axes[2], dataset, ends)
    _actions(axes[3], dataset)
    _observations(axes[4], dataset)
    _coverage(axes[5], dataset)
    report = dataset.report
    dropped = f", {report.rows_read - report.rows_kept:,} dropped" if report.dropped else ""
    figure.legend(handles=_legend(ends), loc="outside upper right", ncols=len(ends), frameon=False)
    figure.suptitle(f"{dataset.name}: {report.rows_kept:,} transitions{dropped}, {report.episodes:,} episodes", x=0.01, ha="left")
    return figure


def _ends(dataset: Dataset) -> list[tuple[str, str, np.ndarray]]:
    """(label, colour, [episodes] bool) of the ways in which episodes end."""
    report = dataset.report
    timeouts = ~report.episode_open & ~report.episode_terminal
    kinds = [("terminal", _TERMINAL, report.episode_terminal), ("timeout", _TIMEOUT, timeouts), ("open", _OPEN, report.episode_open)]
    return [(f"{label} ({chosen.sum():,} episodes)", colour, chosen) for label, colour, chosen in kinds if chosen.any()]


def _legend(ends: list[tuple[str, str, np.ndarray]]) -> list[Any]:
    from matplotlib.patches import Patch

    return [Patch(color=colour, label=label) for label, colour, _ in ends]


def _histogram(axes: Axes, values: np.ndarray, ends: list[tuple[str, str, np.ndarray]], label: str) -> None:
    from matplotlib.ticker import MaxNLocator

    low, high = float(values.min()), float(values.max())
    margin = max(0.02 * abs(high), 0.5) if low == high else 0.0
    bins = np.linspace(low - margin, high + margin, 31).tolist()
    axes.hist([values[chosen] for _, _, chosen in ends], bins=bins, stacked=True, color=[colour for _, colour, _ in ends])
    axes.ticklabel_format(axis="x", useOffset=False)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(label)
    axes.set_ylabel("episodes")


def _returns(axes: Axes, dataset: Dataset, ends: list[tuple[str, str, np.ndarray]]) -> None:
    _histogram(axes, dataset.report.episode_returns, ends, "return of an episode")
    if dataset.reference is not None:
        low, high = dataset.reference

        def score(returns: Any) -> Any:
            return 100 * (returns - low) / (high - low)

        def back(scores: Any) -> Any:
            return low + scores * (high - low) / 100

        axes.secondary_xaxis("top", functions=(score, back)).set_xlabel("normalised score")


def _return_against_length(axes: Axes, dataset: Dataset, ends: list[tuple[str, str, np.ndarray]]) -> None:
    report = dataset.report
    for _, colour, chosen in ends:
        axes.scatter(report.episode_lengths[chosen], report.episode_returns[chosen], s=14, alpha=0.6, color=colour, linewidths=0)
    axes.ticklabel_format(useOffset=False)
    axes.set_xlabel("steps of an episode")
    axes.set_ylabel("return")


def _actions(axes: Axes, dataset: Dataset) -> None:
    actions, spec, report = dataset.transitions.actions, dataset.spec, dataset.report
    if spec.discrete:
        axes.bar(np.arange(spec.action_size), np.bincount(actions, minlength=spec.action_size) / len(actions), color=_TERMINAL)
        axes.set_xlabel("action")
        axes.set_ylabel("share of rows")
        return
    actions = actions[sample_rows(dataset)]
    low, high = min(float(actions.min()), *spec.low), max(float(actions.max()), *spec.high)
    margin = 0.05 * (high - low)
    edges = np.linspace(low - margin, high + margin, 61)
    density = np.stack([np.histogram(column, edges)[0] / len(actions) for column in actions.T])
    extent = (-0.5, spec.action_size - 0.5, float(edges[0]), float(edges[-1]))
    image = axes.imshow(np.sqrt(density).T, origin="lower", aspect="auto", cmap="Blues", extent=extent)
    columns = range(spec.action_size)
    for column in columns:
        axes.hlines([spec.low[column], spec.high[column]], column - 0.5, column + 0.5, color=_BOUND, lw=1, ls="--")
    if spec.action_size <= 8:
        shares = np.stack([report.actions_at_bounds, report.actions_outside]) / report.rows_kept
        axes.set_xticks(
            columns, [f"{column}\n{at:.0%} at\n{outside:.0%} out" for column, (at, outside) in enumerate(shares.T)], fontsize="small"
        )
    axes.set_xlabel("action feature, with what is at and outside its bounds (dashed)")
    axes.set_ylabel("value")
    axes.figure.colorbar(image, ax=axes, label="√ share of rows")


def _observations(axes: Axes, dataset: Dataset) -> None:
    rows = dataset.transitions.observations[sample_rows(dataset)]
    percentiles = np.percentile(rows, [0, 5, 50, 95, 100], axis=0)
    columns = np.arange(rows.shape[1])
    axes.vlines(columns, percentiles[0], percentiles[4], color=_TERMINAL, lw=1, label="range")
    axes.vlines(columns, percentiles[1], percentiles[3], color=_TERMINAL, lw=5, label="5% to 95%")
    axes.scatter(columns, percentiles[2], color="white", edgecolor="black", s=18, zorder=3, label="median")
    constant = list(dataset.report.constant_columns.get("observations", ()))
    if constant:
        axes.scatter(columns[constant], percentiles[2][constant], marker="x", color=_BOUND, zorder=4, label="constant")
    if rows.shape[1] <= 30:
        axes.set_xticks(columns)
    axes.set_yscale("symlog", linthresh=1.0)
    axes.set_xlabel("observation feature")
    axes.set_ylabel("value (linear within ±1)")
    axes.legend(fontsize="small", loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4, frameon=False)


def _coverage(axes: Axes, dataset: Dataset) -> None:
    variances, directions, standardised = principal_directions(dataset)
    if len(variances) < 2:
        axes.hist(standardised[:, 0], bins=60, color=_TERMINAL)
        axes.set_xlabel("observation, standardised")
        return
    points = standardised @ directions[:, :2]
    image = axes.hexbin(points[:, 0], points[:, 1], gridsize=60, bins="log", cmap="viridis", mincnt=1)
    axes.set_xlabel(f"first principal direction ({variances[0]:.0%} of variance)")
    axes.set_ylabel(f"second ({variances[1]:.0%})")
    axes.set_title("where the observations are", fontsize="medium")
    axes.figure.colorbar(image, ax=axes, label="rows")
