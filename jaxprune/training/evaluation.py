"""Returns of policies in the environment: all runs and episodes in one batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxprune.agents.base import Agent, Policy
from jaxprune.environments import BatchedEnvironment, first_action, make_batched
from jaxprune.training.progress import progress_bar


def episode_seeds(seed: int | Sequence[int], episodes: int) -> np.ndarray:
    """A start seed for each episode, [episodes] int64 below 2³¹; `seed` may be several numbers, such as a run's seed and its step."""
    parts = [int(part) for part in np.ravel(seed)]
    # SeedSequence takes (1, 0) for 1: the leading count keeps them apart.
    return (np.random.SeedSequence([len(parts), *parts]).generate_state(episodes) >> 1).astype(np.int64)


@functools.partial(jax.jit, static_argnames=("agent",))
def act_stack(agent: Agent, policies: Policy, observations, keys, t):
    """[runs, episodes, S] -> [runs, episodes, A]; every run draws from its own key."""

    def one(policy, observation, key):
        return agent.act(policy, observation, jax.random.fold_in(key, t))

    return jax.vmap(one)(policies, observations, keys)


def evaluate_stack(
    agent: Agent,
    policies: Policy,
    env_id: str,
    *,
    episodes: int,
    seeds: Sequence[int | Sequence[int]],
    backend: str = "auto",
    progress: bool = False,
) -> np.ndarray:
    """Undiscounted returns of a stack of policies, [runs, episodes].

    Ended episodes are no longer stepped. Run i's episodes and draws depend on seeds[i] alone.

    Args:
      agent: the algorithm.
      policies: every leaf with a leading run axis.
      env_id: Gymnasium id.
      episodes: for each run.
      seeds: one for each run; see `episode_seeds`.
      backend: see `make_batched`.
      progress: show a bar of ended episodes where standard error is a terminal.

    Raises:
      ValueError: the environment's observations or actions are not what the agent was made for, or an unknown environment.
    """
    if episodes < 1:
        raise ValueError(f"expected at least one episode, got {episodes}")
    runs = len(seeds)
    keys = jnp.stack([jax.random.key(int(episode_seeds(seed, 1)[0])) for seed in seeds])
    environment = make_batched(env_id, np.concatenate([episode_seeds(seed, episodes) for seed in seeds]).tolist(), backend=backend)
    try:
        observations = environment.reset()
        if observations.shape[1] != agent.spec.observation_size:
            raise ValueError(
                f"{env_id} has {observations.shape[1]} observation features but the agent was made for {agent.spec.observation_size}; "
                "evaluate in the environment the data came from"
            )

        def act(observations, live, t):
            actions = act_stack(agent, policies, observations.reshape(runs, episodes, -1), keys, t)
            return np.asarray(actions).reshape(runs * episodes, *_action_shape(agent))[live]

        with progress_bar(runs * episodes, "evaluate", unit="episode", disable=not progress) as bar:
            return play(environment, observations, act, bar.update).reshape(runs, episodes)
    finally:
        environment.close()


def play(
    environment: BatchedEnvironment,
    observations: np.ndarray,
    act: Callable[[np.ndarray, np.ndarray, int], np.ndarray],
    report: Callable[[int], Any] = lambda ended: None,
) -> np.ndarray:
    """Undiscounted returns of one episode in every environment, [n] float64; ended ones are no longer stepped.

    Args:
      environment: just reset.
      observations: what that gave, [n, S].
      act: (observations [n, S], the last ones of ended episodes among them; indices [k] of those that go on; step) -> their actions,
        discrete ones counted from 0.
      report: called with the number of episodes that ended in a step.
    """
    returns, live, t = np.zeros(len(observations)), np.arange(len(observations), dtype=np.int32), 0
    first = first_action(environment)
    while live.size:
        actions = act(observations, live, t)
        if first:
            actions = actions + first
        observations[live], rewards, terminated, truncated = environment.step(actions, live)
        returns[live] += rewards
        ended = terminated | truncated
        report(int(ended.sum()))
        live, t = live[~ended], t + 1
    return returns


def _action_shape(agent: Agent) -> tuple[int, ...]:
    return () if agent.spec.discrete else (agent.spec.action_size,)


def evaluate(
    agent: Agent, policy: Policy, env_id: str, *, episodes: int, seed: int, backend: str = "auto", progress: bool = False
) -> np.ndarray:
    """Undiscounted returns of one policy, [episodes]; each episode starts from its own seed, drawn from `seed`."""
    stacked: Any = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], policy)
    return evaluate_stack(agent, stacked, env_id, episodes=episodes, seeds=[seed], backend=backend, progress=progress)[0]
