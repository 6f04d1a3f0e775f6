"""The rows of a measurement: what a run's networks weigh, how fast its policy acts, what it earns, what training it takes."""

from __future__ import annotations

import json
import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxprune.agents.compact import compact, expand
from jaxprune.export.c99 import c_source, to_c
from jaxprune.export.compiling import compile_c
from jaxprune.export.onnx import to_onnx
from jaxprune.export.policy import read_policy
from jaxprune.export.rollouts import evaluate_policy
from jaxprune.export.safetensors import to_safetensors
from jaxprune.export.sizes import REPRESENTATIONS, network_sizes
from jaxprune.export.stablehlo import to_stablehlo
from jaxprune.export.timing import TorchRunner, c_runners, in_turns, jax_runner, onnx_runner
from jaxprune.export.training_cost import update_energy, update_memory, update_seconds
from jaxprune.training.checkpoint import load_run
from jaxprune.training.evaluation import evaluate

Rows = list[dict[str, Any]]


class MeasuredRun:
    """One run: its agent, its policies, and what names it in a table.

    Attributes:
      agent, state: compacted.
      full, whole: the agent and state at full size.
      policy: as exported.
      dense: as exported without compaction: every unit, zeros where weights were removed.
      kept: {network: weights that pruning kept}.
      names: run, algo, criterion, structure, sparsity and seed: the first columns of every table.
      recorded_seconds: (seconds of training, runs trained side by side), of the sweep that made it; or None.
    """

    def __init__(self, folder: pathlib.Path):
        self.full, self.whole = expand(*load_run(folder))
        # A sweep may have saved the run at wider arrays, those of the stack it was trained in.
        self.agent, self.state = compact(self.full, self.whole)
        described = json.loads((folder / "agent.json").read_text())
        self.env_id, self.steps = described.get("env_id"), described.get("step")
        self.policy = read_policy(self.agent, self.state)
        self.dense = read_policy(self.full, self.whole, compact=False)
        self.kept: dict[str, int] = {}
        for layer, (kept, _) in described.get("layers", {}).items():
            network = layer.split("/")[0]
            self.kept[network] = self.kept.get(network, 0) + kept
        config = folder.parent.parent / "config.json"
        structure = json.loads(config.read_text()).get("structure", "weights") if config.exists() else "weights"
        sparsity, criterion = float(described.get("sparsity", 0.0)), described.get("criterion", "dense")
        self.names = {
            "run": folder.name,
            "algo": self.agent.name,
            "criterion": criterion,
            "structure": structure,
            "sparsity": sparsity,
            "seed": described.get("seed", 0),
        }
        self.batch_size = self.agent.config.batch_size
        self.recorded_seconds = _recorded_seconds(folder)

    @property
    def kind(self) -> tuple:
        """What all seeds share."""
        return tuple(value for name, value in self.names.items() if name not in ("run", "seed"))


def _recorded_seconds(folder: pathlib.Path) -> tuple[float, int] | None:
    """(seconds of training, runs trained side by side) from the sweep's records."""
    records = folder.parent.parent / "records.jsonl"
    if not records.exists():
        return None
    rows = [row for row in map(json.loads, records.read_text().splitlines()) if row.get("run_id") == folder.name and "wall_s" in row]
    return (rows[-1]["wall_s"], rows[-1].get("stack", 1)) if rows else None


def network_rows(run: MeasuredRun) -> Rows:
    """A row per network and representation."""
    rows = []
    for network, size in network_sizes(run.agent, run.state, kept=run.kept).items():
        shared = {**run.names, "network": network}
        shared |= {name: getattr(size, name) for name in ("parameters", "weights", "kept", "effective")}
        shared |= {name: getattr(size, name) for name in ("macs_dense", "macs_sparse", "macs_executed")}
        for kind in REPRESENTATIONS:
            of_dense = size.memory["dense"] / size.memory[kind]
            rows.append(
                {
                    **shared,
                    "representation": kind,
                    "memory_bytes": size.memory[kind],
                    "disk_bytes": size.disk[kind],
                    "times_smaller": of_dense,
                }
            )
    return rows


def policy_rows(run: MeasuredRun) -> Rows:
    """Bytes of the policy alone in every format: what acting needs."""
    nets = run.dense.perceptrons.values()
    dense = 4 * sum(layer.weight.size + layer.bias.size for net in nets for layer in net.layers)
    repeats = 1 if run.policy.latents is None else len(run.policy.latents)
    macs = repeats * sum(layer.weight.size for net in nets for layer in net.layers)
    rows = [{"format": "dense float32 in memory", "bytes": dense, "macs": macs, "difference": 0.0}]
    with tempfile.TemporaryDirectory(prefix="jaxprune-measure-") as scratch:
        for name, write in (("safetensors", to_safetensors), ("onnx", to_onnx), ("stablehlo", to_stablehlo)):
            path = pathlib.Path(scratch) / f"policy.{name}"
            found = write(run.agent, run.state, path)
            rows.append({"format": f"{name} file", "bytes": path.stat().st_size, "difference": found.difference})
        for weights in ("float32", "int8"):
            path = pathlib.Path(scratch) / "policy.c"
            found = to_c(run.agent, run.state, path, weights=weights)
            made = c_source(run.policy, weights=weights)
            rows.append(
                {"format": f"C constants, {weights}", "bytes": made.weight_bytes, "macs": made.macs, "difference": found.difference}
            )
            rows.append({"format": f"C source, {weights}", "bytes": path.stat().st_size, "difference": found.difference})
    return [{**run.names, "macs": "", **row, "times_smaller": dense / row["bytes"]} for row in rows]


def latency_rows(
    run: MeasuredRun, *, batches: Sequence[int], rounds: int, seconds: float, torch_python: str | None, torch_server: pathlib.Path
) -> Rows:
    """A row per way to call the policy and batch size.

    Args:
      run: whose policy.
      batches: sizes.
      rounds: see `in_turns`.
      seconds: see `in_turns`.
      torch_python: an interpreter with torch and numpy; None leaves PyTorch out.
      torch_server: see `TorchRunner`.

    Raises:
      ValueError: PyTorch's policy is another one, or its process ended.
    """
    runners = {
        "JAX policy": jax_runner(run.agent, run.state),
        "ONNX Runtime dense": onnx_runner(run.dense),
        "ONNX Runtime compacted": onnx_runner(run.policy),
    }
    for weights, name in (("float32", "C"), ("int8", "C int8")):
        made = c_runners(run.policy, weights)
        runners |= {f"{name}, ctypes": made["ctypes"], f"{name}, C loop": made["loop"]}
    torch = TorchRunner(torch_python, torch_server, run.dense) if torch_python else None
    rng, size = np.random.default_rng(0), run.policy.spec.observation_size
    rows = []
    try:
        if torch is not None:
            runners = {"PyTorch dense": torch, **runners}
            check = (run.dense.mean + run.dense.std * rng.normal(size=(32, size))).astype(np.float32)
            worst = float(np.median(np.abs(torch.actions(check) - run.policy.act(check))))
            if worst > 1e-5:
                raise ValueError(f"{run.names['run']}: PyTorch's policy is another one: its actions differ by {worst:.2g}")
        for batch in batches:
            calls = 2000 if batch == 1 else 200
            observations = (run.dense.mean + run.dense.std * rng.normal(size=(calls, batch, size))).astype(np.float32)
            for name, times in in_turns(runners, observations, rounds=rounds, seconds=seconds).items():
                p50, p99 = np.percentile(times, (50, 99)) * 1e6
                low, high = (1e6 * end for end in (np.median(times, axis=1).min(), np.median(times, axis=1).max()))
                rows.append(
                    {
                        **run.names,
                        "call": name,
                        "batch": batch,
                        "p50_us": p50,
                        "p99_us": p99,
                        "p50_low": low,
                        "p50_high": high,
                        "calls": times.size,
                    }
                )
    finally:
        if torch is not None:
            torch.close()
    return rows


def return_rows(run: MeasuredRun, *, episodes: int, backend: str) -> Rows:
    """The same episodes by the live policy and by compiled C, float32 and int8; none where the run names no environment."""
    if run.env_id is None:
        return []
    played: dict[str, Any] = {"episodes": episodes, "seed": 0, "backend": backend}
    found = {"live": evaluate(run.agent, run.agent.policy(run.state), run.env_id, **played)}
    for weights in ("float32", "int8"):
        made = c_source(run.policy, weights=weights)
        with compile_c(made.source, made.header, "policy.h", run.policy.spec, flags=("-std=c99", "-O2")) as act:
            found[f"C {weights}"] = evaluate_policy(act, run.env_id, **played)
    error = {name: returns.std(ddof=1) / np.sqrt(len(returns)) if len(returns) > 1 else np.nan for name, returns in found.items()}
    return [
        {**run.names, "policy": name, "episodes": episodes, "return_mean": returns.mean(), "standard_error": error[name]}
        for name, returns in found.items()
    ]


def training_rows(run: MeasuredRun, *, updates: int, energy_updates: int, country: str | None) -> Rows:
    """A row at full size and one compacted: memory, time and energy of updates.

    Args:
      run: whose networks.
      updates: to time; 0 times none.
      energy_updates: to measure with codecarbon; 0 measures none.
      country: see `update_energy`.
    """
    rows = []
    for name, agent, state in (("full size", run.full, run.full.restart_optimizers(run.whole)), ("compacted", run.agent, run.state)):
        memory = update_memory(agent, state, run.batch_size)
        row = {
            **run.names,
            "arrays": name,
            "batch_size": run.batch_size,
            "argument_bytes": memory.arguments,
            "temporary_bytes": memory.temporary,
        }
        row |= {"peak_bytes": memory.peak, "ms_per_update": "", "run_updates": run.steps, "run_seconds": "", "run_stack": ""}
        if updates:
            row["ms_per_update"] = 1e3 * update_seconds(agent, state, run.batch_size, updates)
        if name == "compacted" and run.recorded_seconds:
            row["run_seconds"], row["run_stack"] = run.recorded_seconds
        if energy_updates:
            found = update_energy(agent, state, run.batch_size, energy_updates, country)
            row["joules_per_update"] = 3.6e6 * found.kilowatt_hours / found.updates
            row["mg_co2_per_update"] = "" if found.kilograms_co2 is None else 1e6 * found.kilograms_co2 / found.updates
            row["sensors"] = found.sensors
        rows.append(row)
    return rows
