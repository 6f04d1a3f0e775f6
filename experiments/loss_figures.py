"""Figures of `loss_modelling.py`, from its rows."""

from __future__ import annotations

import pathlib
from typing import Any

import loss_claims
import numpy as np
from claims import spread_of
from loss_report import MOMENT_NAMES, Case, Results, Rows

from jaxprune.reporting import naming
from jaxprune.reporting.appearance import INK, SLOTS, drawing

# A look for each method; the hatch is not used.
LOOKS: dict[str, Any] = dict(zip(("magnitude", "lm", "qm", "obd", "obs"), (SLOTS[3], SLOTS[0], SLOTS[1], SLOTS[2], SLOTS[4]), strict=True))


def _style(criterion: str) -> dict[str, Any]:
    color, marker, line, _ = LOOKS[criterion]
    return {"color": color, "marker": marker, "linestyle": line, "markersize": 5, "linewidth": 1.3}


def _logarithmic(values: list[float]) -> tuple[float, float, float]:
    """Geometric mean of a loss over seeds, and how far the interval (or range) goes below and above it."""
    found = spread_of({"": np.log(values).tolist()})
    assert found is not None
    mean, low, high = np.exp([found.mean, found.low, found.high])
    return float(mean), float(mean - low), float(high - mean)


def _loss_axis(axis: Any, values: list[float]) -> None:
    """Logarithmic with plain numbers where losses differ by much, else linear."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if max(values) < 4 * min(values):
        return
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _panels(figure: Any, cases: list[Case], columns: int) -> list[tuple[Any, Case]]:
    rows = -(-len(cases) // columns)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for spare in axes[len(cases) :]:
        spare.set_visible(False)
    return list(zip(axes, cases, strict=False))


def _title(case: Case) -> str:
    return f"{case.task}, {naming.percent(case.sparsity)} removed, {MOMENT_NAMES[case.moment]}"


def _hardest(results: Results) -> list[Case]:
    """Of each task and moment, the case of the largest sparsity."""
    top = max(case.sparsity for case in results.cases)
    return [case for case in results.cases if case.sparsity == top]


def after_pruning(results: Results, path: pathlib.Path) -> str:
    """Training loss after pruning against rounds."""
    from matplotlib.figure import Figure

    cases = _hardest(results)
    figure = Figure(figsize=(11.5, 3.3 * -(-len(cases) // 3)), layout="constrained")
    panels = _panels(figure, cases, 3)
    for axes, case in panels:
        before = _logarithmic(results.fixed(case, "dense", 1, 0.0, "loss_before"))[0]
        axes.axhline(before, color=INK, linewidth=1, label="before pruning")
        magnitude = _logarithmic(results.fixed(case, "magnitude", 1, 0.0))[0]
        axes.axhline(magnitude, color=LOOKS["magnitude"][0], linestyle=LOOKS["magnitude"][2], linewidth=1.3, label="Magnitude")
        shown = [before, magnitude]
        for criterion in ("lm", "qm", "obd", "obs"):
            rounds = results.rounds(criterion)
            means, below, above = zip(*(_logarithmic(results.best(case, criterion, n)) for n in rounds), strict=True)
            axes.errorbar(rounds, means, [below, above], capsize=2, elinewidth=0.8, label=naming.name(criterion), **_style(criterion))
            shown += means
        ticks = results.rounds("lm")
        axes.set(xscale="log", title=_title(case), xlabel="rounds", ylabel="training loss after pruning")
        _loss_axis(axes.yaxis, shown)
        axes.set_xticks(ticks, [str(n) for n in ticks], minor=False)
        axes.set_xticks([], minor=True)
        axes.grid(which="both")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    figure.savefig(path, dpi=130)
    return "Training loss after pruning against rounds, each method at its best λ (of OBS, damping)"


def step_size(results: Results, path: pathlib.Path) -> str:
    """Training loss after pruning against λ."""
    from matplotlib.figure import Figure

    cases = [case for case in _hardest(results) if case.moment == "converged"]
    figure = Figure(figsize=(max(7.5, 4.4 * len(cases)), 3.6), layout="constrained")
    panels = _panels(figure, cases, len(cases))
    for axes, case in panels:
        shown = []
        for criterion in ("lm", "qm", "obd"):
            for rounds in {results.rounds(criterion)[0]: None, results.rounds(criterion)[-1]: None}:
                strengths = results.strengths(criterion, rounds)
                means, below, above = zip(*(_logarithmic(results.fixed(case, criterion, rounds, s)) for s in strengths), strict=True)
                style = _style(criterion) | ({"markerfacecolor": "none", "alpha": 0.7} if rounds == results.rounds(criterion)[0] else {})
                label = f"{naming.name(criterion)}, {rounds} round{'s' * (rounds > 1)}"
                shown += means
                axes.errorbar(range(len(strengths)), means, [below, above], capsize=2, elinewidth=0.8, label=label, **style)
        axes.set(title=_title(case), xlabel="λ", ylabel="training loss after pruning")
        _loss_axis(axes.yaxis, shown)
        axes.set_xticks(range(len(strengths)), [f"{s:g}" for s in strengths])
        axes.grid(which="both")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    figure.savefig(path, dpi=130)
    return "Training loss after pruning against λ, in one round (open) and in the most (filled), converged networks"


def change_and_gap(results: Results, path: pathlib.Path) -> str:
    """A point for each method and seed: change after pruning, gap after fine-tuning."""
    from matplotlib.figure import Figure

    cases = results.at("converged")
    figure = Figure(figsize=(max(6, 4.4 * min(2, len(cases))), 3.6 * -(-len(cases) // 2)), layout="constrained")
    panels = _panels(figure, cases, min(2, len(cases)))
    for axes, case in panels:
        for criterion in LOOKS:
            own = [
                row for row in results.rows if Case(row["task"], row["sparsity"], row["moment"]) == case and row["criterion"] == criterion
            ]
            color, marker, *_ = LOOKS[criterion]
            points = [row["change"] for row in own], [row["held_out_loss_gap"] for row in own]
            # Magnitude prunes once, whatever λ: its few marks go around the others that they would be lost under.
            few: dict[str, Any] = {"s": 46, "zorder": 4, "linewidths": 1.4} if criterion == "magnitude" else {"s": 16}
            axes.scatter(*points, marker=marker, facecolors="none", edgecolors=color, label=naming.name(criterion), **few)
        found = spread_of({"": [value for value in results.correlations(case, "held_out_loss_gap") if np.isfinite(value)]})
        axes.set(xlabel="change of the training loss at pruning", ylabel="gap in held-out loss after fine-tuning")
        changes = [row["change"] for row in results.rows if Case(row["task"], row["sparsity"], row["moment"]) == case]
        positive = [change for change in changes if change > 0]
        if len(positive) == len(changes) - len(results.seeds):
            _loss_axis(axes.xaxis, positive)
        axes.set_title(f"{_title(case)}\nρ = {loss_claims.correlation_text(found)}")
        axes.grid()
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    figure.savefig(path, dpi=130)
    return "What pruning did to the loss, and what is left of it after fine-tuning: a point for each method, λ, number of rounds and seed"


def fine_tuning(results: Results, path: pathlib.Path) -> str:
    """Held-out loss against updates of fine-tuning."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    cases = _hardest(results)
    figure = Figure(figsize=(11.5, 3.3 * -(-len(cases) // 3)), layout="constrained")
    panels = _panels(figure, cases, 3)
    curves: dict[tuple, Any] = {
        (row["task"], row["sparsity"], row["moment"], row["criterion"], row["rounds"], row["strength"], row["seed"]): row["curve"]
        for row in results.rows
    }
    for axes, case in panels:
        shown = []
        for criterion in ("dense", *LOOKS):
            rounds = results.rounds(criterion)[-1]
            strengths = results.strengths(criterion, rounds)
            chosen = loss_claims.best_by_the_others(results.values(case, criterion, rounds, "loss_after", strengths))
            own = np.array([curves[(*case, criterion, rounds, strengths[i], seed)] for i, seed in zip(chosen, results.seeds, strict=True)])
            steps, losses = own[0, :, 0], np.exp(np.log(own[:, :, 1]).mean(axis=0))
            style = {"color": INK, "linewidth": 1.3} if criterion == "dense" else _style(criterion) | {"markevery": 2}
            label = criterion if criterion == "dense" else f"{naming.name(criterion)}, {rounds} round{'s' * (rounds > 1)}"
            axes.plot(steps, losses, label=label, **style)
            shown += losses.tolist()
        axes.set(title=_title(case), xlabel="updates of fine-tuning", ylabel="held-out loss")
        axes.set_xscale("symlog", linthresh=1)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axes.set_xlim(left=0)
        _loss_axis(axes.yaxis, shown)
        axes.grid(which="both")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    figure.savefig(path, dpi=130)
    return "Held-out loss against updates of fine-tuning, each method in its most rounds at its best λ"


def draw(rows: Rows, folder: pathlib.Path) -> dict[str, str]:
    """All figures: {file: what it shows}."""
    results, found = Results(rows), {}
    figures = {"after_pruning": after_pruning, "step_size": step_size, "change_and_gap": change_and_gap, "fine_tuning": fine_tuning}
    with drawing():
        for name, figure in figures.items():
            found[f"{name}.png"] = figure(results, folder / f"{name}.png")
    return found
