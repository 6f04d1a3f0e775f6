"""The networks that `loss_modelling.py` trains and prunes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from digits import PERCEPTRON_OBJECTIVE, load_digits, perceptron, wrong
from masked_training import Problem

import jaxprune as jp

# Rows that a loss is measured on, at most.
SEEN = 4096


class Task(NamedTuple):
    """A network to train and prune.

    Attributes:
      problem: its loss and rows.
      init: key -> parameters.
      steps: updates to convergence.
      fine_tuning: updates after pruning.
      about: what it is, for a reader.
      returns: parameters of several runs, stacked, and a seed -> mean return of each; None where there is no environment.
    """

    problem: Problem
    init: Callable[[jax.Array], Any]
    steps: int
    fine_tuning: int
    about: str
    returns: Callable[[Any, int], np.ndarray] | None = None


def some(rows: Any) -> Any:
    """At most `SEEN` of the rows, evenly spaced."""
    total = len(jax.tree.leaves(rows)[0])
    return jax.tree.map(lambda leaf: leaf[np.linspace(0, total - 1, min(SEEN, total)).astype(int)], rows)


def digits_task(steps: int, fine_tuning: int) -> Task:
    """The perceptron on digits: Adam 1e-3, 64 rows an update."""
    digits = load_digits()
    train = jax.device_put(digits.train)
    problem = Problem(PERCEPTRON_OBJECTIVE, train, train, jax.device_put(digits.held_out), optax.adam(1e-3), 64, wrong)
    about = "a 64-300-100-10 tanh perceptron on scikit-learn's digits, 597 of 1,797 held out, Adam 1e-3, 64 rows"
    return Task(problem, perceptron, steps, fine_tuning, about)


def bc_task(name: str, steps: int, fine_tuning: int, episodes: int) -> Task:
    """Behaviour cloning as it is; the last tenth of the log is held out."""
    from jaxprune.training.evaluation import evaluate_stack

    data = jp.data.load(name)
    agent = jp.agents.bc(data.spec)
    state = agent.init(jax.random.key(0), data.statistics)
    objective = agent.objective("policy", state)
    rows = objective.rows(jax.device_put(data.transitions), {})
    first = len(data.transitions.rewards) * 9 // 10
    train, held_out = jax.tree.map(lambda leaf: leaf[:first], rows), jax.tree.map(lambda leaf: leaf[first:], rows)
    # What BC's loss reads of other networks is nothing.
    objective, optimizer = objective.replace(context=None), agent.optimizers["policy"]
    problem = Problem(objective, train, some(train), some(held_out), optimizer, agent.config.batch_size)

    env_id = data.env_id

    def returns(params, seed):
        assert env_id is not None
        runs = jax.tree.leaves(params)[0].shape[0]
        policy = agent.policy(state)
        statistics = jax.tree.map(lambda leaf: jnp.stack([leaf] * runs), policy.statistics)
        policies = policy.replace(params={"policy": params}, statistics=statistics)
        return evaluate_stack(agent, policies, env_id, episodes=episodes, seeds=[seed] * runs).mean(axis=1)

    about = f"behaviour cloning of {name}, the last tenth of its rows held out, 256-256 ReLU, Adam 1e-3, 256 rows"
    init = agent.networks["policy"].init
    return Task(problem, init, steps, fine_tuning, about, returns if episodes and env_id else None)
