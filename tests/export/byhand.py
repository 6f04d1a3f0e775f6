"""Policies computed from full-size parameters in float64, with none of the code under test."""

import numpy as np


def perceptron(params, x):
    layers = [params[f"Dense_{i}"] for i in range(len(params))]
    for i, layer in enumerate(layers):
        x = x @ np.asarray(layer["kernel"], np.float64) + np.asarray(layer["bias"], np.float64)
        if i < len(layers) - 1:
            x = np.where(x > 0, x, 0)
    return x


def standard(state, observations):
    mean, std = (np.asarray(leaf, np.float64) for leaf in (state.statistics.mean, state.statistics.std))
    return (np.asarray(observations, np.float64) - mean) / std


def scaled(spec, unit):
    low, high = np.asarray(spec.low), np.asarray(spec.high)
    return low + (unit + 1) / 2 * (high - low)


def bc_actions(agent, state, observations):
    return scaled(agent.spec, np.tanh(perceptron(state.params["policy"], standard(state, observations))))


def bcq_candidates(agent, state, observations, latents):
    """Actions in environment units [n, K, A] and values of the first critic [n, K]."""
    config, x = agent.config, standard(state, observations)
    latents = np.clip(np.asarray(latents, np.float64), -config.latent_clip, config.latent_clip)
    actions, values = [], []
    critic = {name: {leaf: array[0] for leaf, array in layer.items()} for name, layer in state.params["critic"].items()}
    for latent in latents:
        rows = np.concatenate([x, np.tile(latent, (len(x), 1))], axis=1)
        decoded = np.tanh(perceptron(state.params["vae"]["decoder"], rows))
        moved = np.tanh(perceptron(state.params["actor"], np.concatenate([x, decoded], axis=1)))
        unit = np.clip(decoded + config.phi * moved, -1, 1)
        actions.append(scaled(agent.spec, unit))
        values.append(perceptron(critic, np.concatenate([x, unit], axis=1))[:, 0])
    return np.stack(actions, axis=1), np.stack(values, axis=1)


def bcq_actions(agent, state, observations, latents):
    actions, values = bcq_candidates(agent, state, observations, latents)
    return actions[np.arange(len(actions)), values.argmax(axis=1)]


def live_mask(masks):
    """Masks of one perceptron cut to the weights on a path from its inputs to its outputs: {layer: bool [in, out]}."""
    kernels = [np.asarray(masks[f"Dense_{i}"]["kernel"]) for i in range(len(masks))]
    fed = [np.ones(kernels[0].shape[0], bool)]
    for kernel in kernels:
        fed.append((kernel & fed[-1][:, None]).any(axis=0))
    heard = [np.ones(kernels[-1].shape[1], bool)]
    for kernel in reversed(kernels):
        heard.insert(0, (kernel & heard[0][None]).any(axis=1))
    return [kernel & fed[i][:, None] & heard[i + 1][None] for i, kernel in enumerate(kernels)]
