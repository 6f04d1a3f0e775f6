"""Step time and memory against sparsity: masked only, compacted, hybrid and whole units, on one machine in one run.

    python benchmarks/compaction.py --algos=bc,bcq --sparsities=0.8,0.9,0.95,0.99 --output=results/compaction

All variants of an algorithm take turns, round after round, so that a drift of the machine meets all alike; times are medians over rounds.
`speedup` is dense's time over the variant's. `matmul_share` is an update's operations a second, as the compiler counts them in its
program, over those of a product of two 1,024 × 1,024 matrices timed in the same run. `state_mib` is what the train state holds
(parameters, targets, moments, masks); the other `…_mib` columns are stages: the working memory of the programs of scoring and training,
arguments and results included, as the compiler reports it, and what is held after pruning and compaction, no dense optimizer state ever
being made.
"""

import dataclasses
import json
import pathlib
import statistics
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
from absl import app, flags

import jaxprune as jp
from jaxprune.reporting.tables import csv_text, markdown_table, widths_text
from jaxprune.training.loop import sample, train_blocks
from jaxprune.training.sweep import versions

ALGOS = flags.DEFINE_list("algos", ["bc", "bcq"], "Algorithms.")
SPARSITIES = flags.DEFINE_list("sparsities", ["0.8", "0.9", "0.95", "0.99"], "Fractions of the weights removed.")
CRITERION = flags.DEFINE_string("criterion", "snip", "Weight criterion.")
UNIT_CRITERION = flags.DEFINE_string("unit_criterion", "crop", "Unit criterion.")
INNER = flags.DEFINE_list("inner_densities", ["0.25"], "Inner densities of the hybrids.")
ROUNDS = flags.DEFINE_integer("rounds", 7, "Rounds.", lower_bound=5)
STEPS = flags.DEFINE_integer("steps", 100, "Updates of a variant in a round.", lower_bound=1)
DATASET = flags.DEFINE_string("dataset", "jaxprune/hopper/medium-v0", "Data set.")
OUTPUT = flags.DEFINE_string("output", None, "Folder for README.md, table.csv and compaction.png.")

MIB = 2**20


@dataclasses.dataclass
class Variant:
    """One way to train; its state goes on from round to round."""

    algo: str
    name: str
    sparsity: float
    agent: jp.Agent
    state: jp.AgentState
    row: dict[str, Any]
    times: list[float] = dataclasses.field(default_factory=list)

    def run(self, transitions, steps: int) -> float:
        start = time.perf_counter()
        self.state, metrics = train_blocks(
            self.agent, self.state, jax.random.key(1), transitions, jnp.int32(steps), batch_size=self.agent.config.batch_size
        )
        jax.block_until_ready((self.state, metrics))
        return (time.perf_counter() - start) / steps


def matmul_rate(size: int = 1024, rounds: int = 9) -> float:
    """Operations a second of a float32 matrix product, the median of a few."""
    x = jax.random.normal(jax.random.key(0), (size, size))
    product, seconds = jax.jit(lambda a: a @ a), []
    jax.block_until_ready(product(x))
    for _ in range(rounds):
        began = time.perf_counter()
        jax.block_until_ready(product(x))
        seconds.append(time.perf_counter() - began)
    return 2 * size**3 / statistics.median(seconds)


def operations(agent, state, transitions) -> float:
    """Floating-point operations of one update, counted in its compiled program."""
    batch = transitions.take(jnp.arange(agent.config.batch_size))
    compiled = jax.jit(lambda s, b, k: agent.update(s, b, k)).lower(state, batch, jax.random.key(0)).compile()
    return (compiled.cost_analysis() or {})["flops"]


def mib(tree) -> float:
    """Bytes held by the distinct arrays of a tree."""
    return sum(leaf.nbytes for leaf in {id(leaf): leaf for leaf in jax.tree.leaves(tree)}.values()) / MIB


def working_mib(compiled) -> float:
    """Arguments, results and temporaries of a program, those that share memory counted once."""
    memory = compiled.memory_analysis()
    parts = ("argument_size_in_bytes", "output_size_in_bytes", "temp_size_in_bytes")
    return (sum(getattr(memory, part) for part in parts) - memory.alias_size_in_bytes) / MIB


def scoring_mib(agent, state, batch) -> float:
    """The largest scoring program of the weight criterion among the agent's networks."""
    criterion, sizes = jp.CRITERIA[CRITERION.value], []
    noise = agent.draw(jax.random.key(0), len(batch))
    for name in agent.order:
        objective = agent.objective(name, state)
        rows = objective.rows(batch, noise)
        program = jax.jit(lambda o, p, r: criterion(o, p, r, jax.random.key(0)))
        sizes.append(working_mib(program.lower(objective, state.params[name], rows).compile()))
    return max(sizes)


def variants(algo: str, dataset, transitions) -> list[Variant]:
    agent = jp.agents.make(algo, dataset.spec)
    bare = agent.init(jax.random.key(0), dataset.statistics, optimizers=False)
    batch = sample(transitions, jax.random.key(2), 256)
    stages = {"score_mib": scoring_mib(agent, bare, batch)}
    out = [Variant(algo, "dense", 0.0, agent, agent.restart_optimizers(bare), dict(stages))]
    ways = [("weights", {})] + [(f"hybrid {d}", {"structure": "hybrid", "inner_density": float(d)}) for d in INNER.value]
    for sparsity in map(float, SPARSITIES.value):
        for name, how in [*ways, ("units", {"structure": "units"})]:
            pruned, info = jp.prune_agent(
                agent,
                bare,
                batch,
                jax.random.key(3),
                criterion=CRITERION.value,
                unit_criterion=UNIT_CRITERION.value,
                sparsity=sparsity,
                **how,
            )
            small, compacted = jp.compact(agent, pruned)
            row = {**stages, "kept": info.kept, "prune_mib": mib((bare.params, pruned)), "compact_mib": mib((pruned, compacted))}
            if name == "weights":
                out.append(Variant(algo, "masked only", sparsity, agent, agent.restart_optimizers(pruned), row))
            label = "compacted" if name == "weights" else name
            out.append(Variant(algo, label, sparsity, small, small.restart_optimizers(compacted), dict(row)))
    for variant in out:
        variant.state = jax.tree.map(jnp.copy, variant.state)
        variant.row["state_mib"] = mib(variant.state)
        variant.row["mflop"] = operations(variant.agent, variant.state, transitions) / 1e6
        lowered = train_blocks.lower(
            variant.agent, variant.state, jax.random.key(1), transitions, jnp.int32(1), batch_size=variant.agent.config.batch_size
        )
        variant.row["train_mib"] = working_mib(lowered.compile()) - mib(transitions)
    return out


def figure(rows: list[dict[str, Any]], path: pathlib.Path) -> None:
    """Step time and bytes of the train state against sparsity, a line for each way."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(10, 3.6 * len(ALGOS.value)), layout="constrained")
    panels = drawn.subplots(len(ALGOS.value), 2, squeeze=False)
    for pair, algo in zip(panels, ALGOS.value, strict=True):
        own = [row for row in rows if row["algo"] == algo]
        dense, names = own[0], list(dict.fromkeys(row["variant"] for row in own[1:]))
        for axes, column, label in zip(pair, ("ms_per_step", "state_mib"), ("milliseconds an update", "MiB of train state"), strict=True):
            axes.axhline(dense[column], color="0.4", linestyle=":", label="dense")
            for place, name in enumerate(names):
                points = [(100 * row["sparsity"], row[column]) for row in own if row["variant"] == name]
                axes.plot(*zip(*points, strict=True), marker="os^vD"[place % 5], linestyle=("-", "--", "-.")[place % 3], label=name)
            axes.set(title=algo.upper(), xlabel="% of weights removed", ylabel=label, yscale="log")
            axes.grid(alpha=0.3, which="both")
    drawn.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)
    drawn.savefig(path, dpi=130)


COLUMNS = ("algo", "variant", "sparsity", "ms_per_step", "speedup", "matmul_share", "state_mib", "train_mib", "score_mib", "prune_mib")


def readme(rows: list[dict[str, Any]], rate: float) -> str:
    columns = (*COLUMNS, "compact_mib", "widths")
    lines = ["# Compaction", "", "![Step time and state against sparsity](compaction.png)", ""]
    lines += markdown_table(columns, rows)
    lines += ["", f"Matrix products: {rate / 1e9:,.0f} Gflop/s. Columns as in `benchmarks/compaction.py`. Made by"]
    lines += [f"`python {' '.join(sys.argv)}` with {json.dumps(versions())}."]
    return "\n".join(lines) + "\n"


def main(_):
    dataset = jp.data.load(DATASET.value)
    transitions = jax.device_put(dataset.transitions)
    rows, rate = [], matmul_rate()
    for algo in ALGOS.value:
        raced = variants(algo, dataset, transitions)
        for variant in raced:
            variant.run(transitions, STEPS.value)
        for _ in range(ROUNDS.value):
            for variant in raced:
                variant.times.append(variant.run(transitions, STEPS.value))
        dense = raced[0].times
        for variant in raced:
            row: dict[str, Any] = {"algo": algo, "variant": variant.name, "sparsity": variant.sparsity}
            row["ms_per_step"] = 1e3 * statistics.median(variant.times)
            row["speedup"] = statistics.median(d / own for d, own in zip(dense, variant.times, strict=True))
            row["matmul_share"] = variant.row["mflop"] * 1e6 / (row["ms_per_step"] / 1e3) / rate
            rows.append({**row, **variant.row, "widths": widths_text(variant.agent)})
            print(", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in rows[-1].items()), flush=True)
    if OUTPUT.value:
        folder = pathlib.Path(OUTPUT.value)
        folder.mkdir(parents=True, exist_ok=True)
        figure(rows, folder / "compaction.png")
        (folder / "README.md").write_text(readme(rows, rate))
        (folder / "table.csv").write_text(csv_text(rows))


if __name__ == "__main__":
    app.run(main)
