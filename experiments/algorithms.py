"""Every algorithm for continuous actions, dense and pruned before training, on built-in sets: one table of normalised scores.

    python experiments/algorithms.py --output=results/algorithms
    python experiments/algorithms.py --full --output=results/algorithms_full       # the papers' million updates a run

Writes OUTPUT/README.md and table.csv. Times some updates and prints an estimate first; stopped, the same command goes on.
"""

import pathlib
import time
from typing import Any

import jax
from absl import flags
from arm_runs import made_by, run_arm, updates_of, write_results
from launch import command_line, launch
from tqdm.auto import tqdm

import jaxprune as jp
from jaxprune.reporting import naming

DATASETS = flags.DEFINE_list(
    "datasets",
    [f"jaxprune/{task}/{level}-v0" for task in ("hopper", "halfcheetah") for level in ("medium", "medium-expert")],
    "Data sets.",
)
ALGOS = flags.DEFINE_list("algos", ["bc", "bcq", "td3_bc", "iql"], "Algorithms.")
STEPS = flags.DEFINE_list("steps", ["20000", "20000", "50000", "50000"], "Updates of a run, for each of the algorithms.")
FULL = flags.DEFINE_bool("full", False, "A million updates for every algorithm, in place of --steps.")
SEEDS = flags.DEFINE_integer("seeds", 3, "Seeds.", lower_bound=1)
EPISODES = flags.DEFINE_integer("episodes", 10, "Episodes of an evaluation.", lower_bound=1)
EVALUATIONS = flags.DEFINE_integer("evaluations", 10, "Evaluations of a run, evenly spaced.", lower_bound=1)
WORK = flags.DEFINE_string("work", "/tmp/jaxprune-algorithms", "Folder for the sweeps.")
OUTPUT = flags.DEFINE_string("output", None, "Folder to write.", required=True)

FULL_STEPS = 1_000_000
# Updates that are timed for the estimate.
TIMED = 50

ARMS = {
    "dense": {"criteria": (), "sparsities": (0.0,)},
    "SNIP 90 %": {"criteria": ("snip",), "sparsities": (0.9,)},
    "SNIP 95 %": {"criteria": ("snip",), "sparsities": (0.95,)},
    "GraSP 95 %": {"criteria": ("grasp",), "sparsities": (0.95,)},
}

COLUMNS = {
    "dataset": "data set",
    "algorithm": "algorithm",
    "arm": "arm",
    "steps": "updates",
    "score": "score",
    "score_min": "lowest seed",
    "score_max": "highest seed",
    "return_mean": "return",
    "kept": "weights kept",
    "executed": "weights in the arrays",
    "step_ms": "ms an update",
}


def updates() -> dict[str, int]:
    """{algorithm: updates of a run}."""
    if FULL.value:
        return dict.fromkeys(ALGOS.value, FULL_STEPS)
    return updates_of(ALGOS.value, STEPS.value)


def settings(algo: str, data: jp.data.Dataset, steps: int) -> dict[str, Any]:
    """What an algorithm's authors set by data set and length of the run."""
    if algo != "iql":
        return {}
    returns = data.report.return_statistics
    spread = returns["max"] - returns["min"]
    return {"max_steps": steps, "reward_scale": 1000 / spread if spread else 1.0}


def seconds_an_update(algo: str, data: jp.data.Dataset) -> float:
    """Of the dense agent, here and now."""
    agent = jp.agents.make(algo, data.spec)
    state = agent.init(jax.random.key(0), data.statistics)
    jp.train(agent, state, data.transitions, steps=TIMED, key=jax.random.key(1))
    began = time.perf_counter()
    jax.block_until_ready(jp.train(agent, state, data.transitions, steps=TIMED, key=jax.random.key(1))[0].params)
    return (time.perf_counter() - began) / TIMED


def counted_evaluations() -> str:
    """What the score of a run is the mean of."""
    number = EVALUATIONS.value
    return "a run's only evaluation, at its end," if number == 1 else f"mean of a run's last {min(3, number)} of {number} evaluations"


def main():
    steps, output, work = updates(), pathlib.Path(OUTPUT.value), pathlib.Path(WORK.value)
    loaded = {name: jp.data.load(name) for name in DATASETS.value}
    agents = {(name, algo): jp.agents.make(algo, data.spec, **settings(algo, data, 1)) for name, data in loaded.items() for algo in steps}
    output.mkdir(parents=True, exist_ok=True)
    runs = len(ARMS) * SEEDS.value * len(loaded)
    costs = {algo: seconds_an_update(algo, next(iter(loaded.values()))) for algo in steps}
    print(f"{runs * len(steps)} runs, {runs * sum(steps.values()):,} updates:")
    for algo, cost in costs.items():
        hours = naming.duration(runs * steps[algo] * cost)
        print(f"  {naming.name(algo):8} {runs} runs of {steps[algo]:,} updates of {1e3 * cost:.1f} ms: {hours}")
    total = naming.duration(sum(runs * steps[algo] * cost for algo, cost in costs.items()))
    print(f"about {total} in all if pruned updates took as long as dense ones, and the evaluations on top", flush=True)

    began, rows = time.time(), []
    for dataset, algo, arm in tqdm([(*pair, arm) for pair in agents for arm in ARMS], disable=None):
        data = loaded[dataset]
        config = jp.SweepConfig(
            **{
                "dataset": dataset,
                "algos": (algo,),
                "seeds": tuple(range(SEEDS.value)),
                "steps": steps[algo],
                "eval_every": max(1, steps[algo] // EVALUATIONS.value),
                "episodes": EPISODES.value,
                "settings": settings(algo, data, steps[algo]),
                **ARMS[arm],
            }
        )
        folder = work / "-".join((algo, *dataset.split("/"), *arm.replace("%", "").split(), str(steps[algo])))
        found = run_arm(folder, data, config)
        low, high = (jp.data.normalized_score(data.reference, found[key]) for key in ("return_min", "return_max"))
        spread = {"score_min": None if low is None else float(low), "score_max": None if high is None else float(high)}
        rows.append({"dataset": dataset, "algorithm": naming.name(algo), "arm": arm, "steps": steps[algo], **spread, **found})
    after = [
        f"Score: normalised with D4RL's reference returns; {counted_evaluations()} of {EPISODES.value} episodes, over {SEEDS.value} seeds. "
        "Every network of an algorithm is pruned, each perceptron to the sparsity "
        "named, on 1,024 rows. Hyper-parameters are those of the authors' code (BC: ours); observations are standardised for all. IQL's "
        "rewards are scaled as in their code, so that the best and the worst episode of a log are 1,000 apart, and its actor's learning "
        "rate falls over the length of the run. The papers train for a million updates. Our built-in sets are not D4RL's: compare lines, "
        "not figures.",
        "",
        made_by(command_line(), time.time() - began),
    ]
    # The time of an update is told between evaluations.
    columns = {name: told for name, told in COLUMNS.items() if any(row.get(name) is not None for row in rows)}
    write_results(output, columns, rows, ["# Algorithms, dense and pruned before training"], after)


if __name__ == "__main__":
    launch(main)
