"""Discrete BCQ (Fujimoto, Conti, Ghavamzadeh and Pineau 2019, arXiv 1910.01708), after its authors' code for vector observations."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import optax

from jaxprune.agents.base import Agent, Network, refuse_continuous, sized
from jaxprune.agents.deployment import LikelyPolicy
from jaxprune.agents.discrete_bc import cross_entropy
from jaxprune.data.transitions import Spec, Transitions
from jaxprune.networks import MLP, apply, linear_signal, unit_groups
from jaxprune.objective import Objective


@dataclasses.dataclass(frozen=True)
class DiscreteBCQConfig:
    """Discrete BCQ.

    The authors keep values and imitation in one module and add their losses; as the two perceptrons share no weight, training each by
    its own loss is the same update, and each can be pruned by itself.

    Attributes:
      hidden: hidden sizes of both networks.
      discount: γ.
      tau: step of the target critic.
      threshold: actions less likely than this fraction of the most likely one are never taken.
      logit_penalty: weight of the imitation's mean squared logit.
      learning_rate, batch_size, normalize, init, optimizer: of both networks.
    """

    hidden: tuple[int, ...] = (256, 256)
    discount: float = 0.99
    tau: float = 0.005
    threshold: float = 0.3
    logit_penalty: float = 1e-2
    learning_rate: float = 3e-4
    batch_size: int = 64
    normalize: bool = True
    init: str = "uniform"
    optimizer: optax.GradientTransformation | None = None


def best_likely_action(values: jax.Array, logits: jax.Array, threshold: float) -> jax.Array:
    """argmax of Q over the actions with p(a) > threshold · max p: [B, A], [B, A] -> [B] int32."""
    ratios = jnp.exp(logits - jnp.max(logits, axis=-1, keepdims=True))
    return jnp.argmax(jnp.where(ratios > threshold, values, -jnp.inf), axis=-1).astype(jnp.int32)


def chosen(values: jax.Array, actions: jax.Array) -> jax.Array:
    """The value of each row's action: [B, A], [B] integers -> [B]."""
    return jnp.take_along_axis(values, actions[:, None], axis=-1)[:, 0]


def huber(errors: jax.Array) -> jax.Array:
    """½e² within ±1, |e| − ½ outside, elementwise."""
    size = jnp.abs(errors)
    return jnp.where(size < 1, 0.5 * errors**2, size - 0.5)


def imitation_error(logits: jax.Array, actions: jax.Array, penalty: float) -> jax.Array:
    """Cross-entropy plus the penalty on the mean squared logit: [B, A], [B] integers -> [B]."""
    return cross_entropy(logits, actions) + penalty * jnp.mean(logits**2, axis=-1)


def discrete_bcq(spec: Spec, config: DiscreteBCQConfig = DiscreteBCQConfig()) -> Agent:
    """BCQ for discrete actions: networks `critic` and `imitation`.

    Raises:
      ValueError: continuous actions.
    """
    refuse_continuous("discrete_bcq", spec)
    return _discrete_bcq(spec, config, ())


@functools.cache
def _discrete_bcq(spec: Spec, config: DiscreteBCQConfig, widths: tuple[tuple[str, int], ...]) -> Agent:
    critic = MLP((*sized(widths, "critic", config.hidden), spec.action_size), init_scheme=config.init)
    imitation = MLP((*sized(widths, "imitation", config.hidden), spec.action_size), init_scheme=config.init)

    def greedy(params, observations):
        """What the current networks would do, [B] int32."""
        values, logits = apply(critic, params["critic"], observations), apply(imitation, params["imitation"], observations)
        return best_likely_action(values, logits, config.threshold)

    def critic_prepare(batch: Transitions, noise, context):
        actions = greedy(context.params, batch.next_observations)
        values = chosen(apply(critic, context.targets["critic"], batch.next_observations), actions)
        targets = batch.rewards + config.discount * batch.discounts * values
        return {"observations": batch.observations, "actions": batch.actions, "targets": targets}

    def critic_predict(params, rows, context):
        return apply(critic, params, rows["observations"])

    def critic_loss(outputs, rows, context):
        return huber(chosen(outputs, rows["actions"]) - rows["targets"])

    def imitation_predict(params, rows, context):
        return apply(imitation, params, rows.observations)

    def imitation_loss(outputs, rows, context):
        return imitation_error(outputs, rows.actions, config.logit_penalty)

    def network(mlp: MLP, objective: Objective, tau: float | None = None) -> Network:
        return Network(
            init=lambda key: mlp.parameters(key, spec.observation_size),
            objective=objective.replace(signal=lambda params, context: linear_signal(params)),
            optimizer=config.optimizer or optax.adam(config.learning_rate),
            groups=unit_groups(mlp),
            tau=tau,
        )

    # The critics' target reads the imitation as it was before this update: so it comes after.
    networks = {
        "critic": network(critic, Objective(critic_predict, critic_loss, critic_prepare), config.tau),
        "imitation": network(imitation, Objective(imitation_predict, imitation_loss)),
    }
    return Agent(
        "discrete_bcq",
        spec,
        config,
        widths,
        networks=networks,
        draw_rows=lambda key, n: {},
        choose=lambda params, observations, key: greedy(params, observations),
        build=_discrete_bcq,
        deployment=LikelyPolicy("critic", "imitation", config.threshold),
    )
