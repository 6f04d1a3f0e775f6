"""Time, memory and energy of training updates."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxprune.agents.base import Agent, AgentState
from jaxprune.data.transitions import Transitions
from jaxprune.optional import require
from jaxprune.training.loop import train


class UpdateMemory(NamedTuple):
    """Bytes of one jitted update, from XLA's analysis of the compiled program.

    Attributes:
      arguments: state, batch and key.
      temporary: what lives only inside.
      peak: arguments, outputs and temporaries, what is aliased counted once.
    """

    arguments: int
    temporary: int
    peak: int


class Energy(NamedTuple):
    """What codecarbon found.

    Attributes:
      updates: made.
      seconds: of them.
      kilowatt_hours: of CPU, GPU and memory.
      kilograms_co2: equivalents; None where no country was given.
      sensors: how each part's power was found: read from a sensor, or estimated from a constant or from the load.
    """

    updates: int
    seconds: float
    kilowatt_hours: float
    kilograms_co2: float | None
    sensors: str


def synthetic_log(agent: Agent, state: AgentState, rows: int) -> Transitions:
    """Transitions of the run's shapes and statistics: what updates cost does not depend on the values."""
    rng, spec = np.random.default_rng(0), agent.spec
    mean, std = np.asarray(state.statistics.mean), np.asarray(state.statistics.std)
    observations = (mean + std * rng.normal(size=(2, rows, spec.observation_size))).astype(np.float32)
    if spec.discrete:
        actions: Any = rng.integers(spec.action_size, size=rows).astype(np.int32)
    else:
        actions = rng.uniform(spec.low, spec.high, size=(rows, spec.action_size)).astype(np.float32)
    return Transitions(observations[0], actions, rng.normal(size=rows).astype(np.float32), observations[1], np.ones(rows, np.float32))


def update_memory(agent: Agent, state: AgentState, batch_size: int) -> UpdateMemory:
    """Of one update at this batch size."""
    batch = jax.tree.map(jnp.asarray, synthetic_log(agent, state, batch_size))
    found: Any = jax.jit(agent.update).lower(state, batch, jax.random.key(0)).compile().memory_analysis()
    peak = found.argument_size_in_bytes + found.output_size_in_bytes + found.temp_size_in_bytes - found.alias_size_in_bytes
    return UpdateMemory(found.argument_size_in_bytes, found.temp_size_in_bytes, peak)


def update_seconds(agent: Agent, state: AgentState, batch_size: int, updates: int) -> float:
    """Seconds of one update in `jaxprune.train`, compilation left out."""
    log = jax.device_put(synthetic_log(agent, state, 10_000))
    _run(agent, state, log, batch_size, updates)
    start = time.perf_counter()
    _run(agent, state, log, batch_size, updates)
    return (time.perf_counter() - start) / updates


def update_energy(agent: Agent, state: AgentState, batch_size: int, updates: int, country: str | None) -> Energy:
    """Energy of training updates, by codecarbon without a network.

    Args:
      agent: the algorithm.
      state: of one run.
      batch_size: rows an update.
      updates: how many; several seconds' worth, as power is read once a second.
      country: ISO code of three letters, for CO2; None reports energy alone.

    Raises:
      ImportError: codecarbon is not installed.
    """
    codecarbon = require("codecarbon", extra="energy")
    log = jax.device_put(synthetic_log(agent, state, 10_000))
    _run(agent, state, log, batch_size, updates)
    tracker = codecarbon.OfflineEmissionsTracker(
        country_iso_code=country or "USA", measure_power_secs=1, save_to_file=False, log_level="error", tracking_mode="machine"
    )
    tracker.start()
    start = time.perf_counter()
    _run(agent, state, log, batch_size, updates)
    seconds = time.perf_counter() - start
    tracker.stop()
    data: Any = tracker.final_emissions_data
    return Energy(updates, seconds, data.energy_consumed, data.emissions if country else None, _sensors(tracker))


def _run(agent: Agent, state: AgentState, log: Transitions, batch_size: int, updates: int) -> None:
    state, _ = train(agent, state, log, steps=updates, batch_size=batch_size, key=jax.random.key(0))
    jax.block_until_ready(state.params)


def _sensors(tracker: Any) -> str:
    """How codecarbon found each part's power. It keeps that in private fields alone."""
    parts = []
    for part in getattr(tracker, "_hardware", []):
        name, mode = type(part).__name__, getattr(part, "_mode", "")
        if name == "CPU" and mode == "cpu_load":
            parts.append(f"CPU: no sensor, estimated from its load and a rated {getattr(part, '_tdp', '?')} W")
        elif name == "CPU" and mode == "constant":
            parts.append(f"CPU: no sensor, half of a rated {getattr(part, '_tdp', '?')} W")
        elif name == "RAM":
            parts.append("RAM: no sensor, estimated from its size")
        else:
            parts.append(f"{name}: read from {mode or 'NVML' if name == 'GPU' else mode}")
    return "; ".join(parts) or "none"
