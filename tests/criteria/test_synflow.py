"""SynFlow on deep networks in float32, against NumPy in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxprune.criteria import CRITERIA
from jaxprune.networks import MLP, linear_signal
from jaxprune.objective import Objective
from jaxprune.pruning.masks import kept_count
from jaxprune.pruning.prune import prune, score
from jaxprune.pruning.schedules import kept_after

OBJECTIVE = Objective(lambda *_: jnp.zeros(1), lambda *_: jnp.zeros(1), signal=lambda params, context: linear_signal(params))
LAYERS, WIDTH = 30, 32


def synflow(params):
    return score(OBJECTIVE, params, None, criterion="synflow")


def deep(gain=1.0, dtype=np.float32):
    params = MLP((WIDTH,) * (LAYERS - 1) + (2,), init_scheme="reference").parameters(jax.random.key(0), 8)
    return jax.tree.map(lambda leaf: np.asarray(leaf * gain).astype(dtype), params)


def flow(kernels, biases):
    """|W| ⊙ ∂R/∂|W| of every layer, forward and backward by hand, in float64."""
    kernels, biases = ([np.abs(np.asarray(leaf, np.float64)) for leaf in leaves] for leaves in (kernels, biases))
    signals = [np.ones(len(kernels[0]))]
    for kernel, bias in zip(kernels, biases, strict=True):
        signals.append(signals[-1] @ kernel + bias)
    slope, scores = np.ones(kernels[-1].shape[1]), []
    for kernel, signal in zip(reversed(kernels), reversed(signals[:-1]), strict=True):
        scores.append(kernel * np.outer(signal, slope))
        slope = kernel @ slope
    return scores[::-1]


def layers(params):
    names = [f"Dense_{i}" for i in range(len(params))]
    return [params[name]["kernel"] for name in names], [params[name]["bias"] for name in names]


def best(scores, count):
    flat = np.concatenate([score.ravel() for score in scores])
    mask = np.zeros(flat.size, bool)
    mask[np.argsort(-flat, kind="stable")[:count]] = True
    return [part.reshape(s.shape) for part, s in zip(np.split(mask, np.cumsum([s.size for s in scores])[:-1]), scores, strict=True)]


# At 2^±6 a layer, the unscaled signal leaves float32 on either side.
@pytest.mark.parametrize("gain", [1.0, 64.0, 1 / 64])
def test_one_shot_mask_of_thirty_layers_is_the_float64_one(gain):
    params = deep(gain)
    scores = synflow(params)
    assert all(np.isfinite(leaf).all() and leaf.dtype == np.float32 for leaf in jax.tree.leaves(scores))
    # At a small gain the last biases outweigh everything before them, and the first layers' scores are truly below float32.
    assert gain < 1 or all(leaf.any() for leaf in layers(scores)[0])
    exact = flow(*layers(params))
    kernels = layers(prune(OBJECTIVE, params, None, criterion="synflow", sparsity=0.8))[0]
    expected = best(exact, kept_count(0.8, sum(score.size for score in exact)))
    for got, mask in zip(kernels, expected, strict=True):
        np.testing.assert_array_equal(got, mask)


def test_a_hundred_rounds_keep_the_layers_of_float64():
    params = deep()
    masks = layers(prune(OBJECTIVE, params, None, criterion="synflow", sparsity=0.9, rounds=100))[0]
    kernels, biases = layers(params)
    live = [np.ones(kernel.shape, bool) for kernel in kernels]
    for count in kept_after(0.9, sum(kernel.size for kernel in kernels), rounds=100):
        scores = flow([np.where(m, k, 0) for m, k in zip(live, kernels, strict=True)], biases)
        live = best([np.where(m, s, -np.inf) for m, s in zip(live, scores, strict=True)], count)
    for got, expected in zip(masks, live, strict=True):
        assert abs(int(got.sum()) - int(expected.sum())) <= max(1, 0.01 * expected.sum())
    assert all(mask.any() for mask in masks)


def test_zero_biases_and_a_dead_network_stay_finite():
    params = deep()
    for layer in params.values():
        layer["bias"] = np.zeros_like(layer["bias"])
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(synflow(params)))
    params["Dense_3"]["kernel"] = np.zeros_like(params["Dense_3"]["kernel"])
    dead = synflow(params)
    assert not any(leaf.any() for leaf in jax.tree.leaves(dead))


def test_signal_is_the_true_one_where_it_fits():
    params = MLP((5, 3), init_scheme="reference").parameters(jax.random.key(1), 4)
    kernels, biases = ([np.abs(leaf) for leaf in leaves] for leaves in layers(params))
    expected = np.sum((np.ones(4) @ kernels[0] + biases[0]) @ kernels[1] + biases[1])
    assert linear_signal(params) == pytest.approx(expected, rel=1e-6)


def test_members_and_networks_share_one_scale():
    mlp = MLP((5, 3), init_scheme="reference")
    first, second = (mlp.parameters(jax.random.key(seed), 4) for seed in (0, 1))
    second = jax.tree.map(lambda leaf: 37 * leaf, second)
    total = linear_signal(first) + linear_signal(second)
    stacked = jax.tree.map(lambda a, b: jnp.stack([a, b]), first, second)
    assert linear_signal(stacked, members=2) == pytest.approx(float(total), rel=1e-6)
    assert linear_signal(first, second) == pytest.approx(float(total), rel=1e-6)


def test_data_are_not_read_and_a_missing_signal_is_named():
    with pytest.raises(ValueError, match="'signal'"):
        CRITERIA["synflow"](OBJECTIVE.replace(signal=None), deep(), None)
    with pytest.raises(ValueError, match="'signal'"):
        prune(lambda params, rows: jnp.float32(0), deep(), None, criterion="synflow")
