"""How long an experiment will take here, from timing a few updates, prunings and environment steps."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxprune as jp
from jaxprune.agents.base import Agent, AgentState
from jaxprune.environments import make_batched
from jaxprune.reporting import naming
from jaxprune.training.evaluation import act_stack, episode_seeds
from jaxprune.training.grid import Run, expand
from jaxprune.training.start import Rankings, start_run

ABOUT_S = 0.3  # a timing takes about so long
STEPS, RUNS = 30, 8  # environment steps that are timed, and runs beside each other in them


class Cost(NamedTuple):
    """Seconds of one run of a sweep.

    Attributes:
      start: initialising, pruning and compacting it.
      compilation: of its updates and of its policy.
      update: one update.
      evaluation: one evaluation, if every episode lasts to the time limit.
    """

    start: float
    compilation: float
    update: float
    evaluation: float


def timed(function: Callable[[], Any]) -> float:
    """Seconds of a call whose result is waited for."""
    began = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - began


def update_seconds(agent: Agent, state: AgentState, transitions: Any, batch_size: int | None = None) -> float:
    """Of one update, compilation left out."""
    return update_costs(agent, state, transitions, batch_size)[1]


def update_costs(agent: Agent, state: AgentState, transitions: Any, batch_size: int | None = None) -> tuple[float, float]:
    """Seconds of compilation, and of one update."""

    def seconds(updates: int) -> float:
        settings: dict[str, Any] = {"steps": updates, "batch_size": batch_size, "compact": False}
        return timed(lambda: jp.train(agent, state, transitions, key=jax.random.key(0), **settings)[0].params)

    few = 2 * agent.period
    first = seconds(few)
    # The difference of two lengths leaves out what every call costs.
    short = seconds(few)
    more = few + max(few, min(2000, math.ceil(few * ABOUT_S / short)) // agent.period * agent.period)
    return max(first - short, 0.0), max(seconds(more) - short, 0.0) / (more - few)


def evaluation_seconds(agent: Agent, state: AgentState, env_id: str, episodes: int, backend: str = "auto") -> float:
    """Of one run's evaluation, if every episode lasts to the environment's time limit."""
    return evaluation_costs(agent, state, env_id, episodes, backend)[1]


def evaluation_costs(agent: Agent, state: AgentState, env_id: str, episodes: int, backend: str = "auto") -> tuple[float, float]:
    """Seconds of compiling the policy, and of one run's evaluation, if every episode lasts to the environment's time limit."""
    import gymnasium

    limit = gymnasium.spec(env_id).max_episode_steps or 1000
    policies = jax.tree.map(lambda leaf: jnp.stack([leaf] * RUNS), agent.policy(state))
    keys = jnp.stack([jax.random.key(i) for i in range(RUNS)])
    environment = make_batched(env_id, episode_seeds(0, RUNS * episodes).tolist(), backend=backend)
    everyone = np.arange(RUNS * episodes, dtype=np.int32)

    def steps(observations, count):
        for t in range(count):
            actions = np.asarray(act_stack(agent, policies, observations.reshape(RUNS, episodes, -1), keys, t))
            observations, *_ = environment.step(actions.reshape(RUNS * episodes, *actions.shape[2:]), everyone)
        return observations

    try:
        observations = environment.reset()
        first = timed(lambda: steps(observations, 1))
        return first, timed(lambda: steps(observations, STEPS)) / STEPS / RUNS * limit
    finally:
        environment.close()


def run_cost(config: jp.SweepConfig, data: jp.data.Dataset, run: Run) -> Cost:
    """What one run of a sweep costs here, each part timed once it is compiled."""
    agent = jp.agents.make(run.algo, data.spec, **config.settings)
    transitions = jax.device_put(data.transitions)
    rankings = Rankings()
    start = start_run(agent, run, config, data, transitions, rankings)
    rankings.clear()
    seconds = timed(lambda: start_run(agent, run, config, data, transitions, rankings).state.params)
    env_id, evaluation = config.env_id or data.env_id, (0.0, 0.0)
    if config.evaluate and env_id is not None:
        evaluation = evaluation_costs(start.agent, start.state, env_id, config.episodes, config.backend)
    compilation, update = update_costs(start.agent, start.state, transitions, config.batch_size)
    return Cost(seconds, compilation + evaluation[0], update, evaluation[1])


def sweep_seconds(config: jp.SweepConfig, data: jp.data.Dataset) -> float:
    """Of a whole sweep: at every sparsity, one run is timed for all, and two pruned ones are taken to share a compiled program."""
    alike: dict[tuple[str, float], list[Run]] = {}
    for run in expand(config):
        alike.setdefault((run.algo, run.sparsity), []).append(run)
    evaluations = math.ceil(config.steps / config.eval_every)
    total = 0.0
    for (_, sparsity), runs in alike.items():
        cost = run_cost(config, data, runs[0])
        total += len(runs) * (cost.start + config.steps * cost.update + evaluations * cost.evaluation)
        total += cost.compilation * (len(runs) / 2 if sparsity else 1)
    return total


def told(parts: Iterable[tuple[str, Sequence[jp.SweepConfig], float]]) -> list[str]:
    """The lines of an estimate: of each part its name, its sweeps and its seconds, and the sum."""
    lines, total, runs = [], 0.0, 0
    for name, configs, seconds in parts:
        own = sum(len(expand(config)) for config in configs)
        updates = sum(len(expand(config)) * config.steps for config in configs)
        lines.append(f"  {name}: {own:,} runs, {updates:,} updates: about {naming.duration(seconds)}")
        total, runs = total + seconds, runs + own
    return [f"{runs:,} runs:", *lines, f"about {naming.duration(total)} in all on this machine, if every episode lasted to its time limit"]
