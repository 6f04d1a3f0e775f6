"""Behaviour cloning of discrete actions."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import optax

from jaxprune.agents.base import Agent, Network, refuse_continuous, sized
from jaxprune.agents.deployment import DeterministicPolicy
from jaxprune.data.transitions import Spec
from jaxprune.networks import MLP, apply, linear_signal, unit_groups
from jaxprune.objective import Objective


@dataclasses.dataclass(frozen=True)
class DiscreteBCConfig:
    """Behaviour cloning as a classifier: 256-256 ReLU, softmax cross-entropy, Adam 1e-3, batch 256; acts by the most likely action."""

    hidden: tuple[int, ...] = (256, 256)
    learning_rate: float = 1e-3
    batch_size: int = 256
    normalize: bool = True
    init: str = "uniform"
    optimizer: optax.GradientTransformation | None = None


def cross_entropy(logits: jax.Array, actions: jax.Array) -> jax.Array:
    """−log softmax(logits)[action]: [B, A], [B] integers -> [B]."""
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), actions[:, None], axis=-1)[:, 0]


def discrete_bc(spec: Spec, config: DiscreteBCConfig = DiscreteBCConfig()) -> Agent:
    """Behaviour cloning for discrete actions: the network `policy`.

    Raises:
      ValueError: continuous actions.
    """
    refuse_continuous("discrete_bc", spec)
    return _discrete_bc(spec, config, ())


@functools.cache
def _discrete_bc(spec: Spec, config: DiscreteBCConfig, widths: tuple[tuple[str, int], ...]) -> Agent:
    mlp = MLP((*sized(widths, "policy", config.hidden), spec.action_size), init_scheme=config.init)

    def predict(params, rows, context):
        return apply(mlp, params, rows.observations)

    def loss(outputs, rows, context):
        return cross_entropy(outputs, rows.actions)

    def monitor(outputs, rows):
        return {"accuracy": jnp.mean(jnp.argmax(outputs, axis=-1) == rows.actions, dtype=outputs.dtype)}

    def choose(params, observations, key):
        return jnp.argmax(apply(mlp, params["policy"], observations), axis=-1).astype(jnp.int32)

    policy = Network(
        init=lambda key: mlp.parameters(key, spec.observation_size),
        objective=Objective(predict, loss, signal=lambda params, context: linear_signal(params)),
        optimizer=config.optimizer or optax.adam(config.learning_rate),
        groups=unit_groups(mlp),
        monitor=monitor,
    )
    return Agent(
        "discrete_bc",
        spec,
        config,
        widths,
        networks={"policy": policy},
        draw_rows=lambda key, n: {},
        choose=choose,
        build=_discrete_bc,
        deployment=DeterministicPolicy("policy", "argmax"),
    )
