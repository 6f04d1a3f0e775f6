"""Behaviour cloning."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import optax

from jaxprune.agents.base import Agent, Network, refuse_discrete, sized
from jaxprune.agents.deployment import DeterministicPolicy
from jaxprune.data.transitions import Spec
from jaxprune.networks import MLP, apply, linear_signal, unit_groups
from jaxprune.objective import Objective


@dataclasses.dataclass(frozen=True)
class BCConfig:
    """Behaviour cloning: 256-256 ReLU, tanh head, mean squared error, Adam 1e-3, batch 256."""

    hidden: tuple[int, ...] = (256, 256)
    learning_rate: float = 1e-3
    batch_size: int = 256
    normalize: bool = True
    init: str = "uniform"
    optimizer: optax.GradientTransformation | None = None


def squared_error(predicted: jax.Array, actions: jax.Array) -> jax.Array:
    """Mean over the action features of each row: [B, A], [B, A] -> [B]."""
    return jnp.mean((predicted - actions) ** 2, axis=-1)


def bc(spec: Spec, config: BCConfig = BCConfig()) -> Agent:
    """Behaviour cloning for continuous actions."""
    refuse_discrete("bc", spec)
    return _bc(spec, config, ())


@functools.cache
def _bc(spec: Spec, config: BCConfig, widths: tuple[tuple[str, int], ...]) -> Agent:
    mlp = MLP((*sized(widths, "policy", config.hidden), spec.action_size), init_scheme=config.init)

    def predict(params, rows, context):
        return jnp.tanh(apply(mlp, params, rows.observations))

    def loss(outputs, rows, context):
        return squared_error(outputs, rows.actions)

    def signal(params, context):
        return linear_signal(params)

    def choose(params, observations, key):
        return jnp.tanh(apply(mlp, params["policy"], observations))

    policy = Network(
        init=lambda key: mlp.parameters(key, spec.observation_size),
        objective=Objective(predict, loss, signal=signal),
        optimizer=config.optimizer or optax.adam(config.learning_rate),
        groups=unit_groups(mlp),
    )
    return Agent(
        "bc",
        spec,
        config,
        widths,
        networks={"policy": policy},
        draw_rows=lambda key, n: {},
        choose=choose,
        build=_bc,
        deployment=DeterministicPolicy("policy"),
    )
