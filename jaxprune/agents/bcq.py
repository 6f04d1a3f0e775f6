"""Batch-constrained deep Q-learning (Fujimoto, Meger and Precup 2019), after its authors' code."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import optax

from jaxprune.agents.base import Agent, Network, refuse_discrete, sized
from jaxprune.agents.deployment import CandidatePolicy
from jaxprune.data.transitions import Spec, Transitions
from jaxprune.networks import MLP, apply, apply_stacked, linear_signal, stacked_parameters, unit_groups
from jaxprune.objective import Objective


@dataclasses.dataclass(frozen=True)
class BCQConfig:
    """BCQ for continuous actions.

    Attributes:
      vae_hidden, hidden: hidden sizes of the VAE's two perceptrons, and of critics and actor.
      latent_per_action: latent features for each action feature.
      discount: γ.
      tau: step of the target critics and the target actor.
      mixture: weight of the smaller of two target values, the larger having the rest.
      phi: bound of the actor's perturbation, in units of half the action range.
      latent_clip: bound of the latents when sampling actions.
      candidates: actions tried in the target.
      evaluation_candidates: actions tried when acting.
      kl_weight: weight of the KL term, averaged over batch and latent features.
      learning_rate, batch_size, normalize, init, optimizer: of all networks.
    """

    vae_hidden: tuple[int, ...] = (750, 750)
    hidden: tuple[int, ...] = (400, 300)
    latent_per_action: int = 2
    discount: float = 0.99
    tau: float = 0.005
    mixture: float = 0.75
    phi: float = 0.05
    latent_clip: float = 0.5
    candidates: int = 10
    evaluation_candidates: int = 100
    kl_weight: float = 0.5
    learning_rate: float = 1e-3
    batch_size: int = 100
    normalize: bool = True
    init: str = "uniform"
    optimizer: optax.GradientTransformation | None = None


def reconstruction_error(reconstruction: jax.Array, actions: jax.Array) -> jax.Array:
    """Mean squared error over action features: [B, A], [B, A] -> [B]."""
    return jnp.mean((reconstruction - actions) ** 2, axis=-1)


def kl_divergence(mean: jax.Array, log_std: jax.Array) -> jax.Array:
    """KL(N(mean, std²) ‖ N(0, 1)) averaged over latent features: [B, L], [B, L] -> [B]."""
    return -0.5 * jnp.mean(1 + 2 * log_std - mean**2 - jnp.exp(2 * log_std), axis=-1)


def soft_clipped_target(rewards: jax.Array, discounts: jax.Array, values: jax.Array, mixture: float) -> jax.Array:
    """r + γ·max over candidates of (λ·min + (1 − λ)·max of the two critics): [B], [B], [2, B, candidates] -> [B]."""
    mixed = mixture * jnp.min(values, axis=0) + (1 - mixture) * jnp.max(values, axis=0)
    return rewards + discounts * jnp.max(mixed, axis=-1)


def perturbed(actions: jax.Array, perturbation: jax.Array, phi: float) -> jax.Array:
    """Actions moved by at most φ and kept in [−1, 1]; the perturbation is the actor's output before tanh."""
    return jnp.clip(actions + phi * jnp.tanh(perturbation), -1, 1)


def twin_squared_error(values: jax.Array, targets: jax.Array) -> jax.Array:
    """Squared errors of both critics, added: [B, 2], [B] -> [B]."""
    return jnp.sum((values - targets[:, None]) ** 2, axis=-1)


def bcq(spec: Spec, config: BCQConfig = BCQConfig()) -> Agent:
    """BCQ for continuous actions: networks `vae` (chains encoder and decoder), `critic` (two, stacked) and `actor`."""
    refuse_discrete("bcq", spec)
    return _bcq(spec, config, ())


@functools.cache
def _bcq(spec: Spec, config: BCQConfig, widths: tuple[tuple[str, int], ...]) -> Agent:
    latent = config.latent_per_action * spec.action_size
    both = spec.observation_size + spec.action_size

    def mlp(network: str, hidden: tuple[int, ...], outputs: int, prefix: str = "") -> MLP:
        return MLP((*sized(widths, network, hidden, prefix=prefix), outputs), init_scheme=config.init)

    encoder = mlp("vae", config.vae_hidden, 2 * latent, "encoder")
    decoder = mlp("vae", config.vae_hidden, spec.action_size, "decoder")
    critic = mlp("critic", config.hidden, 1)
    actor = mlp("actor", config.hidden, spec.action_size)

    def join(*parts):
        return jnp.concatenate(parts, axis=-1)

    def decode(vae, observations, latents):
        return jnp.tanh(apply(decoder, vae["decoder"], join(observations, latents)))

    def propose(vae, actor_params, observations, latents):
        """Decoded actions, perturbed by the actor."""
        latents = jnp.clip(latents, -config.latent_clip, config.latent_clip)
        actions = decode(vae, observations, latents)
        return perturbed(actions, apply(actor, actor_params, join(observations, actions)), config.phi)

    def evaluate(critics, observations, actions):
        """Both critics, [2, ...]."""
        return apply_stacked(critic, critics, join(observations, actions))[..., 0]

    def repeated(observations, count):
        return jnp.broadcast_to(observations[:, None], (observations.shape[0], count, observations.shape[1]))

    # VAE

    def vae_prepare(batch: Transitions, noise, context):
        return {"observations": batch.observations, "actions": batch.actions, "eps": noise["eps"]}

    def vae_predict(params, rows, context):
        moments = apply(encoder, params["encoder"], join(rows["observations"], rows["actions"]))
        mean, log_std = moments[..., :latent], jnp.clip(moments[..., latent:], -4, 15)
        return {
            "mean": mean,
            "log_std": log_std,
            "actions": decode(params, rows["observations"], mean + jnp.exp(log_std) * rows["eps"]),
        }

    def vae_loss(outputs, rows, context):
        error = reconstruction_error(outputs["actions"], rows["actions"])
        return error + config.kl_weight * kl_divergence(outputs["mean"], outputs["log_std"])

    def vae_signal(params, context):
        return linear_signal(params["encoder"], params["decoder"])

    def vae_monitor(outputs, rows):
        return {"vae_reconstruction": jnp.mean(reconstruction_error(outputs["actions"], rows["actions"]))}

    # critics

    def critic_prepare(batch: Transitions, noise, context):
        following = repeated(batch.next_observations, config.candidates)
        actions = propose(context.params["vae"], context.targets["actor"], following, noise["next_latents"])
        values = evaluate(context.targets["critic"], following, actions)
        targets = soft_clipped_target(batch.rewards, config.discount * batch.discounts, values, config.mixture)
        return {"observations": batch.observations, "actions": batch.actions, "targets": targets}

    def critic_predict(params, rows, context):
        return evaluate(params, rows["observations"], rows["actions"]).T

    def critic_loss(outputs, rows, context):
        return twin_squared_error(outputs, rows["targets"])

    def critic_signal(params, context):
        return linear_signal(params, members=2)

    # actor

    def actor_prepare(batch: Transitions, noise, context):
        latents = jnp.clip(noise["latents"], -config.latent_clip, config.latent_clip)
        return {"observations": batch.observations, "actions": decode(context.params["vae"], batch.observations, latents)}

    def actor_predict(params, rows, context):
        return perturbed(rows["actions"], apply(actor, params, join(rows["observations"], rows["actions"])), config.phi)

    def actor_loss(outputs, rows, context):
        first = jax.tree.map(lambda leaf: leaf[0], context.params["critic"])
        return -apply(critic, first, join(rows["observations"], outputs))[..., 0]

    def actor_signal(params, context):
        return linear_signal(params)

    def draw(key, n):
        eps, following, current = jax.random.split(key, 3)
        return {
            "eps": jax.random.normal(eps, (n, latent)),
            "next_latents": jax.random.normal(following, (n, config.candidates, latent)),
            "latents": jax.random.normal(current, (n, latent)),
        }

    def choose(params, observations, key):
        count = config.evaluation_candidates
        latents = jax.random.normal(key, (observations.shape[0], count, latent), observations.dtype)
        candidates = repeated(observations, count)
        actions = propose(params["vae"], params["actor"], candidates, latents)
        first = jax.tree.map(lambda leaf: leaf[0], params["critic"])
        values = apply(critic, first, join(candidates, actions))[..., 0]
        return jnp.take_along_axis(actions, jnp.argmax(values, axis=-1)[:, None, None], axis=1)[:, 0]

    def vae_init(key):
        first, second = jax.random.split(key)
        return {
            "encoder": encoder.parameters(first, both),
            "decoder": decoder.parameters(second, spec.observation_size + latent),
        }

    def optimizer():
        return config.optimizer or optax.adam(config.learning_rate)

    networks = {
        "vae": Network(
            init=vae_init,
            objective=Objective(vae_predict, vae_loss, vae_prepare, vae_signal),
            optimizer=optimizer(),
            groups=(*unit_groups(encoder, prefix="encoder"), *unit_groups(decoder, prefix="decoder")),
            chains=("encoder", "decoder"),
            monitor=vae_monitor,
        ),
        "critic": Network(
            init=lambda key: stacked_parameters(critic, key, both, 2),
            objective=Objective(critic_predict, critic_loss, critic_prepare, critic_signal),
            optimizer=optimizer(),
            groups=unit_groups(critic, members=2),
            members=2,
            tau=config.tau,
        ),
        "actor": Network(
            init=lambda key: actor.parameters(key, both),
            objective=Objective(actor_predict, actor_loss, actor_prepare, actor_signal, convex=False),
            optimizer=optimizer(),
            groups=unit_groups(actor),
            tau=config.tau,
        ),
    }
    deployment = CandidatePolicy("vae/decoder", "actor", "critic", latent, config.latent_clip, config.phi, config.evaluation_candidates)
    return Agent("bcq", spec, config, widths, networks=networks, draw_rows=draw, choose=choose, build=_bcq, deployment=deployment)
