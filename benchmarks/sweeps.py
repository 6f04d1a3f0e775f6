"""What stacking runs is worth: seed-steps a second against stack size, and a 24-run sweep against 24 PyTorch processes.

    python -m venv /tmp/torch && /tmp/torch/bin/pip install torch==2.13.0 numpy
    python benchmarks/sweeps.py --torch_python=/tmp/torch/bin/python --output=results/sweeps

The sweep is BC and BCQ at 0, 90, 95 and 99 % by SNIP, three seeds. Its time at --steps updates is extrapolated from what is measured:
seconds of starting (scoring, pruning, compaction), of compiling (the first piece of each stack less what its updates take), and of an
update of each stack. PyTorch runs dense, as its masked training costs at least as much: seconds of starting a process and of an update,
times 24, with all cores for one process after the other, or one core each for as many processes as there are cores, whichever is
faster. Evaluation is left out of both.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import pathlib
import statistics
import tempfile
import time
from typing import Any

import jax
import jax.numpy as jnp
from absl import app, flags
from torch_peer import TorchPeer, save_log

import jaxprune as jp
from jaxprune.reporting.tables import csv_text, markdown_table
from jaxprune.training.loop import place_runs, train_blocks
from jaxprune.training.records import read_records
from jaxprune.training.sweep import versions

TORCH_PYTHON = flags.DEFINE_string("torch_python", None, "Interpreter of an environment with torch and numpy; without it no peer.")
STEPS = flags.DEFINE_integer("steps", 20_000, "Updates of a run that the comparison is for.", lower_bound=1)
MEASURED = flags.DEFINE_list("measured", ["1000", "100"], "Updates measured between two evaluations, of BC and BCQ.")
SIZES = flags.DEFINE_list("sizes", ["1", "2", "4", "8", "16"], "Stack sizes.")
STRATEGIES = flags.DEFINE_list("strategies", ["sequential", "vectorized"], "Strategies.")
STACK_ROUNDS = flags.DEFINE_integer("rounds", 5, "Rounds of the stack sizes.", lower_bound=1)
FOLDER = flags.DEFINE_string("output", None, "Folder to write.", required=True)

ALGOS, SPARSITIES, SEEDS = ("bc", "bcq"), (0.0, 0.9, 0.95, 0.99), (0, 1, 2)


def stack_sizes(dataset: jp.data.Dataset) -> list[dict[str, Any]]:
    """Updates a second, summed over the runs of a stack of dense BC, for every strategy and size; all take turns."""
    agent, transitions = jp.agents.bc(dataset.spec), jax.device_put(dataset.transitions)
    raced = {}
    for strategy in STRATEGIES.value:
        for size in map(int, SIZES.value):
            keys = jax.random.split(jax.random.key(0), size)
            state = jax.vmap(lambda key: agent.init(key, dataset.statistics))(keys)
            raced[strategy, size] = place_runs((state, keys), strategy)

    def run(place, steps: int) -> float:
        state, keys = raced[place]
        began = time.perf_counter()
        state, _ = train_blocks(
            agent, state, keys, transitions, jnp.int32(steps), batch_size=agent.config.batch_size, phase=0, span=1, stacked=place[0]
        )
        jax.block_until_ready(state.step)
        raced[place] = state, keys
        return time.perf_counter() - began

    times: dict[tuple[str, int], list[float]] = {place: [] for place in raced}
    for place in raced:
        run(place, 10)
    for _ in range(STACK_ROUNDS.value):
        for place in raced:
            steps = max(20, 800 // place[1])
            times[place].append(run(place, steps) / (steps * place[1]))
    return [
        {"strategy": strategy, "stack": size, "updates_per_s": 1 / statistics.median(seconds)}
        for (strategy, size), seconds in times.items()
    ]


def our_sweep(dataset: jp.data.Dataset, folder: pathlib.Path) -> list[dict[str, Any]]:
    """One row a stack: runs, seconds of starting, of compiling, and of one update of all its runs."""
    rows = []
    for algo, measured in zip(ALGOS, map(int, MEASURED.value), strict=True):
        config = jp.SweepConfig(
            "sweep", algos=(algo,), sparsities=SPARSITIES, seeds=SEEDS, steps=4 * measured, eval_every=measured, evaluate=False
        )
        jp.sweep(config, folder / algo, dataset=dataset, progress=False)
        stacks: dict[float, list[dict[str, Any]]] = {}
        for record in read_records(folder / algo):
            stacks.setdefault(record["executed"], []).append(record)
        for executed, records in stacks.items():
            by_step = {record["step"]: record["wall_s"] for record in records}
            first, *_, last = sorted(by_step)
            each = (by_step[last] - by_step[first]) / (last - first)
            runs = {record["run_id"]: record["start_s"] for record in records}
            rows.append(
                {
                    "algo": algo,
                    "runs": len(runs),
                    "sparsities": sorted({record["sparsity"] for record in records}),
                    "executed": executed,
                    "start_s": sum(runs.values()),
                    "compile_s": by_step[first] - first * each,
                    "update_s": each,
                }
            )
    return rows


def torch_processes(dataset: jp.data.Dataset, scratch: str, python: str) -> list[dict[str, Any]]:
    """One row an algorithm and way: seconds of starting a process, and seconds an update, counted for one run."""
    log = save_log(dataset, f"{scratch}/log.npz")
    rows, cores = [], os.cpu_count() or 1
    for algo, measured in zip(ALGOS, map(int, MEASURED.value), strict=True):
        for processes, threads in ((1, cores), (cores, 1)):
            began = time.perf_counter()
            rows_each = jp.agents.make(algo, dataset.spec).config.batch_size
            peers = [TorchPeer(python, algo, log, rows_each, threads) for _ in range(processes)]
            started = time.perf_counter() - began
            with concurrent.futures.ThreadPoolExecutor(processes) as pool:
                list(pool.map(lambda peer: peer.run(10), peers))
                began = time.perf_counter()
                list(pool.map(lambda peer, n=measured: peer.run(n), peers))
                seconds = (time.perf_counter() - began) / (measured * processes)
            for peer in peers:
                peer.close()
            rows.append({"algo": algo, "processes": processes, "threads": threads, "start_s": started / processes, "update_s": seconds})
    return rows


def main(_):
    folder = pathlib.Path(FOLDER.value)
    folder.mkdir(parents=True, exist_ok=True)
    dataset = jp.data.load("jaxprune/hopper/medium-v0")
    text = ["# Sweeps", "", "Updates a second of dense BC, summed over the runs of a stack:", ""]
    sizes = stack_sizes(dataset)
    by_size = [{"stack": s, **{r["strategy"]: r["updates_per_s"] for r in sizes if r["stack"] == s}} for s in map(int, SIZES.value)]
    text += [*markdown_table(["stack", *STRATEGIES.value], by_size), ""]
    with tempfile.TemporaryDirectory() as scratch:
        ours = our_sweep(dataset, pathlib.Path(scratch))
        peers = torch_processes(dataset, scratch, TORCH_PYTHON.value) if TORCH_PYTHON.value else []
    total = sum(row["start_s"] + row["compile_s"] + STEPS.value * row["update_s"] for row in ours)
    text += [f"24 runs (BC and BCQ, 0, 90, 95, 99 % by SNIP, three seeds) of {STEPS.value:,} updates, stacks as formed:", ""]
    text += [*markdown_table(["algo", "runs", "sparsities", "executed", "start_s", "compile_s", "update_s"], ours), ""]
    once = {name: sum(row[name] for row in ours) for name in ("start_s", "compile_s")}
    text += [f"In all {total / 60:,.1f} minutes ({once['start_s']:.0f} s of starting, {once['compile_s']:.0f} s of compiling)."]
    if peers:
        best = {algo: min((r for r in peers if r["algo"] == algo), key=lambda r: r["update_s"]) for algo in ALGOS}
        runs = len(SPARSITIES) * len(SEEDS)
        theirs = sum(runs * (row["start_s"] + STEPS.value * row["update_s"]) for row in best.values())
        text += ["", "PyTorch, dense, one process a run:", ""]
        text += [*markdown_table(["algo", "processes", "threads", "start_s", "update_s"], peers), ""]
        text += [f"The faster way for each: {theirs / 60:,.1f} minutes in all, {theirs / total:.2f} times ours."]
    text += ["", f"Extrapolated from the seconds above. {json.dumps(versions())}"]
    (folder / "README.md").write_text("\n".join(text) + "\n")
    (folder / "stacks.csv").write_text(csv_text(sizes))
    print((folder / "README.md").read_text())


if __name__ == "__main__":
    app.run(main)
