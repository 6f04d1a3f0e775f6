"""The flags that `train.py` and `sweep.py` share, and the config they make."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

from absl import flags

import jaxprune as jp
from jaxprune import SweepConfig
from jaxprune.training import hosts

DATASET = flags.DEFINE_string(
    "dataset", "jaxprune/hopper/medium-v0", "A built-in such as jaxprune/hopper/medium-v0, a Minari id, or the path of a D4RL HDF5 file."
)
ENV_ID = flags.DEFINE_string("env_id", None, "Gymnasium environment to evaluate in; the data set's own by default.")
STEPS = flags.DEFINE_integer("steps", 20_000, "Updates.")
EVAL_EVERY = flags.DEFINE_integer("eval_every", 5_000, "Updates between evaluations.")
EPISODES = flags.DEFINE_integer("episodes", 10, "Episodes of an evaluation.")
BATCH_SIZE = flags.DEFINE_integer("batch_size", None, "Rows an update; the algorithm's own by default.")
PRUNE_ROWS = flags.DEFINE_integer("prune_rows", 1024, "Rows that the criterion scores on.")
NETWORKS = flags.DEFINE_list("networks", None, "Networks to prune, for example actor,critic; all by default.")
ROUNDS = flags.DEFINE_integer("rounds", 1, "Pruning rounds, each scoring the masked network again.")
SCHEDULE = flags.DEFINE_string("schedule", "exponential", "How much each round prunes: exponential, linear or cubic.")
ALLOCATION = flags.DEFINE_string("allocation", "global", "How a budget is divided between layers: global, uniform or erk.")
FLOOR = flags.DEFINE_integer("floor", 0, "At least this many weights in every layer.")
BUDGET = flags.DEFINE_string("budget", "mlp", "What is ranked together: mlp, network or pooled.")
STRUCTURE = flags.DEFINE_string("structure", "weights", "What is removed: weights, units or hybrid (units first, then weights inside).")
UNIT_CRITERION = flags.DEFINE_string("unit_criterion", "crop", "Of hybrid: how units are ranked, crop, snap, l1 or random.")
TARGET = flags.DEFINE_string("target", "params", "What a sparsity is a fraction of, with units: params or units.")
INNER_DENSITY = flags.DEFINE_float("inner_density", 0.25, "Of hybrid: the fraction of the live arrays that the kept weights fill.")
LAMBDA = flags.DEFINE_float("lambda", 0.0, "Step-size penalty of lm, obd and qm.")
CURVATURE = flags.DEFINE_string("curvature", "auto", "Of obd and qm: ggn, fisher, hutchinson, or auto (ggn where the loss is convex).")
WHEN = flags.DEFINE_string("when", "init", "When criteria prune: init, early (EarlyCroP's detector decides) or step:N.")
CHECK_EVERY = flags.DEFINE_integer("check_every", 1000, "Of early: updates between two checks.")
THRESHOLD = flags.DEFINE_string("threshold", "code", "Of early: code (the authors' code) or paper.")
REFERENCE = flags.DEFINE_string("reference", "first", "Of early: movement is from the first check (first) or from before training (init).")
CAP = flags.DEFINE_integer("cap", None, "Of early: prune after so many updates in any case; half of the steps by default.")
SCOPE = flags.DEFINE_string("scope", "together", "Of early: one detector for all pruned networks (together), or each its own (network).")
TOTAL = flags.DEFINE_string("total", "same", "With a later pruning: --steps in all (same), or after pruning (full-after).")
RESTART_OPTIMIZER = flags.DEFINE_bool("restart_optimizer", False, "With a later pruning: start with fresh moments, not the cut ones.")
COMPACT = flags.DEFINE_bool("compact", True, "Train in arrays without dead units.")
NORMALIZE = flags.DEFINE_bool("normalize", True, "Standardise observations with the data's statistics.")
INIT = flags.DEFINE_string("init", "uniform", "Initialisation: uniform, lecun_normal or reference.")
LEARNING_RATE = flags.DEFINE_float("learning_rate", None, "Adam's; the algorithm's own by default.")
CLIP_ACTIONS = flags.DEFINE_bool("clip_actions", False, "Clip logged actions to the environment's bounds.")
MAX_EPISODE_STEPS = flags.DEFINE_integer(
    "max_episode_steps", None, "Time limit of a file that holds neither timeouts nor next_observations."
)
STRATEGY = flags.DEFINE_string("strategy", "auto", "How a stack of runs is stepped: vectorized, sequential, sharded or auto.")
MAX_STACK = flags.DEFINE_integer("max_stack", None, "At most this many runs in one stack; as many as fit the device by default.")
CHECKPOINT_EVERY = flags.DEFINE_integer("checkpoint_every", 1, "Evaluations between two checkpoints to resume from.")
BACKEND = flags.DEFINE_string("backend", "auto", "Environment stepping: envpool, gymnasium or auto.")
EVALUATE = flags.DEFINE_bool("evaluate", True, "Run episodes in the environment.")
OVERLAP = flags.DEFINE_bool("overlap", None, "Evaluate while the next updates are made; by default on accelerators only.")
OUTPUT = flags.DEFINE_string("output", None, "Folder to write.", required=True)
TENSORBOARD = flags.DEFINE_bool("tensorboard", False, "Write TensorBoard event files too, one a run.")
WANDB = flags.DEFINE_string("wandb", None, "Log to this project of Weights & Biases too.")
DISTRIBUTED = flags.DEFINE_bool(
    "distributed", False, "Join the other processes of a SLURM job or TPU pod; each takes its share of the runs."
)
COORDINATOR = flags.DEFINE_string("coordinator", None, "host:port of the first of several processes, where no cluster tells it.")
PROCESSES = flags.DEFINE_integer("processes", None, "With --coordinator: how many there are.")
PROCESS = flags.DEFINE_integer("process", None, "With --coordinator: which one this is, from 0.")
CONFIG = flags.DEFINE_string("config", None, "A config.json to start from; flags given beside it take the place of its values.")
RESUME = flags.DEFINE_bool("resume", False, "Go on with the same sweep in the folder, if there is one.")
OVERWRITE = flags.DEFINE_bool("overwrite", False, "Replace what an earlier run left in the folder.")


def numbers(name: str, texts: list[str], kind: type) -> tuple:
    """A list flag as numbers, or a ValueError that names the flag."""
    try:
        return tuple(kind(text) for text in texts)
    except ValueError:
        raise ValueError(f"--{name}={','.join(texts)}: expected {kind.__name__} numbers separated by commas") from None


def run_sweep(
    config: SweepConfig, command: str, *, output: str | os.PathLike | None = None, dataset: jp.data.Dataset | None = None
) -> list[dict]:
    """The sweep, with the flags that say where it goes (unless `output` does) and what it is told to."""
    return jp.sweep(
        config,
        OUTPUT.value if output is None else output,
        dataset=dataset,
        overwrite=OVERWRITE.value,
        resume=RESUME.value,
        command=command,
        tensorboard=TENSORBOARD.value,
        wandb=WANDB.value,
    )


def join_processes() -> None:
    """Join the other processes where flags ask for it; before anything else of JAX."""
    if DISTRIBUTED.value or COORDINATOR.value or PROCESSES.value is not None or PROCESS.value is not None:
        hosts.connect(COORDINATOR.value, PROCESSES.value, PROCESS.value)


def sweep_config(**more) -> SweepConfig:
    """The flags as a config; with --config, that of the file with the flags that were given in place of its values."""
    shared = (
        *(DATASET, ENV_ID, STEPS, EVAL_EVERY, EPISODES, BATCH_SIZE, PRUNE_ROWS, NETWORKS, ROUNDS, SCHEDULE, ALLOCATION, FLOOR, BUDGET),
        *(STRUCTURE, UNIT_CRITERION, TARGET, INNER_DENSITY, CURVATURE, WHEN, CHECK_EVERY, THRESHOLD, REFERENCE, CAP, SCOPE, TOTAL),
        *(RESTART_OPTIMIZER, COMPACT, CLIP_ACTIONS, MAX_EPISODE_STEPS, STRATEGY, MAX_STACK, CHECKPOINT_EVERY, BACKEND, EVALUATE, OVERLAP),
    )
    values: dict[str, Any] = {flag.name: flag.value for flag in shared} | {"lambda_": LAMBDA.value} | more
    settings = {flag.name: flag.value for flag in (NORMALIZE, INIT, LEARNING_RATE) if flag.value is not None}
    if CONFIG.value is None:
        return SweepConfig(**values, settings=settings)
    file = read_config(CONFIG.value)
    given = {FIELDS.get(name, name) for name in flags.FLAGS if flags.FLAGS[name].present}
    known = {name: value for name, value in values.items() if name in given}
    inner = {name: value for name, value in settings.items() if name in given}
    try:
        return SweepConfig.from_json({**file, **known, "settings": {**(file.get("settings") or {}), **inner}})
    except ValueError as error:
        raise ValueError(f"--config={CONFIG.value}: {error}") from error


# Flags whose name is not that of what they set.
FIELDS = {"algo": "algos", "criterion": "criteria", "sparsity": "sparsities", "seed": "seeds", "lambda": "lambda_"}


def read_config(path: str) -> dict:
    """A config.json, of an earlier sweep or written by hand."""
    try:
        values = json.loads(pathlib.Path(path).read_text())
    except ValueError as error:  # no JSON, or no UTF-8
        raise ValueError(f"--config={path}: expected JSON, {error}") from None
    if not isinstance(values, dict) or "dataset" not in values:
        raise ValueError(f"--config={path}: expected the settings of a sweep, with at least a dataset; OUTPUT/config.json is one")
    return values
