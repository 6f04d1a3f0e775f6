"""Implicit Q-learning (Kostrikov, Nair and Levine 2021, arXiv 2110.06169), after its authors' code."""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import optax

from jaxprune.agents.base import Agent, Network, refuse_discrete, sized
from jaxprune.agents.bcq import twin_squared_error
from jaxprune.agents.deployment import DeterministicPolicy
from jaxprune.data.transitions import Spec, Transitions
from jaxprune.networks import MLP, apply, apply_stacked, linear_signal, stacked_parameters, unit_groups
from jaxprune.objective import Objective


@dataclasses.dataclass(frozen=True)
class IQLConfig:
    """IQL, with the authors' settings for MuJoCo.

    Two choices differ from their code: observations are standardised, as everywhere here, and kernels start as `init` says (theirs are
    orthogonal). Their rewards are scaled so that the best and the worst episode of a log are 1,000 apart: that is `reward_scale`.

    Attributes:
      hidden: hidden sizes of all networks.
      discount: γ.
      tau: step of the target critics.
      expectile: of the value, τ in the paper; above 0.5.
      temperature: inverse temperature β of the advantage weights.
      weight_clip: bound of those weights.
      log_std_min, log_std_max: bounds of the policy's log standard deviation, in units of half the action range.
      reward_scale: what rewards are multiplied by.
      max_steps: updates in which the actor's learning rate falls to zero along half a cosine: the length of the run.
      learning_rate, batch_size, normalize, init, optimizer: of all networks.
    """

    hidden: tuple[int, ...] = (256, 256)
    discount: float = 0.99
    tau: float = 0.005
    expectile: float = 0.7
    temperature: float = 3.0
    weight_clip: float = 100.0
    log_std_min: float = -5.0
    log_std_max: float = 2.0
    reward_scale: float = 1.0
    max_steps: int = 1_000_000
    learning_rate: float = 3e-4
    batch_size: int = 256
    normalize: bool = True
    init: str = "uniform"
    optimizer: optax.GradientTransformation | None = None


def expectile_error(differences: jax.Array, expectile: float) -> jax.Array:
    """|τ − 1(u ≤ 0)|·u² for u = Q − V (equation 5): [B] -> [B]."""
    return jnp.where(differences > 0, expectile, 1 - expectile).astype(differences.dtype) * differences**2


def advantage_weight(advantages: jax.Array, temperature: float, bound: float) -> jax.Array:
    """min(exp(β·(Q − V)), bound) (equation 7): [B] -> [B]."""
    return jnp.minimum(jnp.exp(temperature * advantages), bound)


def gaussian_surprise(scaled_mean: jax.Array, precision: jax.Array, actions: jax.Array) -> jax.Array:
    """−log N(a; μ, σ²) summed over action features, from μ/σ² and 1/σ²: [B, A] each -> [B]."""
    errors = actions - scaled_mean / precision
    return 0.5 * jnp.sum(precision * errors**2 - jnp.log(precision) + math.log(2 * math.pi), axis=-1)


def iql(spec: Spec, config: IQLConfig = IQLConfig()) -> Agent:
    """IQL for continuous actions: networks `value`, `actor` (chain mean; its log_std is no kernel) and `critic` (two, stacked).

    Raises:
      ValueError: discrete actions.
    """
    refuse_discrete("iql", spec)
    return _iql(spec, config, ())


@functools.cache
def _iql(spec: Spec, config: IQLConfig, widths: tuple[tuple[str, int], ...]) -> Agent:
    value = MLP((*sized(widths, "value", config.hidden), 1), init_scheme=config.init)
    actor = MLP((*sized(widths, "actor", config.hidden, prefix="mean"), spec.action_size), init_scheme=config.init)
    critic = MLP((*sized(widths, "critic", config.hidden), 1), init_scheme=config.init)

    def evaluate(critics, observations, actions):
        """Both critics, [2, B]."""
        return apply_stacked(critic, critics, jnp.concatenate([observations, actions], axis=-1))[..., 0]

    def smaller_target(context, batch: Transitions):
        return jnp.min(evaluate(context.targets["critic"], batch.observations, batch.actions), axis=0)

    def mean(params, observations):
        return jnp.tanh(apply(actor, params["mean"], observations))

    def value_prepare(batch: Transitions, noise, context):
        return {"observations": batch.observations, "values": smaller_target(context, batch)}

    def value_predict(params, rows, context):
        return apply(value, params, rows["observations"])[..., 0]

    def value_loss(outputs, rows, context):
        return expectile_error(rows["values"] - outputs, config.expectile)

    def actor_prepare(batch: Transitions, noise, context):
        advantages = smaller_target(context, batch) - apply(value, context.params["value"], batch.observations)[..., 0]
        weights = advantage_weight(advantages, config.temperature, config.weight_clip)
        return {"observations": batch.observations, "actions": batch.actions, "weights": weights}

    def actor_predict(params, rows, context):
        # In μ/σ² and 1/σ² the loss is convex, which it is not in μ and log σ: so the Gauss-Newton matrix is exact and semi-definite.
        means = mean(params, rows["observations"])
        precision = jnp.exp(-2 * jnp.clip(params["log_std"], config.log_std_min, config.log_std_max))
        return {"scaled_mean": means * precision, "precision": jnp.broadcast_to(precision, means.shape)}

    def actor_loss(outputs, rows, context):
        return rows["weights"] * gaussian_surprise(outputs["scaled_mean"], outputs["precision"], rows["actions"])

    def critic_prepare(batch: Transitions, noise, context):
        following = apply(value, context.params["value"], batch.next_observations)[..., 0]
        targets = config.reward_scale * batch.rewards + config.discount * batch.discounts * following
        return {"observations": batch.observations, "actions": batch.actions, "targets": targets}

    def critic_predict(params, rows, context):
        return evaluate(params, rows["observations"], rows["actions"]).T

    def critic_loss(outputs, rows, context):
        return twin_squared_error(outputs, rows["targets"])

    def actor_init(key):
        mlp = actor.parameters(key, spec.observation_size)
        return {"mean": mlp, "log_std": jnp.zeros(spec.action_size, mlp["Dense_0"]["bias"].dtype)}

    def choose(params, observations, key):
        return mean(params["actor"], observations)

    networks = {
        "value": Network(
            init=lambda key: value.parameters(key, spec.observation_size),
            objective=Objective(value_predict, value_loss, value_prepare, lambda params, context: linear_signal(params)),
            optimizer=config.optimizer or optax.adam(config.learning_rate),
            groups=unit_groups(value),
        ),
        "actor": Network(
            init=actor_init,
            objective=Objective(actor_predict, actor_loss, actor_prepare, lambda params, context: linear_signal(params["mean"])),
            optimizer=config.optimizer or optax.adam(optax.cosine_decay_schedule(config.learning_rate, config.max_steps)),
            groups=unit_groups(actor, prefix="mean"),
            chains=("mean",),
        ),
        "critic": Network(
            init=lambda key: stacked_parameters(critic, key, spec.observation_size + spec.action_size, 2),
            objective=Objective(critic_predict, critic_loss, critic_prepare, lambda params, context: linear_signal(params, members=2)),
            optimizer=config.optimizer or optax.adam(config.learning_rate),
            groups=unit_groups(critic, members=2),
            members=2,
            tau=config.tau,
        ),
    }
    return Agent(
        "iql",
        spec,
        config,
        widths,
        networks=networks,
        draw_rows=lambda key, n: {},
        choose=choose,
        build=_iql,
        deployment=DeterministicPolicy("actor/mean"),
    )
