"""Loss models at pruning trained networks (Laurent et al. 2020): what pruning does to the loss, and what fine-tuning leaves of it.

    python experiments/loss_modelling.py --output=results/loss_modelling
    python experiments/loss_modelling.py --full --output=results/loss_modelling_full     # the paper's λ, ten seeds: for an accelerator

Behaviour cloning on a log, and a 64-300-100-10 tanh perceptron on scikit-learn's digits, each at initialisation, half-trained and
converged, are pruned by magnitude, LM, QM and OBD, in 1, 14 or 140 rounds at several λ, and by OBS at several dampings; then fine-tuned.
Writes OUTPUT/README.md, table.csv and figures. Times prunings and updates and prints an estimate first; stopped, the same command goes
on. Needs scikit-learn: pip install 'jaxprune[experiments]'.
"""

import itertools
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import claims
import jax
import jax.numpy as jnp
import loss_figures
import numpy as np
from absl import flags
from arm_runs import KeptRows, made_by, numbers_of, write_page
from launch import command_line, launch
from loss_report import COLUMNS, Rows, report
from loss_tasks import Task, bc_task, digits_task
from masked_training import Problem, fit, measured, stacked, unstacked
from tqdm.auto import tqdm

import jaxprune as jp
from jaxprune.parameters import prunable_size
from jaxprune.pruning.masks import dense_masks
from jaxprune.pruning.schedules import kept_after
from jaxprune.reporting import naming

TASKS = flags.DEFINE_list("tasks", ["digits", "bc"], "Of digits and bc.")
DATASET = flags.DEFINE_string("dataset", "jaxprune/hopper/medium-v0", "Log for bc.")
SEEDS = flags.DEFINE_integer("seeds", 5, "Seeds.", lower_bound=1)
SPARSITIES = flags.DEFINE_list("sparsities", ["0.95", "0.98"], "Fractions of the weights removed.")
ROUNDS = flags.DEFINE_list("rounds", ["1", "14", "140"], "Rounds of LM, QM and OBD.")
LAMBDAS = flags.DEFINE_list("lambdas", ["0", "1e-4", "1e-2", "1"], "λ of LM, QM and OBD.")
OBS_ROUNDS = flags.DEFINE_list("obs_rounds", ["1", "14"], "Rounds of OBS.")
DAMPINGS = flags.DEFINE_list("dampings", ["1e-4", "1e-2", "1"], "Dampings of OBS, as fractions of the curvature's mean diagonal.")
OBS_BLOCK = flags.DEFINE_integer("obs_block", 32, "Weights in a block of OBS's curvature.", lower_bound=1)
STEPS = flags.DEFINE_list("steps", None, "Updates to convergence, for each of the tasks; 1,000 for digits and 20,000 for bc by default.")
FINE_TUNING = flags.DEFINE_list("fine_tuning", None, "Updates after pruning, for each of the tasks; 400 and 1,000 by default.")
PRUNE_ROWS = flags.DEFINE_integer("prune_rows", 256, "Fresh training rows in a round.", lower_bound=1)
EPISODES = flags.DEFINE_integer("episodes", 5, "Episodes that a fine-tuned bc agent is evaluated on; 0 for none.", lower_bound=0)
FULL = flags.DEFINE_bool("full", False, "The paper's λ, 1,000 rows a round, OBS in 140 rounds too, and ten seeds.")
WORK = flags.DEFINE_string("work", "/tmp/jaxprune-loss-modelling", "Folder for what is done already.")
OUTPUT = flags.DEFINE_string("output", None, "Folder to write.", required=True)

MOMENTS = ("init", "half", "converged")
MODELS = ("lm", "qm", "obd")
DENSE = "dense"
TIMED_ROUNDS, TIMED_UPDATES = 3, 50


class Method(NamedTuple):
    """A way to prune; of OBS, `strength` is its damping, of the loss models λ."""

    criterion: str
    rounds: int = 1
    strength: float = 0.0


class Plan(NamedTuple):
    """What the flags ask for."""

    seeds: int
    sparsities: tuple[float, ...]
    rounds: tuple[int, ...]
    lambdas: tuple[float, ...]
    obs_rounds: tuple[int, ...]
    dampings: tuple[float, ...]
    prune_rows: int
    obs_block: int

    @property
    def methods(self) -> list[Method]:
        """Magnitude's scores do not change from round to round, so that it has but one."""
        models = itertools.product(MODELS, self.rounds, self.lambdas)
        surgeon = itertools.product(("obs",), self.obs_rounds, self.dampings)
        return [Method("magnitude"), *itertools.starmap(Method, (*models, *surgeon))]


def prune(problem: Problem, params: Any, method: Method, sparsity: float, key: jax.Array, plan: Plan) -> tuple[Any, Any]:
    """(parameters, masks): exactly 0.0 where removed."""

    def rows(i):
        return problem.draw(jax.random.fold_in(key, i), plan.prune_rows)

    if method.criterion == "obs":
        masks = None
        for i, keep in enumerate(kept_after(sparsity, prunable_size(params), rounds=method.rounds)):
            how = {"keep": keep, "damping": method.strength, "block": plan.obs_block, "masks": masks}
            params, masks = jp.obs_prune(problem.objective, params, rows(i), **how)
        return params, masks
    options: dict[str, Any] = {"lambda_": method.strength} if method.criterion in MODELS else {}
    how = {"criterion": method.criterion, "sparsity": sparsity, "rounds": method.rounds}
    masks = jp.prune(problem.objective, params, rows, key, **how, **options)
    return jp.apply_masks(params, masks), masks


def log_points(last: int, count: int) -> tuple[int, ...]:
    """At most so many whole numbers from 1 to `last`, evenly spaced in their logarithms."""
    return tuple(sorted({round(value) for value in np.geomspace(1, last, count)}))


def moments(task: Task, seed: int) -> dict[str, tuple[Any, int]]:
    """{moment: (parameters, updates made)}.

    Half-trained is the first of some 60 points at which the logarithm of the training loss has come down half of its way from
    initialisation to convergence.
    """
    key = jax.random.key(seed)
    start = jax.tree.map(lambda leaf: leaf[None], task.init(jax.random.fold_in(key, 0)))
    keys, masks = jnp.stack([jax.random.fold_in(key, 1)]), dense_masks(start)
    points = log_points(task.steps, 60)
    trained, curve = fit(task.problem, start, masks, keys, points)
    losses = np.asarray(curve["loss"][0])
    first = float(measured(task.problem, unstacked(start)[0])["loss"])
    half = points[int(np.argmax(losses <= np.sqrt(first * losses[-1])))]
    middle, _ = fit(task.problem, start, masks, keys, (half,))
    found = {"init": (start, 0), "half": (middle, half), "converged": (trained, task.steps)}
    return {name: (unstacked(params)[0], updates) for name, (params, updates) in found.items()}


def run_part(task: Task, params: Any, updates: int, sparsity: float, seed: int, plan: Plan) -> Rows:
    """Prune one network by every method, fine-tune what is left, and the dense network beside it; a row for each."""
    problem, key = task.problem, jax.random.fold_in(jax.random.key(seed), 2)
    pruned = [(params, dense_masks(params)), *(prune(problem, params, method, sparsity, key, plan) for method in plan.methods)]
    before = {name: float(value) for name, value in measured(problem, params).items()}
    after = [{name: float(value) for name, value in measured(problem, one).items()} for one, _ in pruned]
    points = log_points(task.fine_tuning, 12)
    keys = jnp.stack([jax.random.fold_in(key, 1_000_000)] * len(pruned))
    tuned, curve = fit(problem, stacked([one for one, _ in pruned]), stacked([mask for _, mask in pruned]), keys, points)
    returns = None if task.returns is None else task.returns(tuned, seed)
    curves = {name: np.asarray(values) for name, values in curve.items()}
    rows = []
    for i, method in enumerate([Method(DENSE), *plan.methods]):
        row = {**method._asdict(), "updates": updates, "loss_before": before["loss"], "loss_after": after[i]["loss"]}
        row["change"] = row["loss_after"] - row["loss_before"]
        for name in ("held_out_loss", "error"):
            if name in curves:
                row |= {f"{name}_after": after[i][name], f"{name}_tuned": float(curves[name][i, -1])}
                row[f"{name}_gap"] = float(curves[name][i, -1] - curves[name][0, -1])
        if returns is not None:
            row |= {"return_tuned": float(returns[i]), "return_gap": float(returns[i] - returns[0])}
        rows.append({**row, "curve": [[0, after[i]["held_out_loss"]], *zip(points, curves["held_out_loss"][i].tolist(), strict=True)]})
    return rows


def seconds_of(function: Callable[[], Any]) -> float:
    """Of a call, after one that compiles."""
    jax.block_until_ready(function())
    began = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - began


def estimate(name: str, task: Task, plan: Plan) -> float:
    """Seconds of a task, from timing some rounds of every method and some updates; printed."""
    params, key = task.init(jax.random.key(0)), jax.random.key(0)

    def pruning(criterion: str, rounds: int) -> float:
        method = Method(criterion, rounds, 1e-2)
        return seconds_of(lambda: prune(task.problem, params, method, plan.sparsities[0], key, plan))

    costs = {criterion: pruning(criterion, TIMED_ROUNDS) / TIMED_ROUNDS for criterion in (*MODELS, "obs")}
    one, keys = jax.tree.map(lambda leaf: leaf[None], params), jnp.stack([key])
    short, long = (seconds_of(lambda n=n: fit(task.problem, one, dense_masks(one), keys, (n, 2 * n))) for n in (1, TIMED_UPDATES + 1))
    update = max(0.0, long - short) / (2 * TIMED_UPDATES)
    scored = sum(method.rounds * costs.get(method.criterion, 0.0) for method in plan.methods)
    cases = len(plan.sparsities) * len(MOMENTS)
    seconds = plan.seeds * (cases * (scored + (1 + len(plan.methods)) * task.fine_tuning * update) + 2 * task.steps * update)
    rounds = ", ".join(f"{naming.name(criterion)} {1e3 * cost:.0f} ms" for criterion, cost in costs.items())
    print(
        f"{name}: {plan.seeds * cases * len(plan.methods):,} prunings, a round of {rounds}; fine-tuning {task.fine_tuning:,} updates of "
        f"{1e3 * update:.2f} ms: about {naming.duration(seconds)}" + (", and the episodes on top" if task.returns else ""),
        flush=True,
    )
    return seconds


def numbers(flag: Any, kind: type) -> tuple:
    """A list flag's numbers, in order, each once."""
    found = tuple(sorted(set(numbers_of(flag.name, flag.value, kind))))
    if not found or found[0] < 0:
        raise ValueError(f"--{flag.name}={','.join(flag.value)}: expected numbers that are not negative")
    return found


def per_task(flag: Any, default: dict[str, int]) -> dict[str, int]:
    """{task: whole number} of a list flag with one for each of --tasks."""
    if flag.value is None:
        return default
    if len(flag.value) != len(TASKS.value) or not all(text.isdigit() and int(text) for text in flag.value):
        names = ",".join(TASKS.value)
        raise ValueError(f"--{flag.name}={','.join(flag.value)}: expected a whole number above 0 for each of --tasks={names}")
    return dict(zip(TASKS.value, map(int, flag.value), strict=True))


def planned() -> Plan:
    """The flags, or the paper's grid."""
    sparsities, rounds, obs_rounds = numbers(SPARSITIES, float), numbers(ROUNDS, int), numbers(OBS_ROUNDS, int)
    if not 0 < sparsities[0] <= sparsities[-1] < 1:
        raise ValueError(f"--sparsities={','.join(SPARSITIES.value)}: expected fractions above 0 and below 1")
    if not rounds[0] or not obs_rounds[0]:
        raise ValueError("--rounds and --obs_rounds: expected numbers of at least 1")
    if FULL.value:
        lambdas = (0.0, *(10.0**power for power in range(-5, 3)))
        return Plan(10, sparsities, rounds, lambdas, rounds, (1e-4, 1e-2, 1.0), 1000, 128)
    lambdas, dampings = numbers(LAMBDAS, float), numbers(DAMPINGS, float)
    return Plan(SEEDS.value, sparsities, rounds, lambdas, obs_rounds, dampings, PRUNE_ROWS.value, OBS_BLOCK.value)


def tasks() -> dict[str, Task]:
    """By name, from the flags."""
    if unknown := [name for name in TASKS.value if name not in ("digits", "bc")]:
        raise ValueError(f"--tasks: {unknown[0]!r} is unknown; expected some of digits, bc")
    steps, fine_tuning = per_task(STEPS, {"digits": 1000, "bc": 20_000}), per_task(FINE_TUNING, {"digits": 400, "bc": 1000})
    makers = {
        "digits": lambda: digits_task(steps["digits"], fine_tuning["digits"]),
        "bc": lambda: bc_task(DATASET.value, steps["bc"], fine_tuning["bc"], EPISODES.value),
    }
    return {name: makers[name]() for name in TASKS.value}


def parts_of(names: list[str], plan: Plan) -> Iterator[tuple[str, int, str, float]]:
    """(task, seed, moment, sparsity) of every part."""
    yield from itertools.product(names, range(plan.seeds), MOMENTS, plan.sparsities)


def notes(all_tasks: dict[str, Task], plan: Plan, rows: Rows) -> list[str]:
    """How it was done."""
    told = []
    for name, task in all_tasks.items():
        half = [row["updates"] for row in rows if (row["task"], row["moment"]) == (name, "half")]
        span = " to ".join(dict.fromkeys((f"{min(half):,}", f"{max(half):,}")))
        told.append(
            f"{name}: {task.about}; {task.steps:,} updates to convergence, {task.fine_tuning:,} of fine-tuning after pruning, "
            f"{claims.counted(plan.seeds, 'seed')}; half-trained after {span} updates."
        )
    sentences = (
        "Half-trained: the logarithm of the training loss has come down half of its way. Kernels are ranked together and masks nested;",
        f"after i of n rounds 1 − (1 − s)^(i/n) are gone, g and d are computed anew on {plan.prune_rows:,} fresh rows in every round, and",
        f"nothing is trained between rounds; λ is one of {', '.join(f'{value:g}' for value in plan.lambdas)}. Magnitude does not change",
        f"from round to round. OBS: its H in blocks of {plan.obs_block} weights, damped by one of",
        f"{', '.join(f'{value:g}' for value in plan.dampings)} of its mean diagonal in place of λ, and in",
        f"{' and '.join(map(str, plan.obs_rounds))} rounds, as a round of it costs ten of the others' or more. Fine-tuning starts with",
        "fresh moments; dense is the same network trained on beside the pruned ones for as long, and a gap is the difference to it.",
        "Losses are geometric means over seeds.",
    )
    told.append(" ".join(sentences))
    if any(task.returns for task in all_tasks.values()):
        told.append(f"Return: mean of {claims.counted(EPISODES.value, 'episode')} after fine-tuning.")
    return told


def main():
    plan, output = planned(), pathlib.Path(OUTPUT.value)
    all_tasks = tasks()
    settings = {**plan._asdict(), "dataset": DATASET.value, "episodes": EPISODES.value}
    settings |= {name: [task.steps, task.fine_tuning] for name, task in all_tasks.items()}
    kept = KeptRows(pathlib.Path(WORK.value) / "rows.jsonl", settings)
    began, rows = time.time(), []
    every = list(parts_of(list(all_tasks), plan))
    missing = [part for part in every if "-".join(map(str, part)) not in kept.rows]
    if missing:
        total = sum(estimate(name, task, plan) for name, task in all_tasks.items())
        print(f"about {naming.duration(total * len(missing) / len(every))} in all, {len(missing)} of {len(every)} parts to do", flush=True)
    start: tuple[Any, dict] = (None, {})
    for name, seed, moment, sparsity in tqdm(every, disable=None):
        case = "-".join(map(str, (name, seed, moment, sparsity)))
        if case not in kept.rows:
            if start[0] != (name, seed):
                start = ((name, seed), moments(all_tasks[name], seed))
            params, updates = start[1][moment]
            kept.add(case, run_part(all_tasks[name], params, updates, sparsity, seed, plan))
        rows += [{"task": name, "seed": seed, "moment": moment, "sparsity": sparsity, **row} for row in kept.rows[case]]
    output.mkdir(parents=True, exist_ok=True)
    figures = loss_figures.draw(rows, output)
    lines = report(rows, figures, [*notes(all_tasks, plan, rows), made_by(command_line(), time.time() - began)])
    write_page(output, lines, {"table": [{column: row.get(column) for column in COLUMNS} for row in rows]})


if __name__ == "__main__":
    launch(main)
