"""How long one call of a policy takes, for every way to run it, in turns."""

from __future__ import annotations

import ctypes
import json
import pathlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from jaxprune.agents.base import Agent, AgentState
from jaxprune.export.c99 import c_source
from jaxprune.export.compiling import compile_c
from jaxprune.export.onnx import graph
from jaxprune.export.policy import ExportedPolicy

FAST = ("-std=c99", "-O3", "-march=native")
# One clock reading before and one after every call, as the Python runners have.
TIMER = """
#define _POSIX_C_SOURCE 199309L
#include <stddef.h>
#include <stdint.h>
#include <time.h>

void {name}_act_batch(const float *observations, {kind} *actions, size_t count);

void {name}_time(const float *observations, {kind} *actions, size_t count, size_t batch, size_t size, double *seconds)
{{
    size_t i;

    for (i = 0; i < count; ++i) {{
        struct timespec start, end;

        clock_gettime(CLOCK_MONOTONIC, &start);
        {name}_act_batch(observations + i * batch * size, actions, batch);
        clock_gettime(CLOCK_MONOTONIC, &end);
        seconds[i] = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
    }}
}}
"""

Runner = Callable[[np.ndarray], np.ndarray]


def python_runner(act: Callable[[np.ndarray], Any]) -> Runner:
    """Seconds of each call, [calls], for observations [calls, batch, S]."""

    def run(batches: np.ndarray) -> np.ndarray:
        seconds = np.empty(len(batches))
        for i, batch in enumerate(batches):
            start = time.perf_counter_ns()
            act(batch)
            seconds[i] = time.perf_counter_ns() - start
        return seconds * 1e-9

    return run


def jax_runner(agent: Agent, state: AgentState) -> Runner:
    """The live policy, jitted, NumPy in and out."""
    policy, key = agent.policy(state), jax.random.key(0)
    call = jax.jit(lambda observations: agent.act(policy, observations, key))
    return python_runner(lambda batch: np.asarray(call(batch)))


def onnx_runner(policy: ExportedPolicy) -> Runner:
    """ONNX Runtime's Python call, dense weights, one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(graph(policy, sparse=False).SerializeToString(), options, providers=["CPUExecutionProvider"])
    return python_runner(lambda batch: session.run(None, {"observations": batch}))


def c_runners(policy: ExportedPolicy, weights: Any, flags: Sequence[str] = FAST) -> dict[str, Runner]:
    """{"loop": called in a C loop, "ctypes": called from Python with ready pointers}."""
    kind = "int32_t" if policy.spec.discrete else "float"
    made = c_source(policy, weights=weights)
    source = TIMER.format(name="policy", kind=kind) + made.source
    compiled = compile_c(source, made.header, "policy.h", policy.spec, flags=flags)
    size, act, act_batch = policy.spec.observation_size, compiled.act_one, compiled._batch
    timer = compiled._library.policy_time
    timer.argtypes, timer.restype = [ctypes.c_void_p] * 2 + [ctypes.c_size_t] * 3 + [ctypes.c_void_p], None

    def loop(batches: np.ndarray) -> np.ndarray:
        seconds, actions = np.empty(len(batches)), np.empty((batches.shape[1], max(1, policy.spec.action_size)), np.float32)
        timer(batches.ctypes.data, actions.ctypes.data, len(batches), batches.shape[1], size, seconds.ctypes.data)
        return seconds

    def through_ctypes(batches: np.ndarray) -> np.ndarray:
        seconds, actions = np.empty(len(batches)), np.empty((batches.shape[1], max(1, policy.spec.action_size)), np.float32)
        start, step, out, count = batches.ctypes.data, batches[0].nbytes, actions.ctypes.data, batches.shape[1]
        for i in range(len(batches)):
            at = start + i * step
            began = time.perf_counter_ns()
            if count > 1:
                act_batch(at, out, count)
            elif policy.spec.discrete:
                act(at)
            else:
                act(at, out)
            seconds[i] = time.perf_counter_ns() - began
        return seconds * 1e-9

    return {"loop": loop, "ctypes": through_ctypes}


class TorchRunner:
    """PyTorch's dense policy, eager, in an interpreter of its own: NumPy in and out, one thread. Close it at the end.

    Args:
      python: an interpreter with torch and numpy.
      server: path of the script that runs there (benchmarks/peers/torch_policy.py).
      policy: at full size.
    """

    def __init__(self, python: str, server: pathlib.Path, policy: ExportedPolicy):
        self._folder = tempfile.TemporaryDirectory(prefix="jaxprune-torch-")
        middle, half = policy.scale() if not policy.spec.discrete else (np.zeros(1), np.ones(1))
        arrays = {
            "mean": policy.mean,
            "std": policy.std,
            "middle": middle,
            "half": half,
            "phi": np.float32(policy.phi),
            "threshold": np.float32(policy.threshold),
        }
        arrays |= {"head": np.array(policy.head), "latents": policy.latents if policy.latents is not None else np.zeros((0, 0), np.float32)}
        for name, net in policy.perceptrons.items():
            for i, layer in enumerate(net.layers):
                arrays |= {f"{name}.{i}.weight": layer.weight, f"{name}.{i}.bias": layer.bias}
        self._path = pathlib.Path(self._folder.name)
        np.savez(self._path / "policy.npz", **arrays)
        command = [python, str(server), str(self._path / "policy.npz")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.about = self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ValueError(f"the PyTorch process {self._process.args!r} ended; does its interpreter have torch and numpy?")
        return json.loads(line)

    def actions(self, observations: np.ndarray) -> np.ndarray:
        """[n, A], to compare."""
        self(observations[None])
        return np.load(self._path / "actions.npy")

    def __call__(self, batches: np.ndarray) -> np.ndarray:
        """Seconds of each call, [calls]."""
        assert self._process.stdin is not None
        np.save(self._path / "batches.npy", batches)
        self._process.stdin.write("run\n")
        self._process.stdin.flush()
        return np.asarray(self._read())

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()


def in_turns(runners: dict[str, Runner], batches: np.ndarray, *, rounds: int, seconds: float) -> dict[str, np.ndarray]:
    """Seconds of every call, {runner: [rounds, calls]}: all run in each round, so that a drift of the machine meets all alike.

    Args:
      runners: by name.
      batches: [calls, batch, S], at most so many calls in a round.
      rounds: of all runners.
      seconds: a runner's turn is cut to about so long, though not below one call.
    """
    turns = {}
    for name, run in runners.items():
        run(batches[:1])
        once = float(run(batches[:1])[0])
        if once < seconds / 20:
            once = float(np.median(run(batches[:20])))
        turns[name] = int(np.clip(seconds / once, 1, len(batches)))
    found: dict[str, list[np.ndarray]] = {name: [] for name in runners}
    for _ in range(rounds):
        for name, run in runners.items():
            found[name].append(run(batches[: turns[name]]))
    return {name: np.stack(times) for name, times in found.items()}
