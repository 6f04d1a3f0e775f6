"""Beyond perceptrons: a small convolutional network on scikit-learn's digits, pruned before training by weights and by whole channels.

    python experiments/convolutions.py --output=results/convolutions
    python experiments/convolutions.py --full --output=results/convolutions_full       # wider, longer, twenty seeds: for an accelerator

Every pruned network is trained in arrays cut by `jaxprune.compact_tree`, and the trained one is compared with its masked form. Writes
OUTPUT/README.md, table.csv and convolutions.png. Times some updates and prints an estimate first; stopped, the same command goes on.
Needs scikit-learn: pip install 'jaxprune[experiments]'.
"""

import math
import pathlib
import time
from collections.abc import Callable
from typing import Any

import claims
import jax
import jax.numpy as jnp
import numpy as np
import optax
from absl import flags
from arm_runs import KeptRows, made_by, numbers_of, write_results
from convolution_report import ARMS, COLUMNS, DENSE, SMALL, Rows, case_name, figure, summary, verdicts
from digits import ConvolutionalNetwork, convolutional_objective, load_digits, wrong
from launch import command_line, launch
from masked_training import Problem, fit, stacked, unstacked
from tqdm.auto import tqdm

import jaxprune as jp
from jaxprune.parameters import prunable_size
from jaxprune.pruning.compaction import expand_tree
from jaxprune.pruning.masks import dense_masks
from jaxprune.pruning.units import kernel_shapes
from jaxprune.pruning.widths import fitting_widths
from jaxprune.reporting import naming

SPARSITIES = flags.DEFINE_list("sparsities", ["0.5", "0.8", "0.9", "0.95"], "Fractions of the weights removed.")
SEEDS = flags.DEFINE_integer("seeds", 5, "Seeds.", lower_bound=1)
STEPS = flags.DEFINE_integer("steps", 1000, "Updates of a run.", lower_bound=8)
BATCH_SIZE = flags.DEFINE_integer("batch_size", 128, "Rows an update.", lower_bound=1)
LEARNING_RATE = flags.DEFINE_float("learning_rate", 1e-3, "Adam's.", lower_bound=0)
PRUNE_ROWS = flags.DEFINE_integer("prune_rows", 512, "Training rows that criteria score on.", lower_bound=1)
CHANNELS = flags.DEFINE_list("channels", ["16", "32", "64"], "Channels of the three convolutions.")
WIDTH = flags.DEFINE_integer("width", 64, "Units of the hidden dense layer.", lower_bound=1)
ROUNDS = flags.DEFINE_integer("rounds", 5, "Rounds in which the updates of all arms are timed in turns.", lower_bound=1)
FULL = flags.DEFINE_bool("full", False, "128-256-512 channels, 512 units, 10,000 updates and 20 seeds.")
WORK = flags.DEFINE_string("work", "/tmp/jaxprune-convolutions", "Folder for what is done already.")
OUTPUT = flags.DEFINE_string("output", None, "Folder to write.", required=True)

# Points of a learning curve, as fractions of a run.
POINTS = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1)
# Updates between two points when updates are timed.
SHORT, LONG = 1, 6


def chosen() -> tuple[ConvolutionalNetwork, int, int]:
    """The network, the updates of a run and the number of seeds, from the flags."""
    if FULL.value:
        return ConvolutionalNetwork((128, 256, 512), 512), 10_000, 20
    if len(CHANNELS.value) != 3 or not all(text.isdigit() and int(text) for text in CHANNELS.value):
        raise ValueError(f"--channels={','.join(CHANNELS.value)}: expected three whole numbers above 0")
    first, second, third = map(int, CHANNELS.value)
    return ConvolutionalNetwork((first, second, third), WIDTH.value), STEPS.value, SEEDS.value


def sparsities() -> list[float]:
    """From the flag, in order."""
    found = sorted(set(numbers_of("sparsities", SPARSITIES.value, float)))
    if not found or not all(0 < sparsity < 1 for sparsity in found):
        raise ValueError(f"--sparsities={','.join(SPARSITIES.value)}: expected fractions above 0 and below 1")
    return found


def points(steps: int) -> tuple[int, ...]:
    """Updates after which to measure."""
    return tuple(math.ceil(fraction * steps) for fraction in POINTS)


class Arm:
    """One way to prune at one sparsity, its runs stacked and cut to the largest of them.

    Attributes:
      network: of the cut arrays.
      problem: its loss and rows.
      params, masks: leaves [runs, …] at initialisation.
      plans: what compaction did to each run; empty where nothing was pruned.
      kept: weights kept, of the run that keeps most.
    """

    def __init__(self, dense: ConvolutionalNetwork, problem: Problem, name: str, sparsity: float, seeds: int, prune_rows: int):
        keys = [jax.random.key(seed) for seed in range(seeds)]
        params = [dense.parameters(jax.random.fold_in(key, 0)) for key in keys]
        shapes, total = kernel_shapes(params[0]), prunable_size(params[0])
        self.network, self.plans = dense, []
        if name == SMALL:
            self.network = dense.with_widths(fitting_widths(shapes, dense.groups(), jp.kept_count(sparsity, total)))
            params = [self.network.parameters(jax.random.fold_in(key, 0)) for key in keys]
        masks = [dense_masks(one) for one in params]
        if how := ARMS.get(name):
            masks = [self._pruned(dense, problem, one, key, sparsity, how, prune_rows) for one, key in zip(params, keys, strict=True)]
        # Kept weights, before the compaction drops those that no live path crosses.
        self.kept = max(sum(int(np.asarray(tree_leaf).sum()) for tree_leaf in _kernels(mask)) for mask in masks)
        if how:
            groups = dense.groups()
            needed = [jp.compact_tree(one, mask, groups)[2].widths for one, mask in zip(params, masks, strict=True)]
            widths = {group: max(each[group] for each in needed) for group in needed[0]}
            cut = [jp.compact_tree(one, mask, groups, widths=widths) for one, mask in zip(params, masks, strict=True)]
            params, masks, self.plans = map(list, zip(*cut, strict=True))
            self.network = dense.with_widths(widths)
        self.problem = problem.replace(objective=convolutional_objective(self.network))
        self.params, self.masks = stacked(params), stacked(masks)
        self.keys = jnp.stack([jax.random.fold_in(key, 2) for key in keys])
        self.arrays = prunable_size(params[0])

    @staticmethod
    def _pruned(network, problem, params, key, sparsity, how, prune_rows) -> Any:
        prune_key = jax.random.fold_in(key, 1)
        rows = problem.draw(prune_key, prune_rows)
        if "weights" in how:
            return jp.prune(problem.objective, params, rows, prune_key, criterion=how["weights"], sparsity=sparsity)
        return jp.prune_units(problem.objective, params, network.groups(), rows, prune_key, criterion=how["units"], sparsity=sparsity)

    def train(self, lengths: tuple[int, ...]) -> tuple[Any, dict[str, jax.Array]]:
        """`fit`, waited for."""
        return jax.block_until_ready(fit(self.problem, self.params, self.masks, self.keys, lengths))

    def differences(self, dense: ConvolutionalNetwork, trained: Any) -> list[float]:
        """For each run the largest difference between the logits of its compacted and its masked form, over the largest logit."""
        rows, found = self.problem.held_out, []
        masks = unstacked(self.masks)
        with jax.default_matmul_precision("highest"):
            for params, mask, plan in zip(unstacked(trained), masks, self.plans, strict=False):
                full = expand_tree(params, mask, plan)[0]
                expected = np.asarray(_logits(convolutional_objective(dense), full, rows))
                got = np.asarray(_logits(self.problem.objective, params, rows))
                found.append(float(np.abs(got - expected).max() / np.abs(expected).max()))
        return found

    def shapes(self) -> str:
        """As in `16-32-64-64`."""
        return "-".join(str(size) for size in (*self.network.channels, self.network.width))

    def seconds_an_update(self) -> float:
        """Of one run, compilation and measurements left out: the difference of two lengths."""
        took = []
        for between in (SHORT, LONG):
            began = time.perf_counter()
            self.train(tuple(between * (i + 1) for i in range(len(POINTS))))
            took.append(time.perf_counter() - began)
        return (took[1] - took[0]) / ((LONG - SHORT) * len(POINTS) * self.keys.shape[0])


@jax.jit
def _logits(objective: jp.Objective, params: Any, rows: Any) -> jax.Array:
    return objective.outputs(params, rows)


def _kernels(masks: Any) -> list[Any]:
    return [leaf for path, leaf in jax.tree_util.tree_leaves_with_path(masks) if jp.is_kernel(path, leaf)]


def run_arm(arm: Arm, dense: ConvolutionalNetwork, name: str, sparsity: float, steps: int) -> Rows:
    """Train an arm's runs; a row for each."""
    trained, curve = arm.train(points(steps))
    errors, losses = np.asarray(curve["error"]), np.asarray(curve["held_out_loss"])
    differences = arm.differences(dense, trained)
    shared = {"arm": name, "sparsity": sparsity, "kept": arm.kept, "arrays": arm.arrays, "shapes": arm.shapes()}
    return [
        {
            **shared,
            "seed": seed,
            "accuracy": 1 - float(errors[seed, -1]),
            "curve": [1 - float(error) for error in errors[seed]],
            "held_out_loss": float(losses[seed, -1]),
            "difference": differences[seed] if differences else None,
        }
        for seed in range(len(errors))
    ]


def time_in_turns(cases: dict[str, Arm], rounds: int) -> Rows:
    """Milliseconds of an update of every case in every round; all cases take turns, so that a drift of the machine meets all alike."""
    found: dict[str, list[float]] = {case: [] for case in cases}
    for arm in cases.values():
        arm.seconds_an_update()
    for _ in range(rounds):
        for case, arm in cases.items():
            found[case].append(1e3 * arm.seconds_an_update())
    return [{"case": case, "ms": values} for case, values in found.items()]


def estimate(dense: Arm, make_another: Callable[[], Arm], arms: int, steps: int) -> tuple[float, float]:
    """Seconds of an update and of all arms, from making one, compiling its updates and timing them."""
    began = time.perf_counter()
    make_another()
    made = time.perf_counter()
    dense.seconds_an_update()
    compiled = time.perf_counter()
    update = dense.seconds_an_update()
    timing = time.perf_counter() - compiled
    compiling = compiled - made - timing
    each = made - began + compiling + dense.keys.shape[0] * steps * update + (1 + ROUNDS.value) * timing
    return update, arms * each


def notes(dense: ConvolutionalNetwork, weights: int, steps: int, seeds: int) -> list[str]:
    """What the columns are."""
    brackets = "the 95 % bootstrap interval of the mean" if seeds >= 5 else "the range"
    sentences = (
        "scikit-learn's digits: 1,200 images of 8 × 8 to train on, 597 held out.",
        f"Three 3 × 3 convolutions ({'-'.join(map(str, dense.channels))} channels, the last two of stride 2), the image flattened,",
        f"{dense.width} units, ten outputs; ReLU, {weights:,} weights.",
        f"Pruned before training on {PRUNE_ROWS.value:,} rows, then {steps:,} updates of Adam ({LEARNING_RATE.value:g}) on",
        f"{BATCH_SIZE.value} rows. Accuracy: mean over {claims.counted(seeds, 'seed')}, in brackets {brackets}.",
        "Arms of channels keep as many channels and hidden units as the weights of the sparsity pay for;",
        "the small dense network is drawn anew at that size. Arrays are cut to the largest of the seeds.",
        f"Milliseconds: the median of {ROUNDS.value} rounds in which all arms take turns, compilation left out;",
        "times as fast: the median over rounds. Masked − compacted: the largest difference between the logits of the trained network",
        "in cut arrays and in full arrays under masks, over the largest logit.",
    )
    scope = "Language models are out of jaxprune's scope: groups of units are declared for perceptrons and convolutions, not for attention."
    return [" ".join(sentences), "", scope]


def main():
    dense, steps, seeds = chosen()
    at, output, digits = tuple(sparsities()), pathlib.Path(OUTPUT.value), load_digits()
    problem = Problem(
        convolutional_objective(dense),
        jax.device_put(digits.train),
        jax.device_put(digits.train),
        jax.device_put(digits.held_out),
        optax.adam(LEARNING_RATE.value),
        BATCH_SIZE.value,
        wrong,
    )
    settings = {
        "network": [*dense.channels, dense.width],
        "steps": steps,
        "seeds": seeds,
        "sparsities": at,
        "learning_rate": LEARNING_RATE.value,
    }
    settings |= {"batch_size": BATCH_SIZE.value, "prune_rows": PRUNE_ROWS.value, "rounds": ROUNDS.value}
    kept = KeptRows(pathlib.Path(WORK.value) / "rows.jsonl", settings)
    cases = [(DENSE, 0.0), *((name, sparsity) for sparsity in at for name in ARMS)]

    def make(name: str, sparsity: float) -> Arm:
        return Arm(dense, problem, name, sparsity, seeds, PRUNE_ROWS.value)

    began = time.time()
    first = make(*cases[0])
    update, seconds = estimate(first, lambda: make(*cases[1]), len(cases), steps)
    print(
        f"{len(cases)} arms of {seeds} seeds, {steps:,} updates of {1e3 * update:.1f} ms: about {naming.duration(seconds)} if pruned "
        "updates took as long as dense ones",
        flush=True,
    )
    rows, arms = [], {}
    for name, sparsity in tqdm(cases, disable=None):
        case = case_name(name, sparsity)
        if case not in kept.rows or "times" not in kept.rows:
            arms[case] = make(name, sparsity)
        if case not in kept.rows:
            kept.add(case, run_arm(arms[case], dense, name, sparsity, steps))
        rows += kept.rows[case]
    if "times" not in kept.rows:
        kept.add("times", time_in_turns(arms, ROUNDS.value))
    times = {row["case"]: row["ms"] for row in kept.rows["times"]}

    output.mkdir(parents=True, exist_ok=True)
    figure(rows, times, at, output / "convolutions.png")
    after = [
        "What our runs say:",
        "",
        *claims.bullets(verdicts(rows, times, at)),
        "",
        f"{claims.RULE} Here a level of sparsity is a task.",
        "",
        *notes(dense, prunable_size(first.params) // seeds, steps, seeds),
        "",
        made_by(command_line(), time.time() - began),
    ]
    title = "# Beyond perceptrons: a convolutional network pruned before training"
    write_results(output, COLUMNS, summary(rows, times), [title, "", "![Accuracy against sparsity and time](convolutions.png)"], after)


if __name__ == "__main__":
    launch(main)
