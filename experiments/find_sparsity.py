"""The largest sparsity whose return is within a tolerance of the dense agent's, and that policy as files to deploy.

    python experiments/find_sparsity.py --dataset=jaxprune/hopper/medium-v0 --algo=bc --tolerance=0.05 --output=/tmp/found

Successive halving: all sparsities are trained for a fraction of the updates. Those that are below the tolerance with 95 % confidence go; of
the rest the larger half stays, with the largest that is within the tolerance already, and is trained for longer, until the last have
all the updates. A sparsity is taken if the 95 % lower bound of its margin (a paired bootstrap over seeds) is not below zero.
Takes the flags of train.py and sweep.py; --output gets a sweep for each rung, answer.json, and the best run's policy under policy/.
"""

import dataclasses
import json
import math
import pathlib

import exporting
import run_flags
from absl import flags
from claims import counted
from launch import command_line, launch
from run_flags import CONFIG, OUTPUT, join_processes, numbers, run_sweep, sweep_config

import jaxprune as jp
from jaxprune.reporting.summary import LAST_EVALUATIONS, trained_on
from jaxprune.reporting.tolerance import Margin, margin
from jaxprune.training import hosts

ALGO = flags.DEFINE_string("algo", "bc", "Algorithm.")
CRITERION = flags.DEFINE_string("criterion", "snip", "Pruning criterion.")
SPARSITIES = flags.DEFINE_list("sparsities", ["0.5", "0.8", "0.9", "0.95", "0.98", "0.99", "0.995"], "Candidates.")
SEEDS = flags.DEFINE_integer("seeds", 5, "Seeds; with fewer than five the bounds are over evaluations.", lower_bound=1)
TOLERANCE = flags.DEFINE_float("tolerance", 0.05, "Fraction of the dense return that may be lost.", lower_bound=0.0)
RUNGS = flags.DEFINE_integer("rungs", 3, "Trainings, each twice as long as the one before; the last has --steps.", lower_bound=1)
FORMATS = flags.DEFINE_list("formats", ["safetensors", "c"], "What to export; see export.py. Empty for none.")

flags.adopt_module_key_flags(run_flags)


def margins(records: list[dict], sparsities: list[float]) -> dict[float, Margin | None]:
    """{sparsity: its margin, None where a run failed}, of every run's last three evaluations since it was pruned."""
    runs: dict[float, dict[int, list[dict]]] = {}
    failed = {record["sparsity"] for record in records if record["status"] != "ok" or record["return_mean"] is None}
    for record in sorted(records, key=lambda record: record["step"]):
        if record["sparsity"] not in failed:
            runs.setdefault(record["sparsity"], {}).setdefault(record["seed"], []).append(record)

    def returns(rows: list[dict]) -> list[float]:
        own = rows[-trained_on([row["step"] for row in rows], rows[-1]["pruned_at"]) :]
        return [row["return_mean"] for row in own[-LAST_EVALUATIONS:]]

    last = {sparsity: {seed: returns(rows) for seed, rows in by_seed.items()} for sparsity, by_seed in runs.items()}
    if 0.0 not in last:
        raise ValueError("a dense run failed, so that there is nothing to compare with; see the log above")
    return {s: margin(last[0.0], last[s], TOLERANCE.value) if s in last else None for s in sparsities}


def survivors(found: dict[float, Margin | None]) -> list[float]:
    """Who goes on: not those that are too low for sure; of the rest, the larger half, and the largest that is safe so far."""
    possible = sorted(s for s, m in found.items() if m is not None and m.high >= 0)
    safe = [s for s in possible if (m := found[s]) is not None and m.low >= 0]
    return sorted({*possible[len(possible) // 2 :], *safe[-1:]})


def told_margin(own: Margin | None) -> str:
    """In words."""
    return "failed" if own is None else f"margin {own.mean:+,.1f}, at least {own.low:+,.1f}, at most {own.high:+,.1f}"


def main():
    join_processes()
    output, candidates = pathlib.Path(OUTPUT.value), sorted(numbers("sparsities", SPARSITIES.value, float))
    if not candidates or min(candidates) <= 0:
        raise ValueError(f"--sparsities={','.join(SPARSITIES.value)}: expected numbers above 0; the dense agent is always there")
    shared = {"algos": (ALGO.value,), "criteria": (CRITERION.value,), "seeds": tuple(range(SEEDS.value))}
    if not math.isfinite(TOLERANCE.value):
        raise ValueError(f"--tolerance={TOLERANCE.value}: expected a fraction of the dense return, for example 0.05")
    exporting.check_formats(FORMATS.value)
    config = sweep_config(sparsities=(0.0, *candidates), **shared)
    for name in ("algos", "criteria"):
        if len(getattr(config, name)) != 1:
            raise ValueError(f"--config={CONFIG.value} has {name}={','.join(getattr(config, name))}; a sparsity is found for one of them")
    if not config.evaluate:
        raise ValueError("--noevaluate: a sparsity is found by its return; leave the flag out")
    dataset = jp.data.load(
        config.dataset, env_id=config.env_id, clip_actions=config.clip_actions, max_episode_steps=config.max_episode_steps
    )
    history, certain, folder = [], [], output
    for rung in range(RUNGS.value):
        steps = max(1, config.steps >> (RUNGS.value - 1 - rung))
        every = max(1, min(config.eval_every, steps // 4))
        tried = dataclasses.replace(config, sparsities=(0.0, *candidates), steps=steps, eval_every=every)
        folder = output / f"rung-{rung}"
        records = run_sweep(tried, command_line(), output=folder, dataset=dataset)
        found = margins(records, candidates)
        print(f"\n{steps:,} updates of {len(candidates)} sparsities and dense:")
        for sparsity, own in found.items():
            print(f"  {sparsity:>6.1%}  {told_margin(own)}")
        history.append({"steps": steps, "margins": {str(s): None if m is None else dataclasses.asdict(m) for s, m in found.items()}})
        certain = [s for s, m in found.items() if m is not None and m.low >= 0]
        if rung < RUNGS.value - 1:
            candidates = survivors(found)
            if not candidates:
                break
    if hosts.part():  # of several processes, the first one answers
        return
    answer = max(certain) if candidates and certain else None
    pooled = len(config.seeds) < 5
    described = {"sparsity": answer, "tolerance": TOLERANCE.value, "bounds_over": "evaluations" if pooled else "seeds", "rungs": history}
    if answer is None:
        told = f"None of these sparsities is within {TOLERANCE.value:.0%} of dense with 95 % confidence; try smaller ones, or more seeds."
    else:
        run = jp.best(folder, sparsity=answer)
        told = f"{answer:.1%} of the weights can go within {TOLERANCE.value:.0%} of the dense return, with 95 % confidence: {run}"
        described["run"] = str(run.relative_to(output))
    if pooled:
        few = counted(len(config.seeds), "seed")
        told += f"\nWith {few} the bounds are over evaluations of these very runs, and say nothing of other seeds."
    (output / "answer.json").write_text(json.dumps(described, indent=2) + "\n")
    print(f"\n{told}")
    if "run" in described and FORMATS.value:
        exporting.write(output / described["run"], FORMATS.value, output / "policy")


if __name__ == "__main__":
    launch(main)
