import jax
import jax.numpy as jnp
import numpy as np
import optax
from masked_training import Problem, fit, measured, stacked, unstacked

import jaxprune as jp


def regression(optimizer):
    """One linear layer, y = 2x₀ − x₁ + 1 and a third input that says nothing."""
    x = jax.random.normal(jax.random.key(0), (64, 3))
    rows = {"x": x, "y": (2 * x[:, 0] - x[:, 1] + 1)[:, None]}
    objective = jp.Objective(
        lambda params, rows, context: rows["x"] @ params["kernel"] + params["bias"],
        lambda outputs, rows, context: jnp.mean((outputs - rows["y"]) ** 2, axis=-1),
    )
    return Problem(objective, rows, rows, rows, optimizer, 8, lambda outputs, rows: jnp.abs(outputs - rows["y"])[:, 0] > 0.5)


def test_updates_by_hand_and_masked_weights_stay_zero():
    problem = regression(optax.sgd(0.1))
    params = {"kernel": jnp.array([[0.5], [0.5], [0.5]]), "bias": jnp.zeros(1)}
    masks = {"kernel": jnp.array([[True], [False], [True]]), "bias": jnp.ones(1, bool)}
    keys = jnp.stack([jax.random.key(3), jax.random.key(4)])
    trained, curve = fit(problem, stacked([params] * 2), stacked([masks] * 2), keys, (1, 3))
    for run, key in zip(unstacked(trained), keys, strict=True):
        kernel, bias = np.array([[0.5], [0.0], [0.5]]), np.zeros(1)
        for step in range(3):
            chosen = np.asarray(jax.random.randint(jax.random.fold_in(key, step), (8,), 0, 64))
            x, y = (np.asarray(problem.train[name])[chosen] for name in ("x", "y"))
            residual = 2 * (x @ kernel + bias - y) / 8
            kernel, bias = kernel - 0.1 * np.where(masks["kernel"], x.T @ residual, 0), bias - 0.1 * residual.sum(axis=0)
        np.testing.assert_allclose(run["kernel"], kernel, atol=1e-6)
        np.testing.assert_allclose(run["bias"], bias, atol=1e-6)
        assert float(run["kernel"][1, 0]) == 0.0
    assert {name: values.shape for name, values in curve.items()} == dict.fromkeys(("loss", "held_out_loss", "error"), (2, 2))
    np.testing.assert_allclose(curve["loss"][0, -1], measured(problem, unstacked(trained)[0])["loss"], rtol=1e-6)


def test_it_learns_what_the_mask_allows():
    problem = regression(optax.adam(0.05))
    params = {"kernel": jnp.zeros((3, 1)), "bias": jnp.zeros(1)}
    masks = {"kernel": jnp.array([[True], [True], [False]]), "bias": jnp.ones(1, bool)}
    trained, curve = fit(problem, stacked([params]), stacked([masks]), jax.random.key(1)[None], (10, 400))
    np.testing.assert_allclose(trained["kernel"][0, :, 0], [2, -1, 0], atol=1e-2)
    assert float(curve["error"][0, -1]) == 0
