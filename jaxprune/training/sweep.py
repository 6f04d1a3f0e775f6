"""A grid of runs: pruned at initialisation, trained in stacks, evaluated together, recorded as they go."""

from __future__ import annotations

import dataclasses
import logging
import math
import os
import platform
import time
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxprune.agents.base import Agent, AgentState
from jaxprune.agents.registry import make
from jaxprune.agents.sparse import PruneInfo, describe_masks, prune_agent
from jaxprune.data.reference import normalized_score
from jaxprune.data.transitions import Dataset, Transitions
from jaxprune.training.checkpoint import save_run
from jaxprune.training.evaluation import evaluate_stack
from jaxprune.training.grid import DENSE, Run, SweepConfig, expand
from jaxprune.training.loop import advance, sample
from jaxprune.training.progress import progress_bar
from jaxprune.training.records import OutputFolder

log = logging.getLogger("jaxprune")


@dataclasses.dataclass(frozen=True)
class RunKeys:
    """The independent keys of one run, all from its seed."""

    init: jax.Array
    train: jax.Array
    prune: jax.Array

    @staticmethod
    def of(seed: int) -> RunKeys:
        """Keys by name."""
        key = jax.random.key(seed)
        return RunKeys(*(jax.random.fold_in(key, i) for i in range(3)))


def start_run(agent: Agent, run: Run, config: SweepConfig, dataset: Dataset, transitions: Transitions) -> tuple[AgentState, PruneInfo]:
    """A run's state before its first update: initialised, and pruned unless it is dense."""
    keys = RunKeys.of(run.seed)
    state = agent.init(keys.init, dataset.statistics)
    if run.criterion == DENSE:
        return state, describe_masks(state.masks)

    def fresh(i: int) -> Transitions:
        return sample(transitions, jax.random.fold_in(jax.random.fold_in(keys.prune, 0), i), config.prune_rows)

    state, info = prune_agent(
        agent,
        state,
        fresh,
        jax.random.fold_in(keys.prune, 1),
        criterion=run.criterion,
        sparsity=run.sparsity,
        networks=config.networks,
        rounds=config.rounds,
        schedule=config.schedule,
        allocation=config.allocation,
        budget=config.budget,
        floor=config.floor,
    )
    if run.seed == config.seeds[0]:
        log.info("%s %s %g: %s", run.algo, run.criterion, run.sparsity, info)
    for layer in info.empty:
        log.warning("%s: %s keeps no weight: nothing passes this layer; use a lower sparsity or floor=1", run.id, layer)
    return state, info


def sweep(
    config: SweepConfig,
    output_dir: str | os.PathLike,
    *,
    dataset: Dataset | None = None,
    overwrite: bool = False,
    progress: bool = True,
    command: str = "",
) -> list[dict[str, Any]]:
    """Run a grid and write OUT/{config.json, records.jsonl, records.csv, report.html, runs/<id>/…}.

    Args:
      config: the grid.
      output_dir: a new or empty folder.
      dataset: already loaded, in place of `config.dataset`.
      overwrite: replace what an earlier sweep left in the folder.
      progress: show a bar where standard error is a terminal.
      command: shown in the report.

    Returns:
      One record per run and evaluation.

    Raises:
      ValueError: the folder is in use, the data do not fit, or no environment is known; before anything is written.
    """
    from jaxprune.data import load
    from jaxprune.reporting import write_report

    if dataset is None:
        dataset = load(config.dataset, env_id=config.env_id, clip_actions=config.clip_actions)
    env_id = config.env_id or dataset.env_id
    if config.evaluate and env_id is None:
        raise ValueError(f"{config.dataset} does not say which environment it is from; pass env_id, for example --env_id=Hopper-v5")
    agents = {algo: make(algo, dataset.spec, **config.settings) for algo in config.algos}
    runs = expand(config)
    folder = OutputFolder(output_dir, overwrite=overwrite)
    behaviour = float(dataset.report.return_statistics["mean"])
    described = {
        **dataclasses.asdict(config),
        "env_id": env_id,
        "command": command,
        "versions": versions(),
        "behaviour_return": behaviour,
        "behaviour_score": _number(normalized_score(dataset.reference, behaviour)),
    }
    folder.write_config(described)

    transitions = jax.device_put(dataset.transitions)
    records: list[dict[str, Any]] = []
    layers: list[dict[str, Any]] = []
    with progress_bar(config.steps * len(runs), "sweep", unit="update", disable=not progress) as bar:
        for stack in stacks(runs, config.max_stack):
            for rows in run_stack(agents[stack[0].algo], stack, config, dataset, transitions, env_id, folder, layers, bar):
                folder.append(rows)
                records += rows
    folder.write_csv(records)
    write_report(folder.path / "report.html", records, described, layers=layers)
    return records


def stacks(runs: list[Run], most: int) -> Iterable[list[Run]]:
    """Runs that share one program: of one algorithm, at most `most` at a time."""
    for algo in dict.fromkeys(run.algo for run in runs):
        own = [run for run in runs if run.algo == algo]
        count = math.ceil(len(own) / most)
        size = math.ceil(len(own) / count)
        yield from (own[start : start + size] for start in range(0, len(own), size))


def run_stack(
    agent: Agent,
    runs: list[Run],
    config: SweepConfig,
    dataset: Dataset,
    transitions: Transitions,
    env_id: str | None,
    folder: OutputFolder,
    layers: list[dict[str, Any]],
    bar: Any,
) -> Iterable[list[dict[str, Any]]]:
    """Prune, train and evaluate one stack; yields the records of every evaluation and saves every run at the end.

    `layers` grows by a row per run and layer: what the layer keeps.
    """
    started = [start_run(agent, run, config, dataset, transitions) for run in runs]
    infos = [info for _, info in started]
    for run, info in zip(runs, infos, strict=True):
        layers += [{**dataclasses.asdict(run), "layer": name, "kept": kept, "total": total} for name, (kept, total) in info.layers.items()]
    state = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(state for state, _ in started))
    del started
    keys = jnp.stack([RunKeys.of(run.seed).train for run in runs])
    strategy = config.strategy
    if strategy == "auto":
        strategy = "sequential" if jax.default_backend() == "cpu" else "vectorized"
    batch_size = config.batch_size or agent.config.batch_size
    step, trained, evaluated = 0, 0.0, 0.0
    while step < config.steps:
        now = min(config.eval_every, config.steps - step)
        start = time.perf_counter()
        state, metrics = _in_pieces(agent, state, keys, transitions, now, step, batch_size, strategy, len(runs), bar)
        trained += time.perf_counter() - start
        step += now
        start = time.perf_counter()
        returns = np.full((len(runs), config.episodes), np.nan)
        if config.evaluate and env_id is not None:
            seeds = [(run.seed, step) for run in runs]
            returns = evaluate_stack(agent, agent.policy(state), env_id, episodes=config.episodes, seeds=seeds, backend=config.backend)
        evaluated += time.perf_counter() - start
        finite = np.asarray(jax.vmap(_all_finite)(state.params))
        metrics = {name: np.asarray(values) for name, values in metrics.items()}
        rows = []
        for i, (run, info) in enumerate(zip(runs, infos, strict=True)):
            rows.append(
                {
                    "run_id": run.id,
                    **dataclasses.asdict(run),
                    "dataset": config.dataset,
                    "env_id": env_id,
                    "structure": "weights",
                    "when": "init",
                    "kept": info.kept,
                    "total": info.total,
                    "step": step,
                    "return_mean": _number(returns[i].mean()),
                    "return_std": _number(returns[i].std()),
                    "episodes": config.episodes,
                    "score": _number(normalized_score(dataset.reference, returns[i].mean())),
                    "wall_s": round(trained, 3),
                    "eval_s": round(evaluated, 3),
                    "stack": len(runs),
                    "status": "ok" if finite[i] else "failed",
                    **{name: _number(values[i]) for name, values in metrics.items()},
                }
            )
            if not finite[i]:
                log.warning("%s: parameters are NaN or infinite at update %d; the run is marked failed", run.id, step)
        yield rows
    for i, (run, info) in enumerate(zip(runs, infos, strict=True)):
        single = jax.tree.map(lambda leaf, i=i: leaf[i], state)
        description = {**dataclasses.asdict(run), "env_id": env_id, "step": step, "layers": info.layers}
        save_run(folder.path / "runs" / run.id, agent, single, description)


def _in_pieces(agent, state, keys, transitions, steps, step, batch_size, strategy, runs, bar):
    """`steps` updates in pieces of about 1,000, so that the bar moves; the metrics are their mean."""
    piece = max(1, 1000 // agent.period) * agent.period
    totals: dict[str, Any] = {}
    for start in range(0, steps, piece):
        now = min(piece, steps - start)
        phase = (step + start) % agent.period
        state, metrics = advance(agent, state, keys, transitions, now, batch_size=batch_size, phase=phase, stacked=strategy)
        totals = {name: totals.get(name, 0) + value * (now / steps) for name, value in metrics.items()}
        jax.block_until_ready(state.step)
        bar.update(now * runs)
    return state, totals


def _all_finite(params: Any) -> jax.Array:
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(params)]).all()


def _number(value: Any) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)


def versions() -> dict[str, str]:
    """What a figure depends on: package versions and hardware."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ("jaxprune", "jax", "flax", "optax", "numpy", "gymnasium", "envpool", "mujoco"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    device = jax.devices()[0]
    return {
        **found,
        "python": platform.python_version(),
        "device": f"{len(jax.devices())} × {device.device_kind}",
        "cores": str(os.cpu_count()),
    }
