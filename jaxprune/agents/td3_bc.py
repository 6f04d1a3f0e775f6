"""TD3+BC (Fujimoto and Gu 2021, arXiv 2106.06860), after its authors' code."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import optax

from jaxprune.agents.base import Agent, Network, refuse_discrete, sized
from jaxprune.agents.bc import squared_error
from jaxprune.agents.bcq import twin_squared_error
from jaxprune.agents.deployment import DeterministicPolicy
from jaxprune.data.transitions import Spec, Transitions
from jaxprune.networks import MLP, apply, apply_stacked, linear_signal, stacked_parameters, unit_groups
from jaxprune.objective import Objective


@dataclasses.dataclass(frozen=True)
class TD3BCConfig:
    """TD3+BC.

    Attributes:
      hidden: hidden sizes of critics and actor.
      discount: γ.
      tau: step of the targets.
      policy_noise: deviation of the noise on the target actor's action, in units of half the action range.
      noise_clip: bound of that noise, likewise.
      policy_every: the actor and all targets are updated in every so many-th step, the critics in every one.
      alpha: α, the weight of the critics' value, divided by its mean size over the batch, against cloning.
      learning_rate, batch_size, normalize, init, optimizer: of all networks.
    """

    hidden: tuple[int, ...] = (256, 256)
    discount: float = 0.99
    tau: float = 0.005
    policy_noise: float = 0.2
    noise_clip: float = 0.5
    policy_every: int = 2
    alpha: float = 2.5
    learning_rate: float = 3e-4
    batch_size: int = 256
    normalize: bool = True
    init: str = "uniform"
    optimizer: optax.GradientTransformation | None = None


def smoothed(actions: jax.Array, normals: jax.Array, noise: float, bound: float) -> jax.Array:
    """Actions in [−1, 1] moved by clipped noise: [B, A], [B, A] standard normal -> [B, A]."""
    return jnp.clip(actions + jnp.clip(noise * normals, -bound, bound), -1, 1)


def clipped_double_target(rewards: jax.Array, discounts: jax.Array, values: jax.Array) -> jax.Array:
    """r + γ·the smaller of the two critics' values: [B], [B], [2, B] -> [B]."""
    return rewards + discounts * jnp.min(values, axis=0)


def value_weight(values: jax.Array, alpha: float) -> jax.Array:
    """λ = α / mean |Q| of the batch, repeated for every row (equation 5): [B] -> [B]."""
    # A critic that is zero everywhere, as one without a live path is, has no gradient to weigh: any finite λ will do.
    return jnp.full_like(values, alpha) / jnp.maximum(jnp.mean(jnp.abs(values)), 1e-8)


def regularized_value_loss(values: jax.Array, weights: jax.Array, cloning_errors: jax.Array) -> jax.Array:
    """−λQ + the squared error to the logged action (equation 3): [B], [B], [B] -> [B]."""
    return cloning_errors - weights * values


def td3_bc(spec: Spec, config: TD3BCConfig = TD3BCConfig()) -> Agent:
    """TD3+BC for continuous actions: networks `critic` (two, stacked) and `actor`.

    Raises:
      ValueError: discrete actions.
    """
    refuse_discrete("td3_bc", spec)
    return _td3_bc(spec, config, ())


@functools.cache
def _td3_bc(spec: Spec, config: TD3BCConfig, widths: tuple[tuple[str, int], ...]) -> Agent:
    critic = MLP((*sized(widths, "critic", config.hidden), 1), init_scheme=config.init)
    actor = MLP((*sized(widths, "actor", config.hidden), spec.action_size), init_scheme=config.init)

    def policy(params, observations):
        return jnp.tanh(apply(actor, params, observations))

    def evaluate(critics, observations, actions):
        """Both critics, [2, B]."""
        return apply_stacked(critic, critics, jnp.concatenate([observations, actions], axis=-1))[..., 0]

    def first_value(critics, observations, actions):
        return evaluate(jax.tree.map(lambda leaf: leaf[:1], critics), observations, actions)[0]

    def critic_prepare(batch: Transitions, noise, context):
        actions = policy(context.targets["actor"], batch.next_observations)
        actions = smoothed(actions, noise["target_actions"], config.policy_noise, config.noise_clip)
        values = evaluate(context.targets["critic"], batch.next_observations, actions)
        targets = clipped_double_target(batch.rewards, config.discount * batch.discounts, values)
        return {"observations": batch.observations, "actions": batch.actions, "targets": targets}

    def critic_predict(params, rows, context):
        return evaluate(params, rows["observations"], rows["actions"]).T

    def critic_loss(outputs, rows, context):
        return twin_squared_error(outputs, rows["targets"])

    def actor_prepare(batch: Transitions, noise, context):
        actions = policy(context.params["actor"], batch.observations)
        values = first_value(context.params["critic"], batch.observations, actions)
        return {"observations": batch.observations, "actions": batch.actions, "weights": value_weight(values, config.alpha)}

    def actor_predict(params, rows, context):
        return policy(params, rows["observations"])

    def actor_loss(outputs, rows, context):
        values = first_value(context.params["critic"], rows["observations"], outputs)
        return regularized_value_loss(values, rows["weights"], squared_error(outputs, rows["actions"]))

    def draw(key, n):
        return {"target_actions": jax.random.normal(key, (n, spec.action_size))}

    def choose(params, observations, key):
        return policy(params["actor"], observations)

    def optimizer():
        return config.optimizer or optax.adam(config.learning_rate)

    networks = {
        "critic": Network(
            init=lambda key: stacked_parameters(critic, key, spec.observation_size + spec.action_size, 2),
            objective=Objective(critic_predict, critic_loss, critic_prepare, lambda params, context: linear_signal(params, members=2)),
            optimizer=optimizer(),
            groups=unit_groups(critic, members=2),
            members=2,
            tau=config.tau,
            target_every=config.policy_every,
        ),
        "actor": Network(
            init=lambda key: actor.parameters(key, spec.observation_size),
            objective=Objective(actor_predict, actor_loss, actor_prepare, lambda params, context: linear_signal(params), convex=False),
            optimizer=optimizer(),
            groups=unit_groups(actor),
            tau=config.tau,
            every=config.policy_every,
            target_every=config.policy_every,
        ),
    }
    deployment = DeterministicPolicy("actor")
    return Agent("td3_bc", spec, config, widths, networks=networks, draw_rows=draw, choose=choose, build=_td3_bc, deployment=deployment)
