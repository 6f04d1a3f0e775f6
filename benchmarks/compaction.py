"""Step time and memory against sparsity: masked only, compacted, hybrid and whole units, on one machine in one run.

    python benchmarks/compaction.py --algos=bc,bcq --sparsities=0.8,0.9,0.95,0.99 --output=results/compaction.csv

All variants of an algorithm take turns, round after round, so that a drift of the machine meets all alike; times are medians over rounds.
`state_mib` is what the train state holds (parameters, targets, moments, masks); the `…_mib` stage columns are the working memory of the
compiled programs of scoring and training, arguments and results included, as the compiler reports it, and what is held after pruning and
compaction when no dense optimizer state is ever made.
"""

import csv
import dataclasses
import pathlib
import statistics
import time
from typing import Any

import jax
import jax.numpy as jnp
from absl import app, flags

import jaxprune as jp
from jaxprune.training.loop import sample, train_blocks

ALGOS = flags.DEFINE_list("algos", ["bc", "bcq"], "Algorithms.")
SPARSITIES = flags.DEFINE_list("sparsities", ["0.8", "0.9", "0.95", "0.99"], "Fractions of the weights removed.")
CRITERION = flags.DEFINE_string("criterion", "snip", "Weight criterion.")
UNIT_CRITERION = flags.DEFINE_string("unit_criterion", "crop", "Unit criterion.")
INNER = flags.DEFINE_list("inner_densities", ["0.25"], "Inner densities of the hybrids.")
ROUNDS = flags.DEFINE_integer("rounds", 7, "Rounds.", lower_bound=5)
STEPS = flags.DEFINE_integer("steps", 100, "Updates of a variant in a round.", lower_bound=1)
DATASET = flags.DEFINE_string("dataset", "jaxprune/hopper/medium-v0", "Data set.")
OUTPUT = flags.DEFINE_string("output", None, "CSV file to write besides printing.")

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
        lowered = train_blocks.lower(
            variant.agent, variant.state, jax.random.key(1), transitions, jnp.int32(1), batch_size=variant.agent.config.batch_size
        )
        variant.row["train_mib"] = working_mib(lowered.compile()) - mib(transitions)
    return out


def widths(agent: jp.Agent) -> str:
    return " ".join(f"{name}:" + "-".join(str(group.size) for group in agent.groups(name)) for name in agent.order)


def main(_):
    dataset = jp.data.load(DATASET.value)
    transitions = jax.device_put(dataset.transitions)
    rows = []
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
            row["times_dense"] = statistics.median(d / own for d, own in zip(dense, variant.times, strict=True))
            rows.append({**row, **variant.row, "widths": widths(variant.agent)})
            print(", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in rows[-1].items()), flush=True)
    if OUTPUT.value:
        path = pathlib.Path(OUTPUT.value)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    app.run(main)
