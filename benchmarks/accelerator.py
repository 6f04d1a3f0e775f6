"""What one accelerator does: updates a second against stack size, dense and pruned, within ten minutes.

    python benchmarks/accelerator.py --output=results/accelerator

For BC and BCQ, dense and with 95 % removed by SNIP (compacted), stacks of 1 to 256 runs are trained by vmap and one after the other.
What has no time left is left out, and said so. Writes OUTPUT/README.md, table.csv and accelerator.png. On a CPU it does the same, with
fewer sizes in the time.
"""

import json
import pathlib
import statistics
import time
from typing import Any

import jax
import jax.numpy as jnp
from absl import app, flags
from tqdm.auto import tqdm

import jaxprune as jp
from jaxprune.reporting.tables import csv_text
from jaxprune.training.loop import train_blocks
from jaxprune.training.stacks import affordable
from jaxprune.training.sweep import versions

MINUTES = flags.DEFINE_float("minutes", 9.0, "Time for all of it.")
ALGOS = flags.DEFINE_list("algos", ["bc", "bcq"], "Algorithms.")
SIZES = flags.DEFINE_list("sizes", ["1", "4", "16", "64", "256"], "Stack sizes.")
STRATEGIES = flags.DEFINE_list("strategies", ["vectorized", "sequential"], "Strategies.")
DATASET = flags.DEFINE_string("dataset", "jaxprune/hopper/medium-v0", "Data set.")
SECONDS = flags.DEFINE_float("seconds", 1.0, "About how long one measurement takes; each is made three times.")
OUTPUT = flags.DEFINE_string("output", None, "Folder to write.", required=True)


def states(agent: jp.Agent, dataset: jp.data.Dataset, batch: Any, sparsity: float) -> tuple[jp.Agent, jp.AgentState]:
    """One run, dense or pruned and compacted."""
    state = agent.init(jax.random.key(0), dataset.statistics)
    if not sparsity:
        return agent, state
    return jp.compact(agent, jp.prune_agent(agent, state, batch, jax.random.key(1), sparsity=sparsity)[0])


def updates_per_second(agent: jp.Agent, state: jp.AgentState, transitions: Any, strategy: str, size: int) -> tuple[float, float]:
    """(updates a second summed over the stack, seconds of compiling)."""
    keys = jax.random.split(jax.random.key(2), size)
    stack = jax.tree.map(lambda leaf: jnp.stack([leaf] * size), state)

    def run(steps: int) -> float:
        nonlocal stack
        began = time.perf_counter()
        stack, _ = train_blocks(
            agent,
            stack,
            keys,
            transitions,
            jnp.int32(steps),
            batch_size=agent.config.batch_size,
            phase=0,
            span=agent.period,
            stacked=strategy,
        )
        jax.block_until_ready(stack.step)
        return time.perf_counter() - began

    compiling = run(1)
    steps = max(2, round(SECONDS.value / (run(5) / 5)))
    seconds = statistics.median(run(steps) for _ in range(3))
    return steps * agent.period * size / seconds, compiling


def figure(rows: list[dict[str, Any]], path: pathlib.Path) -> None:
    """Updates a second against stack size, a panel for each algorithm."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(5.2 * len(ALGOS.value), 3.8), layout="constrained")
    panels = drawn.subplots(1, len(ALGOS.value), squeeze=False)[0]
    for axes, algo in zip(panels, ALGOS.value, strict=True):
        lines = dict.fromkeys((row["sparsity"], row["strategy"]) for row in rows if row["algo"] == algo)
        for place, (sparsity, strategy) in enumerate(lines):
            own = [row for row in rows if (row["algo"], row["sparsity"], row["strategy"]) == (algo, sparsity, strategy)]
            label = f"{'dense' if not sparsity else f'{sparsity:.0%} removed'}, {strategy}"
            axes.plot([r["stack"] for r in own], [r["updates_per_s"] for r in own], marker="os^v"[place % 4], label=label)
        axes.set(title=algo.upper(), xlabel="runs in a stack", ylabel="updates a second, summed", xscale="log", yscale="log")
        axes.grid(alpha=0.3, which="both")
        axes.legend(fontsize=8, frameon=False)
    drawn.savefig(path, dpi=130)


def main(_):
    began, folder = time.time(), pathlib.Path(OUTPUT.value)
    folder.mkdir(parents=True, exist_ok=True)
    dataset = jp.data.load(DATASET.value)
    transitions = jax.device_put(dataset.transitions)
    batch = transitions.take(jnp.arange(256))
    rows, left_out = [], []
    agents = {(a, s): states(jp.agents.make(a, dataset.spec), dataset, batch, s) for a in ALGOS.value for s in (0.0, 0.95)}
    cases = [(*which, strategy, size) for size in map(int, SIZES.value) for which in agents for strategy in STRATEGIES.value]
    for algo, sparsity, strategy, size in tqdm(cases, disable=None):
        agent, state = agents[algo, sparsity]
        if time.time() - began > 60 * MINUTES.value or size > affordable(agent):
            left_out.append(f"{algo} {sparsity:g} {strategy} {size}")
            continue
        rate, compiling = updates_per_second(agent, state, transitions, strategy, size)
        rows.append(
            {"algo": algo, "sparsity": sparsity, "strategy": strategy, "stack": size, "updates_per_s": rate, "compile_s": compiling}
        )
    figure(rows, folder / "accelerator.png")
    (folder / "table.csv").write_text(csv_text(rows))
    text = ["# Updates a second against stack size", "", "![Updates a second](accelerator.png)", ""]
    text += ["| algorithm | removed | strategy | runs | updates a second, summed | compiling |", "|---|---|---|---|---|---|"]
    text += [
        f"| {r['algo']} | {r['sparsity']:.0%} | {r['strategy']} | {r['stack']} | {r['updates_per_s']:,.0f} | {r['compile_s']:.1f} s |"
        for r in rows
    ]
    if left_out:
        text += ["", f"Left out, for want of time or memory: {'; '.join(left_out)}."]
    text += ["", f"{(time.time() - began) / 60:.1f} minutes on {json.dumps(versions())}."]
    (folder / "README.md").write_text("\n".join(text) + "\n")
    print((folder / "README.md").read_text())


if __name__ == "__main__":
    app.run(main)
