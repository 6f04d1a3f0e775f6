"""What `convolutions.py` reads from its runs: a table, verdicts and a figure."""

from __future__ import annotations

import pathlib
from typing import Any

import claims
import numpy as np

from jaxprune.reporting import naming
from jaxprune.reporting.appearance import INK, SLOTS, drawing
from jaxprune.reporting.statistics import spread
from jaxprune.reporting.tables import spread_text

Rows = list[dict[str, Any]]
DENSE = "dense"
ARMS: dict[str, dict[str, str]] = {
    "SNIP, weights": {"weights": "snip"},
    "CroP-U, weights": {"weights": "crop"},
    "random weights": {"weights": "random"},
    "CroP-S, channels": {"units": "crop"},
    "L1, channels": {"units": "l1"},
    "random channels": {"units": "random"},
    "small dense": {},
}
SNIP, CROP_U, _, CROP_S, L1, RANDOM_UNITS, SMALL = ARMS
# A masked network and its compacted form may differ by so much of the largest logit.
TOLERANCE = 1e-5
# Fractions of the held-out digits: what counts as no loss of accuracy.
MARGIN = 0.01

COLUMNS = {
    "sparsity": "removed",
    "arm": "arm",
    "accuracy": "held-out accuracy, %",
    "kept": "weights kept",
    "arrays": "weights in the arrays",
    "shapes": "channels and units",
    "ms": "ms an update",
    "speed_up": "times as fast as dense",
    "difference": "masked − compacted",
}


def case_name(name: str, sparsity: float) -> str:
    """Of a part's file."""
    return f"{name.replace(',', '').replace(' ', '-')}-{sparsity:g}"


def summary(rows: Rows, times: dict[str, list[float]]) -> Rows:
    """One row for each arm and sparsity."""
    dense_ms = times[case_name(DENSE, 0)]
    found = []
    for name, sparsity in dict.fromkeys((row["arm"], row["sparsity"]) for row in rows):
        own = [row for row in rows if (row["arm"], row["sparsity"]) == (name, sparsity)]
        ms = times[case_name(name, sparsity)]
        differences = [row["difference"] for row in own if row["difference"] is not None]
        found.append(
            {
                "sparsity": naming.percent(sparsity),
                "arm": name,
                "accuracy": spread_text(spread([100 * row["accuracy"] for row in own])),
                **{column: own[0][column] for column in ("kept", "arrays", "shapes")},
                "ms": float(np.median(ms)),
                "speed_up": float(np.median([a / b for a, b in zip(dense_ms, ms, strict=True)])),
                "difference": f"{max(differences):.1e}" if differences else None,
            }
        )
    return found


def accuracy_pairs(rows: Rows, arm: str, other: str, *, at: tuple[float, ...]) -> dict[str, list[float]]:
    """{sparsity: accuracy of one arm − of the other, for each seed}; the dense network is the same at every sparsity."""
    accuracy = {(row["arm"], row["sparsity"], row["seed"]): row["accuracy"] for row in rows}
    seeds = sorted({row["seed"] for row in rows})

    def of(name, sparsity, seed):
        return accuracy[name, 0 if name == DENSE else sparsity, seed]

    return {naming.percent(s): [of(arm, s, seed) - of(other, s, seed) for seed in seeds] for s in at}


def verdicts(rows: Rows, times: dict[str, list[float]], at: tuple[float, ...]) -> list[str]:
    """One sentence for each claim."""
    differences = [row["difference"] for row in rows if row["difference"] is not None]
    outcome = claims.judge_numbers(differences, low=0, high=TOLERANCE)
    told = [
        f"A trained network in cut arrays, channels behind a flattening included, computes what its masked form does, to {TOLERANCE:g} of "
        f"the largest logit: our runs **{outcome}** (largest difference {max(differences):.1e}, {len(differences)} networks)."
    ]
    dense_ms = times[case_name(DENSE, 0)]
    for sparsity in at:
        # By how much of dense's time an update is shorter, in each round.
        saved = {"": [1 - own / dense for own, dense in zip(times[case_name(CROP_S, sparsity)], dense_ms, strict=True)]}
        found = claims.spread_of(saved)
        outcome, number = claims.judge(found, low=0), claims.difference_text(found, "% less time an update")
        claim = f"CroP-S at {naming.percent(sparsity)} trains faster than dense"
        told.append(f"{claim}: our runs **{outcome}** ({number}; {len(dense_ms)} rounds of timing).")
    accuracy: dict[str, Any] = {"unit": "points of accuracy", "case": "level"}
    top = max(at)
    margin = f"{100 * MARGIN:g} point"
    comparisons = [
        ("CroP-S is more accurate than L1", CROP_S, L1, at, 0),
        ("CroP-S is more accurate than random channels", CROP_S, RANDOM_UNITS, at, 0),
        ("CroP-S is more accurate than the small dense network of as many weights", CROP_S, SMALL, at, 0),
        ("CroP-U is more accurate than random weights", CROP_U, "random weights", at, 0),
        (f"CroP-U is at least as accurate as SNIP, to {margin}", CROP_U, SNIP, at, -MARGIN),
        ("Single weights (CroP-U) are more accurate than as many in whole channels (CroP-S)", CROP_U, CROP_S, at, 0),
        (f"CroP-U at {naming.percent(top)} keeps dense's accuracy, to {margin}", CROP_U, DENSE, (top,), -MARGIN),
        (f"CroP-S at {naming.percent(top)} keeps dense's accuracy, to {margin}", CROP_S, DENSE, (top,), -MARGIN),
    ]
    told += [
        claims.sentence(claim, accuracy_pairs(rows, arm, other, at=where), low=low, **accuracy)
        for claim, arm, other, where, low in comparisons
    ]
    return told


def figure(rows: Rows, times: dict[str, list[float]], at: tuple[float, ...], path: pathlib.Path) -> None:
    """Accuracy against sparsity, and against the time of an update."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    with drawing():
        drawn = Figure(figsize=(10, 4.2), layout="constrained")
        left, right = drawn.subplots(1, 2, sharey=True)
        dense = [100 * row["accuracy"] for row in rows if row["arm"] == DENSE]
        left.axhline(np.mean(dense), color=INK, linewidth=1.2, label=DENSE)
        right.plot(np.median(times[case_name(DENSE, 0)]), np.mean(dense), "*", color=INK, markersize=10)
        for place, (name, (color, marker, line, _)) in enumerate(zip(ARMS, SLOTS, strict=True)):
            spreads = [spread([100 * r["accuracy"] for r in rows if (r["arm"], r["sparsity"]) == (name, s)]) for s in at]
            means = [each.mean for each in spreads]
            bars = [[each.mean - each.low for each in spreads], [each.high - each.mean for each in spreads]]
            style: dict[str, Any] = {"color": color, "marker": marker, "linestyle": line, "markersize": 5, "linewidth": 1.3}
            beside = [100 * s + 0.35 * (place - 3) for s in at]
            left.errorbar(beside, means, bars, capsize=2, elinewidth=0.8, label=name, **style)
            right.plot([np.median(times[case_name(name, s)]) for s in at], means, **style)
        left.set(xlabel="% of the weights removed", ylabel="held-out accuracy, %", title="Accuracy", xticks=[100 * s for s in at])
        right.set(xlabel="milliseconds an update", title="… and what an update costs (star: dense)", xscale="log")
        right.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        right.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        right.xaxis.set_minor_formatter(NullFormatter())
        for axes in (left, right):
            axes.grid()
        drawn.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)
        drawn.savefig(path, dpi=130)
