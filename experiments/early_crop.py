"""EarlyCroP (Rachwan et al. 2022) put to the test: units or weights, at initialisation or early, against what else one would train.

    python experiments/early_crop.py --output=results/early_crop
    python experiments/early_crop.py --full --output=results/early_crop_full     # a million updates a run: for an accelerator

Arms at one sparsity: dense; CroP-U (weights) and CroP-S (units), at initialisation and when the detector fires; GraSP at initialisation;
the lottery ticket (BC); the small dense network. Runs go to the largest budget of updates and are read at each. `early_pruning.py` is
the short form. Writes OUTPUT/README.md, table.csv and curves.png. Times some updates and episodes and prints an estimate first; stopped,
the same command goes on. Energy is measured where codecarbon is installed: pip install 'jaxprune[energy]'.
"""

import dataclasses
import math
import pathlib
import time
from typing import Any

import claims
import estimates
import jax
import numpy as np
from absl import flags
from arm_runs import KeptRows, made_by, numbers_of, write_page
from early_report import DENSE, EARLY_UNITS, EARLY_WEIGHTS, GRASP, INIT_UNITS, INIT_WEIGHTS, SMALL, TICKET, Cell, Run, figure, report
from launch import command_line, launch
from tqdm.auto import tqdm

import jaxprune as jp
from jaxprune.export.training_cost import update_energy, update_memory, update_seconds
from jaxprune.reporting import naming
from jaxprune.reporting.tables import widths_text

DATASETS = flags.DEFINE_list(
    "datasets",
    ["jaxprune/hopper/medium-v0", "jaxprune/walker2d/medium-v0", "jaxprune/halfcheetah/medium-v0", "jaxprune/hopper/medium-v0"],
    "Data sets, one for each of --algos.",
)
ALGOS = flags.DEFINE_list("algos", ["bc", "bc", "bc", "bcq"], "Algorithms.")
STEPS = flags.DEFINE_list("steps", ["5000", "5000", "5000", "2500"], "Updates of one budget, for each of --algos.")
BUDGETS = flags.DEFINE_list("budgets", ["1", "2", "4"], "Multiples of a budget at which returns are read.")
SPARSITY = flags.DEFINE_float("sparsity", 0.95, "Fraction of weights removed.", lower_bound=0, upper_bound=1)
SEEDS = flags.DEFINE_integer("seeds", 5, "Seeds.", lower_bound=1)
EVALUATIONS = flags.DEFINE_integer("evaluations", 4, "Evaluations within one budget.", lower_bound=1)
EPISODES = flags.DEFINE_integer("episodes", 5, "Episodes of an evaluation.", lower_bound=1)
LOTTERY_ROUNDS = flags.DEFINE_integer("lottery_rounds", 3, "Rounds in which a ticket is found, each a training to the largest budget.")
TIMING_ROUNDS = flags.DEFINE_integer("timing_rounds", 5, "Rounds in which the updates of all arms are timed in turns.", lower_bound=1)
FULL = flags.DEFINE_bool("full", False, "BC and BCQ on three data sets, budgets of 250,000 updates, ten episodes.")
WORK = flags.DEFINE_string("work", "/tmp/jaxprune-early-crop", "Folder for what is done already.")
OUTPUT = flags.DEFINE_string("output", None, "Folder to write.", required=True)

UNITS = {"criteria": ("crop",), "structure": "units"}
# The authors' threshold cannot fire for units from a sparsity of 0.9 on, so that both structures are given the paper's.
EARLY = {"when": "early", "threshold": "paper"}
ARMS: dict[str, dict[str, Any]] = {
    DENSE: {"criteria": (), "sparsities": (0.0,)},
    INIT_WEIGHTS: {"criteria": ("crop",)},
    EARLY_WEIGHTS: {"criteria": ("crop",), **EARLY},
    INIT_UNITS: UNITS,
    EARLY_UNITS: {**UNITS, **EARLY},
    GRASP: {"criteria": ("grasp",)},
    TICKET: {"criteria": ("lottery_ticket",)},
    SMALL: {"criteria": ("small_dense",)},
}
# What a lottery ticket costs is many trainings: of the quick algorithm alone.
TICKET_ALGOS = ("bc",)
ENERGY_S = 4.0
LOOKS_A_BUDGET = 20
FULL_STEPS = 250_000


def cells() -> list[Cell]:
    """What is trained on what, for how long."""
    algos, datasets, steps = ALGOS.value, DATASETS.value, STEPS.value
    if FULL.value:
        tasks = [f"jaxprune/{task}/medium-v0" for task in ("hopper", "walker2d", "halfcheetah")]
        algos, datasets, steps = ["bc"] * 3 + ["bcq"] * 3, tasks * 2, [str(FULL_STEPS)] * 6
    if len(datasets) != len(algos):
        raise ValueError(f"--datasets={','.join(datasets)}: expected one for each of --algos={','.join(algos)}")
    pairs = list(zip(algos, datasets, strict=True))
    if len(set(pairs)) < len(pairs):
        raise ValueError(f"--datasets={','.join(datasets)}: an algorithm is given the same one twice")
    if len(steps) != len(algos) or not all(text.isdigit() and int(text) for text in steps):
        raise ValueError(f"--steps={','.join(steps)}: expected a whole number above 0 for each of --algos={','.join(algos)}")
    return [Cell(algo, name, int(count)) for algo, name, count in zip(algos, datasets, steps, strict=True)]


def arms_of(algo: str) -> list[str]:
    """Names."""
    return [arm for arm in ARMS if arm != TICKET or algo in TICKET_ALGOS]


def config_of(cell: Cell, arm: str, data: jp.data.Dataset, budgets: tuple[int, ...]) -> jp.SweepConfig:
    """The sweep of one arm.

    The detector looks once in an epoch, as in the authors' code, or twenty times in a budget where that is more often, and prunes at half
    of a budget at the latest.
    """
    epoch = math.ceil(len(data.transitions.rewards) / jp.agents.make(cell.algo, data.spec).config.batch_size)
    settings: dict[str, Any] = {
        "dataset": cell.dataset,
        "algos": (cell.algo,),
        "sparsities": (SPARSITY.value,),
        "seeds": tuple(range(SEEDS.value)),
        "steps": cell.steps * budgets[-1],
        "eval_every": max(1, cell.steps // EVALUATIONS.value),
        "episodes": 10 if FULL.value else EPISODES.value,
        "check_every": max(1, min(epoch, cell.steps // LOOKS_A_BUDGET)),
        "cap": max(1, cell.steps // 2),
        "lottery_rounds": LOTTERY_ROUNDS.value,
    }
    return jp.SweepConfig(**{**settings, **ARMS[arm]})


def estimate(all_cells: list[Cell], loaded: dict[str, jp.data.Dataset], budgets: tuple[int, ...]) -> None:
    """Print what is to do and how long it will take, from timing dense updates and an evaluation of each algorithm."""
    print(f"{sum(len(arms_of(cell.algo)) for cell in all_cells) * SEEDS.value} runs:")
    costs: dict[str, tuple[float, float, float]] = {}
    total = 0.0
    for cell in all_cells:
        data = loaded[cell.dataset]
        config = config_of(cell, DENSE, data, budgets)
        if cell.algo not in costs:
            agent = jp.agents.make(cell.algo, data.spec)
            state = agent.init(jax.random.key(0), data.statistics)
            compiling, update = estimates.update_costs(agent, state, data.transitions)
            acting, episodes = estimates.evaluation_costs(agent, state, data.env_id, config.episodes) if data.env_id else (0.0, 0.0)
            costs[cell.algo] = compiling + acting, update, episodes
        compiling, update, evaluation = costs[cell.algo]
        trainings = len(arms_of(cell.algo)) + LOTTERY_ROUNDS.value * (TICKET in arms_of(cell.algo))
        evaluations = len(arms_of(cell.algo)) * EVALUATIONS.value * budgets[-1]
        # Arms whose seeds leave arrays of different sizes compile for each.
        seconds = SEEDS.value * (trainings * (compiling + config.steps * update) + evaluations * evaluation)
        print(f"  {cell.name}: {trainings} trainings of {config.steps:,} updates of {1e3 * update:.2f} ms: {naming.duration(seconds)}")
        total += seconds
    print(f"about {naming.duration(total)} if pruned updates took as long as dense ones and episodes lasted to the end", flush=True)


def runs_of(records: list[dict[str, Any]]) -> dict[int, Run]:
    """{seed: run} of those that finished."""
    rows: dict[int, list[dict[str, Any]]] = {}
    for record in records:
        rows.setdefault(record["seed"], []).append(record)
    found = {}
    for seed, own in rows.items():
        own.sort(key=lambda record: record["step"])
        if all(record["status"] == "ok" for record in own):
            last = own[-1]
            curve = tuple((record["step"], record["return_mean"]) for record in own)
            found[seed] = Run(curve, last["pruned_at"], last["start_s"], last["kept"], last["executed"])
    return found


@dataclasses.dataclass
class Trained:
    """The first seed's run of an arm as it was trained last."""

    agent: jp.Agent
    state: jp.AgentState
    milliseconds: list[float] = dataclasses.field(default_factory=list)


def costs_of(arms: dict[str, Trained]) -> dict[str, dict[str, Any]]:
    """{arm: what an update costs}; times are taken in turns, so that a drift of the machine meets all alike."""
    batch = next(iter(arms.values())).agent.config.batch_size
    updates = {name: max(20, math.ceil(0.2 / update_seconds(one.agent, one.state, batch, 20))) for name, one in arms.items()}
    for _ in range(TIMING_ROUNDS.value):
        for name, one in arms.items():
            one.milliseconds.append(1e3 * update_seconds(one.agent, one.state, batch, updates[name]))
    found = {}
    for name, one in arms.items():
        leaves = jax.tree.leaves(one.state)
        row: dict[str, Any] = {"step_ms": float(np.median(one.milliseconds)), "widths": widths_text(one.agent)}
        row["state_bytes"] = int(sum(leaf.nbytes for leaf in leaves if hasattr(leaf, "nbytes")))
        row["peak_bytes"] = int(update_memory(one.agent, one.state, batch).peak)
        try:
            energy = update_energy(one.agent, one.state, batch, math.ceil(1e3 * ENERGY_S / row["step_ms"]), None)
            row |= {"joules": 3.6e6 * energy.kilowatt_hours / energy.updates, "sensors": energy.sensors}
        except ImportError:
            row |= {"joules": None, "sensors": None}
        found[name] = row
    return found


def main():
    all_cells, output, work = cells(), pathlib.Path(OUTPUT.value), pathlib.Path(WORK.value)
    budgets = tuple(sorted(set(numbers_of("budgets", BUDGETS.value, int))))
    if not budgets or budgets[0] < 1:
        raise ValueError(f"--budgets={','.join(BUDGETS.value)}: expected whole numbers above 0")
    loaded = {cell.dataset: jp.data.load(cell.dataset) for cell in all_cells}
    for cell in all_cells:
        for arm in arms_of(cell.algo):
            config_of(cell, arm, loaded[cell.dataset], budgets)
    estimate(all_cells, loaded, budgets)
    began = time.time()
    kept = KeptRows(work / "costs.jsonl", {"sparsity": SPARSITY.value, "cells": [list(cell) for cell in all_cells], "budgets": budgets})
    runs: dict[tuple[str, str], dict[int, Run]] = {}
    for cell in all_cells:
        trained = {}
        for arm in tqdm(arms_of(cell.algo), desc=cell.name, disable=None):
            folder = work / cell.name.replace(" ", "-").replace("/", "-") / arm.replace(",", "").replace(" ", "-")
            records = jp.sweep(
                config_of(cell, arm, loaded[cell.dataset], budgets), folder, dataset=loaded[cell.dataset], resume=True, progress=False
            )
            runs[cell.name, arm] = runs_of(records)
            if cell.name not in kept.rows:
                trained[arm] = Trained(*jp.load_run(folder / "runs" / records[0]["run_id"]))
        if cell.name not in kept.rows:
            kept.add(cell.name, costs_of(trained))
    output.mkdir(parents=True, exist_ok=True)
    figure(all_cells, runs, kept.rows, budgets, output / "curves.png")
    counts = (SEEDS.value, "seed"), (EVALUATIONS.value, "evaluation")
    told = " and ".join(claims.counted(*count) for count in counts)
    settings = f"{told} of {claims.counted(10 if FULL.value else EPISODES.value, 'episode')} within a budget"
    lines, rows = report(all_cells, runs, kept.rows, budgets, SPARSITY.value, settings, LOTTERY_ROUNDS.value)
    write_page(output, [*lines, "", made_by(command_line(), time.time() - began)], {"table": rows})


if __name__ == "__main__":
    launch(main)
