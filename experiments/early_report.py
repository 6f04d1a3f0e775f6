"""What `early_crop.py` reads from its runs: returns at each budget, averaged over time, verdicts, a table and a figure."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import claims
import numpy as np

from jaxprune.reporting import naming
from jaxprune.reporting.appearance import INK, SLOTS, drawing
from jaxprune.reporting.statistics import spread
from jaxprune.reporting.tables import markdown_table, spread_text

DENSE, GRASP, TICKET, SMALL = "dense", "GraSP, init", "lottery ticket", "small dense"
INIT_WEIGHTS, EARLY_WEIGHTS = "CroP-U (weights), init", "CroP-U (weights), early"
INIT_UNITS, EARLY_UNITS = "CroP-S (units), init", "CroP-S (units), early"
LOOKS = dict(zip((INIT_WEIGHTS, EARLY_WEIGHTS, INIT_UNITS, EARLY_UNITS, GRASP, TICKET, SMALL), SLOTS, strict=True))
# Evaluations whose mean is a return.
LAST = 3
MIB = 2**20


class Cell(NamedTuple):
    """One algorithm on one data set.

    Attributes:
      steps: updates of one budget.
    """

    algo: str
    dataset: str
    steps: int

    @property
    def name(self) -> str:
        """`BC on Hopper medium`."""
        return f"{naming.name(self.algo)} on {naming.dataset_name(self.dataset)}"


class Run(NamedTuple):
    """One run that finished.

    Attributes:
      curve: ((updates, return), …).
      pruned_at: updates before pruning.
      start_s: seconds of what came before the first update: scoring and compiling, of a lottery ticket the trainings that found it.
      kept: weights.
      executed: weights in the arrays.
    """

    curve: tuple[tuple[int, float], ...]
    pruned_at: int
    start_s: float
    kept: int
    executed: int

    def at(self, updates: int) -> float:
        """The mean of the last three evaluations up to so many updates."""
        return float(np.mean([value for step, value in self.curve if step <= updates][-LAST:]))


Runs = Mapping[tuple[str, str], Mapping[int, Run]]  # {(cell, arm): {seed: run}}
Costs = Mapping[str, Mapping[str, Mapping[str, Any]]]  # {cell: {arm: what an update costs}}


def seconds_at(run: Run, arm: str, updates: float, costs: Mapping[str, Mapping[str, Any]]) -> float:
    """Seconds of a run's first so many updates: dense ones until it is pruned, and of a lottery ticket also what found it.

    Compilation, evaluation and the scoring of criteria are left out.
    """
    dense = min(updates, run.pruned_at)
    before = run.start_s if arm == TICKET else 0.0
    return before + 1e-3 * (dense * costs[DENSE]["step_ms"] + (updates - dense) * costs[arm]["step_ms"])


def mean_over_time(times: Sequence[float], returns: Sequence[float], horizon: float) -> float:
    """The return averaged over [0, horizon] seconds: 0 at the start, straight between evaluations, held after the last.

    Args:
      times: of evaluations, ascending.
      returns: of evaluations.
      horizon: seconds.
    """
    t, r = np.concatenate([[0.0], times]), np.concatenate([[0.0], returns])
    inside = t < horizon
    t_cut = np.concatenate([t[inside], [horizon]])
    r_cut = np.concatenate([r[inside], [np.interp(horizon, t, r)]])
    return float(np.trapezoid(r_cut, t_cut) / horizon)


def returns_at(runs: Runs, cells: Sequence[Cell], arm: str, budget: int) -> dict[str, dict[int, float]]:
    """{cell: {seed: return after so many budgets}}."""
    return {c.name: {seed: run.at(c.steps * budget) for seed, run in runs.get((c.name, arm), {}).items()} for c in cells}


def returns_over_time(runs: Runs, costs: Costs, cells: Sequence[Cell], arm: str) -> dict[str, dict[int, float]]:
    """{cell: {seed: return averaged over the seconds that dense takes for one budget}}."""
    found: dict[str, dict[int, float]] = {}
    for cell in cells:
        own = costs[cell.name]
        horizon = 1e-3 * cell.steps * own[DENSE]["step_ms"]
        found[cell.name] = {
            seed: mean_over_time([seconds_at(run, arm, step, own) for step, _ in run.curve], [value for _, value in run.curve], horizon)
            for seed, run in runs.get((cell.name, arm), {}).items()
        }
    return found


def ratios(costs: Costs, cells: Sequence[Cell], arm: str, column: str) -> list[float]:
    """Dense's cost over an arm's, in every cell that has both."""
    pairs = [(costs[c.name][DENSE].get(column), costs[c.name].get(arm, {}).get(column)) for c in cells]
    return [dense / own for dense, own in pairs if dense and own]


def _cost_sentence(what: str, found: list[float]) -> str:
    claim = f"CroP-S early trains on with less {what} than dense"
    if not found:
        return f"{claim}: our runs **{claims.CANNOT_TELL}** (not measured)."
    times = " to ".join(dict.fromkeys(f"{value:.3g}" for value in (min(found), max(found))))
    verdict = claims.judge_numbers(found, low=1, high=float("inf"))
    return f"{claim}: our runs **{verdict}** ({times} times less, {claims.counted(len(found), 'task')})."


def verdicts(runs: Runs, costs: Costs, cells: Sequence[Cell], budgets: Sequence[int]) -> list[str]:
    """One sentence for each claim."""
    first, last = budgets[0], budgets[-1]
    dense = returns_at(runs, cells, DENSE, last)

    def at(budget: int, arm: str, other: str) -> claims.Pairs:
        return claims.differences(returns_at(runs, cells, arm, budget), returns_at(runs, cells, other, budget), dense)

    def in_time(arm: str, other: str) -> claims.Pairs:
        return claims.differences(returns_over_time(runs, costs, cells, arm), returns_over_time(runs, costs, cells, other), dense)

    def narrowed() -> claims.Pairs:
        early, late = at(first, EARLY_WEIGHTS, EARLY_UNITS), at(last, EARLY_WEIGHTS, EARLY_UNITS)
        return {task: [b - a for a, b in zip(early[task], late[task], strict=True)] for task in early if task in late}

    after = f"after {last} budgets"
    margin = f"to {naming.percent(claims.MARGIN)} of dense"
    judged: list[tuple[str, claims.Pairs, dict[str, Any]]] = [
        (
            "Unit pruning wins on return per second: CroP-S early returns more than CroP-U early",
            in_time(EARLY_UNITS, EARLY_WEIGHTS),
            {"low": 0},
        ),
        ("… CroP-S at initialisation more than CroP-U at initialisation", in_time(INIT_UNITS, INIT_WEIGHTS), {"low": 0}),
        ("… CroP-S early more than dense", in_time(EARLY_UNITS, DENSE), {"low": 0}),
        ("… CroP-S early more than the lottery ticket", in_time(EARLY_UNITS, TICKET), {"low": 0}),
        ("… CroP-S early more than the small dense network", in_time(EARLY_UNITS, SMALL), {"low": 0}),
        (
            f"Pruned weights are behind at first: after {first} budget CroP-U early returns less than CroP-S early",
            at(first, EARLY_WEIGHTS, EARLY_UNITS),
            {"high": 0},
        ),
        (f"… and catch up with training: from {first} budget to {last} CroP-U early gains on CroP-S early", narrowed(), {"low": 0}),
        (f"{after.capitalize()} CroP-U early returns as much as dense, {margin}", at(last, EARLY_WEIGHTS, DENSE), {"low": -claims.MARGIN}),
        (f"… CroP-S early as much as dense, {margin}", at(last, EARLY_UNITS, DENSE), {"low": -claims.MARGIN}),
        (f"… CroP-U early as much as the lottery ticket, {margin}", at(last, EARLY_WEIGHTS, TICKET), {"low": -claims.MARGIN}),
        (f"… CroP-U early as much as GraSP at initialisation, {margin}", at(last, EARLY_WEIGHTS, GRASP), {"low": -claims.MARGIN}),
        ("… CroP-U returns more early than at initialisation", at(last, EARLY_WEIGHTS, INIT_WEIGHTS), {"low": 0}),
        ("… CroP-S returns more early than at initialisation", at(last, EARLY_UNITS, INIT_UNITS), {"low": 0}),
        ("… CroP-S early returns more than the small dense network", at(last, EARLY_UNITS, SMALL), {"low": 0}),
    ]
    told = [claims.sentence(claim, pairs, **where) for claim, pairs, where in judged]
    for what, column in (
        ("time an update", "step_ms"),
        ("state memory", "state_bytes"),
        ("peak memory", "peak_bytes"),
        ("energy", "joules"),
    ):
        told.append(_cost_sentence(what, ratios(costs, cells, EARLY_UNITS, column)))
    return told


def table(cells: Sequence[Cell], runs: Runs, costs: Costs, budgets: Sequence[int], lottery_rounds: int) -> list[dict[str, Any]]:
    """One row for each arm of a cell."""
    rows = []
    for cell in cells:
        for arm in (DENSE, *LOOKS):
            own = runs.get((cell.name, arm))
            if not own:
                continue
            cost, total = costs[cell.name][arm], cell.steps * budgets[-1]
            row: dict[str, Any] = {"task": cell.name, "arm": arm, "pruned after": sorted({run.pruned_at for run in own.values()})}
            row["updates in all"] = total * (1 + lottery_rounds * (arm == TICKET))
            for budget in budgets:
                row[f"return, {budget} ×"] = spread_text(spread([run.at(cell.steps * budget) for run in own.values()]))
            averaged = returns_over_time(runs, costs, [cell], arm)[cell.name].values()
            row["return over time"] = spread_text(spread(list(averaged)))
            row |= {
                "ms an update": cost["step_ms"],
                "seconds": float(np.mean([seconds_at(r, arm, total, costs[cell.name]) for r in own.values()])),
            }
            row |= {
                "state, MiB": cost["state_bytes"] / MIB,
                "peak, MiB": cost["peak_bytes"] / MIB,
                "mJ an update": 1e3 * cost["joules"] if cost["joules"] else None,
            }
            some = next(iter(own.values()))
            rows.append({**row, "weights kept": some.kept, "in the arrays": some.executed, "widths": cost["widths"]})
    return rows


def report(
    cells: Sequence[Cell], runs: Runs, costs: Costs, budgets: Sequence[int], sparsity: float, settings: str, lottery_rounds: int
) -> tuple[list[str], list[dict[str, Any]]]:
    """The lines of the results' README, and the rows of its table."""
    rows = table(cells, runs, costs, budgets, lottery_rounds)
    sensors = next((cost["sensors"] for arms in costs.values() for cost in arms.values() if cost["sensors"]), None)
    energy = f"Energy by codecarbon ({sensors})" if sensors else "Energy was not measured: codecarbon is not installed"
    failed = [
        f"{cell.name}, {arm}: {seeds - len(runs[cell.name, arm])} of {seeds} seeds failed"
        for cell in cells
        for seeds in [max(len(own) for (name, _), own in runs.items() if name == cell.name)]
        for arm in (DENSE, *LOOKS)
        if (cell.name, arm) in runs and len(runs[cell.name, arm]) < seeds
    ]
    notes = (
        f"{settings}. A budget is {', '.join(f'{cell.steps:,} updates ({cell.name})' for cell in cells)}; totals are equal: dense updates",
        "before pruning count. Return: mean of the last three evaluations up to a budget; in brackets the 95 % bootstrap interval of the",
        "mean, under five seeds the range. The detector looks once in an epoch or twenty times in a budget, whichever is more often, takes",
        "the weights at its first look as reference and the paper's threshold 1 − s, and prunes at half of a budget at the latest.",
        "Seconds are those of the updates to the largest budget, by the time of an update, measured in turns over all arms once they were",
        "trained; dense updates before pruning are included, compilation, evaluation and scoring are not; of a lottery ticket what it",
        f"took to find it, {claims.counted(lottery_rounds, 'training')} to the largest budget with their compilation, is added. "
        "Return over time:",
        "the return averaged over the seconds that dense takes for one budget, straight lines between evaluations, 0 at the start, held",
        "after the end. State: parameters, targets, moments and masks of one run. Peak: of the program of one update, by XLA's analysis.",
        f"{energy}.",
    )
    lines = [f"# EarlyCroP: {naming.percent(sparsity)} of the weights removed, before training or early in it", ""]
    lines += ["![Return against updates and against seconds](curves.png)", "", *markdown_table(list(rows[0]), rows), ""]
    lines += [
        "What our runs say:",
        "",
        *claims.bullets(verdicts(runs, costs, cells, budgets)),
        "",
        claims.RETURNS_RULE,
        "",
        " ".join(notes),
    ]
    return lines + (["", f"Failed, in no number above: {'; '.join(failed)}."] if failed else []), rows


def figure(cells: Sequence[Cell], runs: Runs, costs: Costs, budgets: Sequence[int], path: pathlib.Path) -> None:
    """Learning curves of every arm, against updates and against seconds; a row for each cell."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter

    with drawing():
        drawn = Figure(figsize=(10.5, 3.2 * len(cells) + 0.8), layout="constrained")
        panels = drawn.subplots(len(cells), 2, squeeze=False, sharey="row")
        for (left, right), cell in zip(panels, cells, strict=True):
            for arm in (DENSE, *LOOKS):
                own = runs.get((cell.name, arm))
                if not own:
                    continue
                steps = np.array([step for step, _ in next(iter(own.values())).curve])
                means = np.mean([[value for _, value in run.curve] for run in own.values()], axis=0)
                seconds = np.mean([[seconds_at(run, arm, step, costs[cell.name]) for step in steps] for run in own.values()], axis=0)
                style: dict[str, Any] = {"color": INK, "linewidth": 1.6}
                if arm != DENSE:
                    color, marker, line, _ = LOOKS[arm]
                    style = {"color": color, "marker": marker, "linestyle": line, "markersize": 4, "linewidth": 1.2, "markevery": 2}
                left.plot(steps, means, label=arm, **style)
                right.plot(seconds, means, label=arm, **style)
            for budget in budgets:
                left.axvline(cell.steps * budget, color="0.8", linewidth=0.8, zorder=0)
            left.set(title=cell.name, xlabel="updates (grey: the budgets)", ylabel="return")
            right.set(title="… against time", xlabel="seconds of updates", xscale="log")
            right.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            right.xaxis.set_minor_formatter(NullFormatter())
            for axes in (left, right):
                axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
                axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
                axes.grid()
        handles = {label: handle for axes in panels.ravel() for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
        drawn.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4)
        drawn.savefig(path, dpi=130)
