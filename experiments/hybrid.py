"""Return against step time between pure weights and pure units, at one number of weights.

    python experiments/hybrid.py --output=results/hybrid

The knob is the inner density: units are removed until the kept weights fill that fraction of the arrays, then weights inside; 1 is whole
units. Writes OUTPUT/README.md, table.csv and hybrid.png. Prints an estimate of its time first; stopped, the same command goes on.
"""

import pathlib
import time

from absl import flags
from arm_runs import made_by, run_arm, updates_of, write_results
from launch import command_line, launch
from tqdm.auto import tqdm

import jaxprune as jp
from jaxprune.reporting import naming
from jaxprune.reporting.appearance import FAINT, INK, PAPER, SLOTS, drawing

DATASET = flags.DEFINE_string("dataset", "jaxprune/hopper/medium-v0", "Data set.")
ALGOS = flags.DEFINE_list("algos", ["bc", "bcq"], "Algorithms.")
STEPS = flags.DEFINE_list("steps", ["20000", "5000"], "Updates of a run, for each of the algorithms.")
SPARSITY = flags.DEFINE_float("sparsity", 0.95, "Fraction of weights removed.", lower_bound=0, upper_bound=1)
INNER = flags.DEFINE_list("inner_densities", ["0.1", "0.25", "0.5"], "Between weights and units.")
CRITERION = flags.DEFINE_string("criterion", "snip", "Weight criterion.")
UNIT_CRITERION = flags.DEFINE_string("unit_criterion", "crop", "Unit criterion.")
SEEDS = flags.DEFINE_integer("seeds", 3, "Seeds.", lower_bound=1)
EPISODES = flags.DEFINE_integer("episodes", 10, "Episodes of an evaluation.", lower_bound=1)
WORK = flags.DEFINE_string("work", "/tmp/jaxprune-hybrid", "Folder for the sweeps.")
OUTPUT = flags.DEFINE_string("output", None, "Folder to write.", required=True)

COLUMNS = {
    "algo": "algorithm",
    "arm": "arm",
    "step_ms": "ms an update",
    "return_mean": "return",
    "return_min": "lowest seed",
    "return_max": "highest seed",
    "kept": "weights kept",
    "executed": "weights in the arrays",
    "widths": "widths (seed 0)",
}


def figure(rows, path: pathlib.Path) -> None:
    """Return against milliseconds an update, a panel for each algorithm."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    with drawing():
        drawn = Figure(figsize=(4.4 * len(ALGOS.value), 3.6), layout="constrained")
        for axes, algo in zip(drawn.subplots(1, len(ALGOS.value), squeeze=False)[0], ALGOS.value, strict=True):
            own = [row for row in rows if row["algo"] == algo]
            sparse = [row for row in own if row["arm"] != "dense"]
            axes.plot([row["step_ms"] for row in sparse], [row["return_mean"] for row in sparse], color=FAINT, zorder=1)
            for row in own:
                dense = row["arm"] == "dense"
                color = INK if dense else SLOTS[0][0]
                axes.vlines(row["step_ms"], row["return_min"], row["return_max"], color=color, linewidth=1.2)
                axes.plot(row["step_ms"], row["return_mean"], "s" if dense else "o", color=color, markeredgecolor=PAPER)
                # Under its bar, where no line passes.
                at, below = (row["step_ms"], row["return_min"]), dict(xytext=(0, -4), textcoords="offset points", ha="center", va="top")
                axes.annotate(row["arm"].replace(" ", "\n"), at, fontsize=7.5, **below)
            axes.set(title=f"{naming.name(algo)}, {naming.percent(SPARSITY.value)} removed", xlabel="Milliseconds an update", xscale="log")
            axes.set_ylabel("Return, with its range over seeds")
            axes.margins(x=0.15, y=0.2)
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.grid()
        drawn.savefig(path, dpi=130)


def main():
    output, work = pathlib.Path(OUTPUT.value), pathlib.Path(WORK.value)
    output.mkdir(parents=True, exist_ok=True)
    pruned = {"criteria": (CRITERION.value,), "sparsities": (SPARSITY.value,)}
    arms = {"dense": {"criteria": (), "sparsities": (0.0,)}, "weights": pruned}
    for density in INNER.value:
        knob = {"structure": "hybrid", "inner_density": float(density), "unit_criterion": UNIT_CRITERION.value}
        arms[f"hybrid {density}"] = {**pruned, **knob}
    arms["units"] = {**pruned, "structure": "units", "criteria": (UNIT_CRITERION.value,)}
    steps = updates_of(ALGOS.value, STEPS.value)
    seconds = sum(steps[algo] * {"bc": 1.0, "bcq": 25.0}.get(algo, 5.0) / 1e3 for algo in ALGOS.value) * SEEDS.value
    print(f"{len(arms) * len(ALGOS.value)} arms of {SEEDS.value} seeds: about {seconds * 2.5 / 60:.0f} minutes on two cores")
    began, rows, dataset = time.time(), [], jp.data.load(DATASET.value)
    for algo, arm in tqdm([(algo, arm) for algo in ALGOS.value for arm in arms], disable=None):
        timing = {"steps": steps[algo], "eval_every": max(1, steps[algo] // 5), "episodes": EPISODES.value}
        shared = {"dataset": DATASET.value, "algos": (algo,), "seeds": tuple(range(SEEDS.value))}
        config = jp.SweepConfig(**{**shared, **timing, **arms[arm]})
        rows.append({"algo": algo, "arm": arm, **run_arm(work / f"{algo}-{arm.replace(' ', '-')}", dataset, config)})
    figure(rows, output / "hybrid.png")
    after = [
        f"{DATASET.value}. Return: mean of a run's last three evaluations of {EPISODES.value} episodes, over {SEEDS.value} seeds (bars: "
        "lowest and highest). Every pruned arm of an algorithm keeps the same number of weights, units as many as fit.",
        "",
        made_by(command_line(), time.time() - began),
    ]
    title = f"# Between weights and units, {SPARSITY.value:.0%} of the weights removed"
    write_results(output, COLUMNS, rows, [title, "", "![Return against step time](hybrid.png)"], after)


if __name__ == "__main__":
    launch(main)
