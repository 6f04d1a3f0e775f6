"""Training steps a second, dense and pruned, against PyTorch, interleaved in one run.

    python -m venv /tmp/torch && /tmp/torch/bin/pip install torch==2.13.0 numpy
    python benchmarks/steps.py --torch_python=/tmp/torch/bin/python --output=results/steps

Every variant runs a slice of steps in turn, round after round, so that a drift of the machine meets all alike; the table gives medians over
rounds and the median of the ratio to PyTorch within a round. Without --torch_python the ratios are to our own dense step.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

import jax
import jax.numpy as jnp
from absl import app, flags
from torch_peer import TorchPeer, save_log

import jaxprune as jp
from jaxprune.reporting.tables import widths_text
from jaxprune.training.loop import train_blocks
from jaxprune.training.sweep import versions

ALGOS = flags.DEFINE_list("algos", ["bcq", "bc"], "Algorithms.")
TORCH_PYTHON = flags.DEFINE_string("torch_python", None, "Interpreter of an environment with torch and numpy.")
ROUNDS = flags.DEFINE_integer("rounds", 7, "Rounds.", lower_bound=1)
SECONDS = flags.DEFINE_float("seconds", 2.0, "About how long one slice of one variant takes.")
THREADS = flags.DEFINE_integer("threads", os.cpu_count() or 1, "PyTorch's threads.")
DATASET = flags.DEFINE_string("dataset", "jaxprune/hopper/medium-v0", "Data set.")
OUTPUT = flags.DEFINE_string("output", None, "Folder for table.md and rounds.json.")

FLOORS = {
    ("bcq", "dense"): 1.6,
    ("bcq", "snip 95 %"): 2.5,
    ("bcq", "snip 99 %"): 6,
    ("bcq", "crop units, 95 % of parameters"): 8,
    ("bcq", "hybrid 95 %, inner density 0.25"): 4,
    ("bc", "dense"): 1.5,
    ("bc", "snip 95 %"): 2.5,
}


@dataclasses.dataclass
class Ours:
    """One of our variants: its state goes on from slice to slice."""

    agent: jp.Agent
    state: jp.AgentState
    transitions: jp.data.Transitions

    def run(self, steps: int) -> float:
        start = time.perf_counter()
        self.state, metrics = train_blocks(
            self.agent, self.state, jax.random.key(1), self.transitions, jnp.int32(steps), batch_size=self.agent.config.batch_size
        )
        jax.block_until_ready(metrics)
        return time.perf_counter() - start

    def state_bytes(self) -> int:
        return sum(leaf.nbytes for leaf in jax.tree.leaves(self.state))


def variants(algo: str, dataset: jp.data.Dataset) -> dict[str, Ours]:
    agent = jp.agents.make(algo, dataset.spec)
    transitions = jax.device_put(dataset.transitions)
    batch = transitions.take(jnp.arange(1024))

    def fresh():
        return agent.init(jax.random.key(0), dataset.statistics)

    def pruned(**settings):
        return jp.prune_agent(agent, fresh(), batch, jax.random.key(2), **settings)[0]

    made = {"dense": (agent, fresh()), "snip 95 %, masks only": (agent, pruned(criterion="snip", sparsity=0.95))}
    for percent in (90, 95, 99):
        made[f"snip {percent} %"] = jp.compact(agent, pruned(criterion="snip", sparsity=percent / 100))
    hybrid = pruned(criterion="snip", sparsity=0.95, structure="hybrid", inner_density=0.25)
    made["hybrid 95 %, inner density 0.25"] = jp.compact(agent, hybrid)
    units = pruned(unit_criterion="crop", sparsity=0.95, structure="units", target="params")
    made["crop units, 95 % of parameters"] = jp.compact(agent, units)
    return {name: Ours(own, jax.tree.map(jnp.copy, state), transitions) for name, (own, state) in made.items()}


def measure(algo: str, dataset: jp.data.Dataset) -> tuple[dict[str, Ours], dict[str, list[float]]]:
    """Seconds a step of every variant, a list over rounds."""
    ours = variants(algo, dataset)
    runners: dict[str, Ours | TorchPeer] = dict(ours)
    with tempfile.TemporaryDirectory() as scratch:
        if TORCH_PYTHON.value:
            log = save_log(dataset, f"{scratch}/log.npz")
            rows = next(iter(ours.values())).agent.config.batch_size
            runners = {"PyTorch dense": TorchPeer(TORCH_PYTHON.value, algo, log, rows, THREADS.value), **ours}
        steps = {}
        for name, runner in runners.items():
            runner.run(5)
            steps[name] = max(5, round(SECONDS.value / (runner.run(20) / 20)))
        times: dict[str, list[float]] = {name: [] for name in runners}
        for number in range(ROUNDS.value):
            for name, runner in runners.items():
                times[name].append(runner.run(steps[name]) / steps[name])
            print(f"{algo} round {number + 1} of {ROUNDS.value}", file=sys.stderr)
        for runner in runners.values():
            if isinstance(runner, TorchPeer):
                runner.close()
    return ours, times


def table(algo: str, ours: dict[str, Ours], times: dict[str, list[float]]) -> list[str]:
    base = "PyTorch dense" if "PyTorch dense" in times else "dense"
    lines = [
        f"## {algo.upper()}",
        "",
        f"| variant | ms a step | steps a second ÷ {base}, median [min, max] | target | bytes of the train state | hidden widths |",
        "|---|---|---|---|---|---|",
    ]
    for name, seconds in times.items():
        ratios = [b / s for b, s in zip(times[base], seconds, strict=True)]
        floor = FLOORS.get((algo, name), "")
        own = ours.get(name)
        lines.append(
            f"| {name} | {1e3 * statistics.median(seconds):.2f} | {statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}] "
            f"| {floor} | {f'{own.state_bytes():,}' if own else ''} | {widths_text(own.agent) if own else ''} |"
        )
    return [*lines, ""]


def main(_):
    dataset = jp.data.load(DATASET.value)
    lines, rounds = ["# Training steps", ""], {}
    for algo in ALGOS.value:
        ours, times = measure(algo, dataset)
        lines += table(algo, ours, times)
        rounds[algo] = times
    lines += [f"{ROUNDS.value} rounds, interleaved; {DATASET.value}; {json.dumps(versions())}.", ""]
    print("\n".join(lines))
    if OUTPUT.value:
        folder = pathlib.Path(OUTPUT.value)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "table.md").write_text("\n".join(lines))
        (folder / "rounds.json").write_text(json.dumps(rounds, indent=1) + "\n")


if __name__ == "__main__":
    app.run(main)
