"""A grid of runs: pruned, trained in stacks, evaluated together, recorded as they go."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import platform
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from jaxprune.agents.base import Agent
from jaxprune.agents.registry import make
from jaxprune.agents.scoring import chosen_networks
from jaxprune.data.reference import normalized_score
from jaxprune.data.transitions import Dataset
from jaxprune.environments import check_environment
from jaxprune.training import hosts
from jaxprune.training.arms import split
from jaxprune.training.grid import Run, SweepConfig, expand
from jaxprune.training.journal import Carry, Journal
from jaxprune.training.later import DenseTrunk
from jaxprune.training.logs import Log, TensorBoard, WeightsAndBiases, require_packages
from jaxprune.training.progress import progress_bar
from jaxprune.training.records import OutputFolder, read_records
from jaxprune.training.session import Session, number
from jaxprune.training.stack_run import run_stack
from jaxprune.training.stacks import executed_weights, grouped, stack
from jaxprune.training.start import Rankings, Start, curvature_of, is_pruned_later, start_run
from jaxprune.training.stopping import Stopped, StopRequest, listening

log = logging.getLogger("jaxprune")

# May differ between a sweep and its resumption.
_FREE = ("command", "versions", "checkpoint_every", "overlap")


def sweep(
    config: SweepConfig,
    output_dir: str | os.PathLike,
    *,
    dataset: Dataset | None = None,
    overwrite: bool = False,
    resume: bool = False,
    progress: bool = True,
    command: str = "",
    tensorboard: bool = False,
    wandb: str | None = None,
) -> list[dict[str, Any]]:
    """Run a grid and write OUT/{config.json, records.jsonl, records.csv, report.html, runs/<id>/…}.

    Where JAX knows of several processes (`jaxprune.training.hosts.connect`), each takes its share of the runs, and the first one writes
    the merged records and the report; `output_dir` is then to be on a disk that all of them see.

    Args:
      config: the grid.
      output_dir: a new or empty folder.
      dataset: already loaded, in place of `config.dataset`.
      overwrite: replace what an earlier sweep left in the folder.
      resume: go on with the sweep of the same config that is in the folder, to the same bits as if it had never stopped; begin it where
        there is none.
      progress: show a bar where standard error is a terminal.
      command: shown in the report.
      tensorboard: write OUT/tensorboard too, an event file a run.
      wandb: a project of Weights & Biases to log to as well.

    Returns:
      One record per run and evaluation, those of all processes.

    Raises:
      ValueError: the folder is in use, the data do not fit, or no environment is known, before anything is written; or the sweep to
        resume was of another config.
      ImportError: a log's package is absent.
      Stopped: a signal asked for it; everything up to now is safe, and the report is of what there is.
      OSError: the disk is full or gone; what was safe before still is.
    """
    from jaxprune.data import load

    if dataset is None:
        dataset = load(config.dataset, env_id=config.env_id, clip_actions=config.clip_actions, max_episode_steps=config.max_episode_steps)
    env_id = config.env_id or dataset.env_id
    if config.evaluate and env_id is None:
        raise ValueError(f"{config.dataset} does not say which environment it is from; pass env_id, for example --env_id=Hopper-v5")
    if config.evaluate and env_id is not None:
        check_environment(env_id, backend=config.backend, spec=dataset.spec)
    agents = {algo: make(algo, dataset.spec, **config.settings) for algo in config.algos}
    runs = expand(config)
    for run in runs:
        curvature_of(agents[run.algo], split(run.criterion)[0], config)
    longest = max(config.steps, config.when_rule.end(config.when_rule.latest(config.steps), config.steps))
    for agent in agents.values():
        chosen_networks(agent, config.networks)
        if (scheduled := getattr(agent.config, "max_steps", longest)) < longest:
            raise ValueError(
                f"{agent.name}: its learning rate is 0 after max_steps={scheduled:,} updates, but runs of this sweep make up to "
                f"{longest:,}; set max_steps to that"
            )
    described = _described(config, dataset, env_id, command)
    require_packages(tensorboard=tensorboard, wandb=wandb)
    folder = _open_folder(output_dir, described, overwrite=overwrite, resume=resume)
    try:
        logs: list[Log] = [TensorBoard(folder.path)] if tensorboard else []
        logs += [WeightsAndBiases(wandb, folder.path)] if wandb else []
        session = Session(config, dataset, jax.device_put(dataset.transitions), env_id, tuple(logs))
        return _trained_and_reported(agents, runs, session, folder, described, progress=progress)
    finally:
        folder.close()


def _trained_and_reported(
    agents: dict[str, Agent], runs: list[Run], session: Session, folder: OutputFolder, described: dict[str, Any], *, progress: bool
) -> list[dict[str, Any]]:
    """The records of all processes, once each has made its share of the runs and the first one has written the report."""
    problem: Exception | None = None
    with listening() as stop:
        try:
            problem = _run_all(agents, hosts.own(runs), session, folder, stop, progress=progress)
        except Exception as error:
            if folder.part is None:
                raise
            problem = error  # told once the other processes, which wait for this one, are done with their runs
        finally:
            for each in session.logs:
                each.close()
    hosts.wait_for_all("trained")
    try:
        if not folder.part:
            _report(folder, described, stopped=problem is not None, progress=progress)
    finally:
        hosts.wait_for_all("reported")
    if problem is not None:
        raise problem
    records = read_records(folder.path)
    if folder.part is not None and not any(record["step"] or record["status"] == "ok" for record in records):
        raise ValueError(f"none of the {len(runs)} runs could be started: {records[0]['reason']}")
    return records


def _run_all(
    agents: dict[str, Agent], runs: list[Run], session: Session, folder: OutputFolder, stop: StopRequest, *, progress: bool
) -> Stopped | None:
    """Start and train the runs of this process; what was asked to stop is given back once it is safe."""
    config, journal = session.config, Journal(folder)
    carry = journal.open()
    waiting = {run.id: run for run in runs}
    done = config.steps * sum(run_id in waiting for run_id in journal.finished)
    for run_id in journal.finished:
        waiting.pop(run_id, None)
    failures: dict[Run, ValueError] = {}
    with progress_bar(config.steps * len(runs), "sweep", unit="update", disable=not progress) as bar:
        bar.update(done)
        try:
            if carry is not None:
                for origin in carry.stack.origins:
                    waiting.pop(origin.run.id)
                bar.update(carry.step * len(carry.stack.origins))
                run_stack(carry, session, journal, stop, bar.update)
            starts = _starts(agents, list(waiting.values()), session, journal, failures, stop, bar.update)
            for group in grouped(starts, most=config.max_stack, merge=config.compact):
                together = stack(group)
                step = int(group[0].state.step)
                group.clear()
                bar.update(step * len(together.origins) * (not together.origins[0].pruned_at))
                run_stack(Carry(together, step, step), session, journal, stop, bar.update)
            if failures and len(failures) == len(runs) and folder.part is None:
                raise next(iter(failures.values()))
        except Stopped as stopped:
            return stopped
        except (ValueError, ImportError):
            nothing_done = len(failures) == len(runs) or not (journal.finished or journal.saved)
            if nothing_done and folder.part is None and not folder.resumed:
                folder.clear()
            raise
    journal.done()
    return None


def _starts(agents, runs, session: Session, journal: Journal, failures, stop: StopRequest, report) -> Iterator[Start]:
    """The runs, ready to be trained; one that cannot be pruned is entered as failed and the others go on."""

    def fail(run: Run, error: ValueError) -> None:
        failures[run] = error
        log.warning("%s: failed: %s", run.id, error)
        journal.folder.append([session.failed_row(run, error)])
        journal.finish([run.id])

    config = session.config
    for algo, agent in agents.items():
        own, rankings = [run for run in runs if run.algo == algo], Rankings()
        for run in own:
            if is_pruned_later(run, config):
                continue
            stop.leave_if_asked()
            try:
                start = start_run(agent, run, config, session.dataset, session.transitions, rankings)
            except ValueError as error:
                fail(run, error)
                continue
            yield start
        later: dict[int, list[Run]] = {}
        for run in own:
            if is_pruned_later(run, config):
                later.setdefault(run.seed, []).append(run)
        yield from _late_starts(agent, later, session, fail, stop, report)


def _late_starts(agent, later: dict[int, list[Run]], session: Session, fail, stop: StopRequest, report) -> list[Start]:
    """Runs that leave the dense training of their seed, in the order of when and how wide."""
    starts: list[Start] = []
    for runs in later.values():
        trunk = DenseTrunk(agent, runs, session, stop, report)
        starts += trunk.starts()
        for run, error in trunk.failures.items():
            fail(run, error)
    return sorted(starts, key=lambda start: (int(start.state.step), start.origin.end, executed_weights(start.agent)))


def _open_folder(output_dir, described: dict[str, Any], *, overwrite: bool, resume: bool) -> OutputFolder:
    """The folder with its config written, or found to be the same; of several processes, the first one's is made before the others'."""
    part, problem = hosts.part(), None
    if not part:
        try:
            return _opened(output_dir, described, overwrite=overwrite, resume=resume, part=part)
        except Exception as error:
            problem = error
            raise
        finally:
            hosts.first_says(problem is None)
    if not hosts.first_says():
        raise ValueError(f"the first process cannot use {output_dir}; it says why")
    return _opened(output_dir, described, overwrite=overwrite, resume=resume, part=part)


def _opened(output_dir, described: dict[str, Any], *, overwrite: bool, resume: bool, part: int | None) -> OutputFolder:
    folder = OutputFolder(output_dir, overwrite=overwrite, resume=resume, part=part)
    try:
        if folder.resumed:
            _check_same(folder, described)
        elif not part:
            folder.write_config(described)
    except BaseException:
        folder.close()
        raise
    return folder


def _check_same(folder: OutputFolder, described: dict[str, Any]) -> None:
    before = folder.read_config()
    if changed := changed_setting(before, described):
        raise ValueError(f"{folder.path} was begun with {changed}; resume with the same, or name another output folder")
    if before.get("versions") != described["versions"]:
        log.warning("%s was begun with other versions or hardware (%s): the bits may differ", folder.path, before.get("versions"))


def changed_setting(before: dict[str, Any], now: dict[str, Any]) -> str | None:
    """The first setting that is not as a config.json has it, as "name=before, not now"; None where rows would be the same."""
    for name, value in json.loads(json.dumps(now)).items():
        if name not in _FREE and before.get(name) != value:
            return f"{name}={json.dumps(before.get(name))}, not {json.dumps(value)}"
    return None


def _report(folder: OutputFolder, described: dict[str, Any], *, stopped: bool, progress: bool) -> None:
    """Merged records and the report, by the first process; one that is to stop reads no states for it."""
    from jaxprune.reporting import write_report
    from jaxprune.training.saved_runs import report_inputs

    records = folder.merge()
    if any(record["status"] == "ok" or record["step"] for record in records):
        found = report_inputs(folder.path, records, states=not stopped, progress=progress)
        write_report(folder.path / "report.html", records, described, layers=found.layers, sizes=found.sizes, masks=found.masks)


def _described(config: SweepConfig, dataset: Dataset, env_id: str | None, command: str) -> dict[str, Any]:
    behaviour = float(dataset.report.return_statistics["mean"])
    told = dataclasses.asdict(config)
    try:
        json.dumps(told)
    except TypeError as error:
        raise ValueError(f"settings={config.settings}: config.json cannot hold them ({error}); give numbers, names and lists") from error
    return {
        **told,
        "env_id": env_id,
        "command": command,
        "versions": versions(),
        "processes": jax.process_count(),
        "data": fingerprint(dataset),
        "behaviour_return": behaviour,
        "behaviour_score": number(normalized_score(dataset.reference, behaviour)),
    }


def fingerprint(dataset: Dataset) -> str:
    """Tells one data set from another: 16 hexadecimal digits of SHA-256 over its transitions."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(dataset.transitions):
        digest.update(np.ascontiguousarray(leaf).data)
    return digest.hexdigest()[:16]


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
