"""Pruning before training against pruning early in it (EarlyCroP), by weights and by whole units.

    python experiments/early_pruning.py --output=results/early_pruning

Arms at one sparsity: dense; CroP-U (weights) and CroP-S (units), at initialisation and when the detector fires; the small dense network.
Writes OUTPUT/README.md, table.csv and curves.png. Prints an estimate of its time first; stopped, the same command goes on.
"""

import pathlib
import time

from absl import flags
from arm_runs import made_by, run_arm, updates_of, write_results
from launch import command_line, launch
from tqdm.auto import tqdm

import jaxprune as jp

DATASETS = flags.DEFINE_list("datasets", ["jaxprune/hopper/medium-v0", "jaxprune/walker2d/medium-v0"], "Data sets.")
ALGOS = flags.DEFINE_list("algos", ["bc", "bcq"], "Algorithms.")
SPARSITY = flags.DEFINE_float("sparsity", 0.95, "Fraction of weights removed.", lower_bound=0, upper_bound=1)
STEPS = flags.DEFINE_list("steps", ["20000", "5000"], "Updates of a run, for each of the algorithms.")
SEEDS = flags.DEFINE_integer("seeds", 3, "Seeds.", lower_bound=1)
EVALUATIONS = flags.DEFINE_integer("evaluations", 5, "Evaluations of a run.", lower_bound=2)
EPISODES = flags.DEFINE_integer("episodes", 10, "Episodes of an evaluation.", lower_bound=1)
WORK = flags.DEFINE_string("work", "/tmp/jaxprune-early", "Folder for the sweeps.")
OUTPUT = flags.DEFINE_string("output", None, "Folder to write.", required=True)

# Milliseconds an update takes on two cores, for the estimate only.
_MS = {"bc": 1.0, "bcq": 25.0}

ARMS = {
    "dense": {"criteria": (), "sparsities": (0.0,)},
    "weights, init": {"criteria": ("crop",)},
    "weights, early": {"criteria": ("crop",), "when": "early"},
    "units, init": {"criteria": ("crop",), "structure": "units"},
    # The authors' threshold cannot fire for units from a sparsity of 0.9 on.
    "units, early": {"criteria": ("crop",), "structure": "units", "when": "early", "threshold": "paper"},
    "small dense": {"criteria": ("small_dense",)},
}

COLUMNS = {
    "dataset": "data set",
    "algo": "algorithm",
    "arm": "arm",
    "pruned_at": "pruned after (each seed)",
    "return_mean": "return",
    "return_min": "lowest seed",
    "return_max": "highest seed",
    "score": "score",
    "kept": "weights kept",
    "executed": "weights in the arrays",
    "run_s": "seconds a run",
    "step_ms": "ms an update, pruned",
    "widths": "widths (seed 0)",
}


def figure(rows, path: pathlib.Path) -> None:
    """Learning curves of every arm, a panel for each algorithm and data set."""
    from matplotlib.figure import Figure

    panels = list(dict.fromkeys((row["algo"], row["dataset"]) for row in rows))
    drawn = Figure(figsize=(5.2 * len(panels), 3.8), layout="constrained")
    for index, (axes, (algo, dataset)) in enumerate(zip(drawn.subplots(1, len(panels), squeeze=False)[0], panels, strict=True)):
        for row in rows:
            if (row["algo"], row["dataset"]) == (algo, dataset):
                place = list(ARMS).index(row["arm"])
                style = {"linestyle": "--" if "early" in row["arm"] else "-", "marker": "os^vDx"[place], "color": f"C{place}"}
                axes.plot(*zip(*row["curve"], strict=True), label=row["arm"], markersize=4, **style)
        axes.set(title=f"{algo.upper()}, {dataset}", xlabel="updates", ylabel="return" if index == 0 else "")
        axes.grid(alpha=0.3)
    drawn.legend(*drawn.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(ARMS), frameon=False)
    drawn.savefig(path, dpi=130)


def main():
    output, work = pathlib.Path(OUTPUT.value), pathlib.Path(WORK.value)
    steps = updates_of(ALGOS.value, STEPS.value)
    output.mkdir(parents=True, exist_ok=True)
    full = sum(steps[algo] * _MS.get(algo, 5.0) / 1e3 for algo in ALGOS.value) * SEEDS.value * len(DATASETS.value)
    print(
        f"{len(ARMS) * len(ALGOS.value) * len(DATASETS.value)} arms of {SEEDS.value} seeds: about {full * 3 / 60:.0f} minutes on two cores"
    )
    began, rows = time.time(), []
    arms = [(dataset, algo, arm) for dataset in DATASETS.value for algo in ALGOS.value for arm in ARMS]
    loaded = {name: jp.data.load(name) for name in DATASETS.value}
    for dataset, algo, arm in tqdm(arms, disable=None):
        folder = work / "-".join((algo, *dataset.split("/"), *arm.replace(",", "").split()))
        shared = {"sparsities": (SPARSITY.value,), "seeds": tuple(range(SEEDS.value)), "episodes": EPISODES.value}
        timing = {"steps": steps[algo], "eval_every": max(1, steps[algo] // EVALUATIONS.value), "check_every": max(1, steps[algo] // 10)}
        config = jp.SweepConfig(**{"dataset": dataset, "algos": (algo,), **shared, **timing, **ARMS[arm]})
        rows.append({"dataset": dataset, "algo": algo, "arm": arm, **run_arm(folder, loaded[dataset], config)})
    figure(rows, output / "curves.png")
    after = [
        f"Return: mean of a run's last three evaluations of {EPISODES.value} episodes, over {SEEDS.value} seeds. The detector looks every "
        "tenth of the run and prunes at half of it at the latest; θ_ref is the first check and the threshold the authors' code's, for "
        "units the paper's. Seconds a run: all updates, dense ones before pruning and compilation included, evaluation left out.",
        "",
        made_by(command_line(), time.time() - began),
    ]
    title = f"# Before training or early in it, {SPARSITY.value:.0%} of the weights removed"
    write_results(output, COLUMNS, rows, [title, "", "![Learning curves](curves.png)"], after)


if __name__ == "__main__":
    launch(main)
