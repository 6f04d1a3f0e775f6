"""A grid of runs: pruned, trained in stacks, evaluated together, recorded as they go."""

from __future__ import annotations

import dataclasses
import logging
import os
import platform
import time
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxprune.agents.registry import make
from jaxprune.agents.scoring import chosen_networks
from jaxprune.data.reference import normalized_score
from jaxprune.data.transitions import Dataset, Transitions
from jaxprune.environments import check_environment
from jaxprune.training.arms import split
from jaxprune.training.checkpoint import save_run
from jaxprune.training.evaluation import evaluate_stack
from jaxprune.training.grid import Run, SweepConfig, expand
from jaxprune.training.loop import advance_in_pieces
from jaxprune.training.progress import progress_bar
from jaxprune.training.records import OutputFolder
from jaxprune.training.stacks import Stack, executed_weights, grouped, stack
from jaxprune.training.start import RunKeys, Start, curvature_of, start_run

log = logging.getLogger("jaxprune")


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
        dataset = load(config.dataset, env_id=config.env_id, clip_actions=config.clip_actions, max_episode_steps=config.max_episode_steps)
    env_id = config.env_id or dataset.env_id
    if config.evaluate and env_id is None:
        raise ValueError(f"{config.dataset} does not say which environment it is from; pass env_id, for example --env_id=Hopper-v5")
    if config.evaluate and env_id is not None:
        check_environment(env_id)
    agents = {algo: make(algo, dataset.spec, **config.settings) for algo in config.algos}
    runs = expand(config)
    for run in runs:
        curvature_of(agents[run.algo], split(run.criterion)[0], config)
    for agent in agents.values():
        chosen_networks(agent, config.networks)
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
        failures: dict[Run, ValueError] = {}
        starts = _started(agents, runs, config, dataset, transitions, failures)
        try:
            for group in grouped(starts, most=config.max_stack, merge=config.compact):
                layers += [row for start in group for row in _layer_rows(start)]
                for rows in run_stack(stack(group), config, dataset, transitions, env_id, folder, bar):
                    folder.append(rows)
                    records += rows
            if not records and failures:
                raise next(iter(failures.values()))
        except (ValueError, ImportError):
            if not records:
                folder.clear()
            raise
    failed = [_failed_row(run, error, config, env_id) for run, error in failures.items()]
    folder.append(failed)
    records += failed
    folder.write_csv(records)
    write_report(folder.path / "report.html", records, described, layers=layers)
    return records


def _started(agents, runs, config, dataset, transitions, failures: dict[Run, ValueError]) -> Iterable[Start]:
    """The runs, ready to be trained; one that cannot be pruned is put among the failures and the others go on."""
    for run in runs:
        try:
            yield start_run(agents[run.algo], run, config, dataset, transitions)
        except ValueError as error:
            failures[run] = error
            log.warning("%s: failed: %s", run.id, error)


def _failed_row(run: Run, error: ValueError, config: SweepConfig, env_id: str | None) -> dict[str, Any]:
    shared = {"dataset": config.dataset, "env_id": env_id, "structure": config.structure, "when": "init", "step": 0}
    return {
        "run_id": run.id,
        **dataclasses.asdict(run),
        **shared,
        "return_mean": None,
        "score": None,
        "status": "failed",
        "reason": str(error),
    }


def run_stack(
    stack: Stack, config: SweepConfig, dataset: Dataset, transitions: Transitions, env_id: str | None, folder: OutputFolder, bar: Any
) -> Iterable[list[dict[str, Any]]]:
    """Train and evaluate one stack; yields the records of every evaluation and saves every run at the end."""
    agent, state, runs = stack.agent, stack.state, [start.run for start in stack.starts]
    keys = jnp.stack([RunKeys.of(run.seed).train for run in runs])
    strategy = config.strategy
    if strategy == "auto":
        strategy = "sequential" if jax.default_backend() == "cpu" else "vectorized"
    batch_size = config.batch_size or agent.config.batch_size
    step, trained, evaluated = int(stack.starts[0].state.step), 0.0, 0.0
    bar.update(step * len(runs))
    while step < config.steps:
        now = min(config.eval_every - step % config.eval_every, config.steps - step)
        start = time.perf_counter()
        state, metrics = advance_in_pieces(
            agent,
            state,
            keys,
            transitions,
            now,
            batch_size=batch_size,
            phase=step % agent.period,
            stacked=strategy,
            report=lambda updates: bar.update(updates * len(runs)),
        )
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
        yield [
            {
                "run_id": run.id,
                **dataclasses.asdict(run),
                "dataset": config.dataset,
                "env_id": env_id,
                "structure": config.structure,
                "when": "init",
                "kept": started.info.kept,
                "total": started.info.total,
                "executed": executed_weights(agent),
                "step": step,
                "return_mean": _number(returns[i].mean()),
                "return_std": _number(returns[i].std()),
                "episodes": config.episodes,
                "score": _number(normalized_score(dataset.reference, returns[i].mean())),
                "start_s": round(started.seconds, 3),
                "wall_s": round(trained, 3),
                "eval_s": round(evaluated, 3),
                "stack": len(runs),
                "status": "ok" if finite[i] else "failed",
                **{name: _number(values[i]) for name, values in metrics.items()},
            }
            for i, (run, started) in enumerate(zip(runs, stack.starts, strict=True))
        ]
        for run in (run for run, good in zip(runs, finite, strict=True) if not good):
            log.warning("%s: parameters are NaN or infinite at update %d; the run is marked failed", run.id, step)
    for i, started in enumerate(stack.starts):
        single = jax.tree.map(lambda leaf, i=i: leaf[i], state)
        description = {**dataclasses.asdict(started.run), "env_id": env_id, "step": step, "layers": started.info.layers}
        if started.curvature:
            description["curvature"] = started.curvature
        save_run(folder.path / "runs" / started.run.id, agent, single, description)


def _layer_rows(start: Start) -> list[dict[str, Any]]:
    run = dataclasses.asdict(start.run)
    return [{**run, "layer": name, "kept": kept, "total": total} for name, (kept, total) in start.info.layers.items()]


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
