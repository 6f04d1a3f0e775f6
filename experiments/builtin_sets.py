"""What the built-in data sets are worth: rows, episodes, returns, and behaviour cloning trained on each.

    python experiments/builtin_sets.py --output=results/builtin_sets

writes OUTPUT/table.md and OUTPUT/table.csv. With the default sizes this took about half an hour on two cores, most of it collecting.
"""

import json
import pathlib
import tempfile
import time

import numpy as np
from absl import flags
from launch import command_line, launch
from tqdm.auto import tqdm

import jaxprune as jp
from jaxprune.data.behaviours import LEVELS, TASKS, load_behaviour
from jaxprune.reporting.tables import csv_text, markdown_table
from jaxprune.training.sweep import versions

TASK_NAMES = flags.DEFINE_list("tasks", list(TASKS), "Tasks.")
LEVEL_NAMES = flags.DEFINE_list("levels", list(LEVELS), "Levels.")
STEPS = flags.DEFINE_integer("steps", 5_000, "Updates of behaviour cloning.", lower_bound=1)
SEEDS = flags.DEFINE_integer("seeds", 3, "Seeds of behaviour cloning.", lower_bound=1)
EPISODES = flags.DEFINE_integer("episodes", 10, "Episodes of an evaluation.", lower_bound=1)
OUTPUT = flags.DEFINE_string("output", None, "Folder to write.", required=True)

COLUMNS = {
    "set": "data set",
    "rows": "rows",
    "episodes": "episodes",
    "terminals": "ended in a terminal",
    "return_mean": "return, mean",
    "return_std": "std",
    "return_min": "min",
    "return_max": "max",
    "score": "score",
    "bc_return": "BC return",
    "bc_min": "BC min",
    "bc_max": "BC max",
    "bc_score": "BC score",
}


def clone(name: str, dataset: jp.data.Dataset, folder: pathlib.Path) -> dict[str, float]:
    """Behaviour cloning on one set: the mean of its last three evaluations, over seeds."""
    config = jp.SweepConfig(
        name,
        algos=("discrete_bc" if dataset.spec.discrete else "bc",),
        criteria=(),
        sparsities=(0.0,),
        seeds=tuple(range(SEEDS.value)),
        steps=STEPS.value,
        eval_every=max(1, STEPS.value // 5),
        episodes=EPISODES.value,
    )
    records = jp.sweep(config, folder, dataset=dataset, overwrite=True, progress=False)
    last = sorted({record["step"] for record in records})[-3:]
    by_seed = [np.mean([r["return_mean"] for r in records if r["seed"] == seed and r["step"] in last]) for seed in config.seeds]
    return {"bc_return": float(np.mean(by_seed)), "bc_min": float(np.min(by_seed)), "bc_max": float(np.max(by_seed))}


def describe(task: str, level: str, scratch: pathlib.Path) -> dict[str, object]:
    name = f"jaxprune/{task}/{level}-v0"
    dataset = jp.data.load(name)
    returns = dataset.report.return_statistics
    row: dict[str, object] = {
        "set": name,
        "rows": dataset.report.rows_kept,
        "episodes": dataset.report.episodes,
        "terminals": dataset.report.terminals,
        **{f"return_{key}": returns[key] for key in ("mean", "std", "min", "max")},
        **clone(name, dataset, scratch / f"{task}-{level}"),
        "steps": [policy.metadata["steps"] for policy in load_behaviour(task, level)],
    }
    for column, value in (("score", returns["mean"]), ("bc_score", row["bc_return"])):
        score = jp.data.normalized_score(dataset.reference, value)
        row[column] = None if score is None else float(score)
    return row


def markdown(rows: list[dict], seconds: float) -> str:
    def cell(value):
        return (
            "n/a" if value is None else f"{value:,.1f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value
        )

    lines = [
        "# Built-in data sets",
        "",
        "Returns are undiscounted, of the episodes in the set; scores are normalised with D4RL's reference returns. BC: 256-256, "
        f"{STEPS.value:,} updates, mean of the last three of five evaluations of {EPISODES.value} episodes, over {SEEDS.value} seeds "
        "(mean, min, max).",
        "",
        *markdown_table(COLUMNS, rows, cell),
        "",
        "Behaviour policies (PPO, on halfcheetah SAC; environment steps of each snapshot, in the order of the data):",
        "",
        *(f"- `{row['set']}`: {', '.join(f'{steps:,}' for steps in row['steps']) or 'uniform actions'}" for row in rows),
        "",
        f"Made by `{command_line()}` in {seconds / 60:.0f} minutes with {json.dumps(versions())}.",
    ]
    return "\n".join(lines) + "\n"


def main():
    for name, given, known in (("tasks", TASK_NAMES.value, TASKS), ("levels", LEVEL_NAMES.value, LEVELS)):
        if unknown := sorted(set(given) - set(known)):
            raise ValueError(f"--{name}: {unknown[0]!r} is unknown; expected some of {', '.join(known)}")
    output = pathlib.Path(OUTPUT.value)
    output.mkdir(parents=True, exist_ok=True)
    start, rows = time.time(), []
    pairs = [(task, level) for task in TASK_NAMES.value for level in LEVEL_NAMES.value]
    print(f"{len(pairs)} sets, about {2 * len(pairs)} minutes on two cores")
    with tempfile.TemporaryDirectory() as scratch:
        for task, level in tqdm(pairs, disable=None):
            rows.append(describe(task, level, pathlib.Path(scratch)))
    (output / "table.md").write_text(markdown(rows, time.time() - start))
    (output / "table.csv").write_text(csv_text(rows, list(COLUMNS)))
    print((output / "table.md").read_text())


if __name__ == "__main__":
    launch(main)
