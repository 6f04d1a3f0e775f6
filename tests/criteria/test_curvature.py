"""Curvature diagonals against dense Hessians of tiny networks, and which one a loss gets."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from jaxprune.criteria import CRITERIA
from jaxprune.criteria.curvature import diagonal, fisher_diagonal, ggn_diagonal, hutchinson_diagonal, resolve_curvature
from jaxprune.objective import Objective, sum_over_rows

pytestmark = pytest.mark.usefixtures("x64", "strict")


def coupled(convex=True):
    """Outputs are a tree, {mean [B, 2], scale [B]}, and the loss couples all of them: log Σ exp plus squares."""

    def predict(params, rows, context):
        hidden = jnp.tanh(rows["x"] @ params["a"]["kernel"] + params["a"]["bias"])
        mean = hidden @ params["b"]["kernel"]
        return {"mean": mean, "scale": jnp.sum(hidden, axis=-1)}

    def loss(outputs, rows, context):
        together = jnp.concatenate([outputs["mean"], outputs["scale"][:, None]], axis=-1)
        return jax.nn.logsumexp(together, axis=-1) + jnp.sum((outputs["mean"] - rows["y"]) ** 2, axis=-1) * context

    return Objective(predict, loss, convex=convex, context=jnp.asarray(0.3))


def network():
    keys = jax.random.split(jax.random.key(0), 5)
    params = {
        "a": {"kernel": jax.random.normal(keys[0], (3, 4)), "bias": jax.random.normal(keys[1], (4,))},
        "b": {"kernel": jax.random.normal(keys[2], (4, 2))},
    }
    rows = {"x": jax.random.normal(keys[3], (7, 3)), "y": jax.random.normal(keys[4], (7, 2))}
    return params, rows


def one(rows, i):
    return jax.tree.map(lambda leaf: leaf[i : i + 1], rows)


def flatten(tree):
    return np.asarray(ravel_pytree(tree)[0])


@pytest.mark.parametrize("chunk", [None, 3])
def test_gauss_newton_of_coupled_outputs_is_the_dense_matrix(chunk):
    objective, (params, rows) = coupled(), network()
    flat, unravel = ravel_pytree(params)

    @jax.jit
    def dense(flat, row):
        outputs = lambda f: ravel_pytree(objective.outputs(unravel(f), row))[0]  # noqa: E731
        shape = ravel_pytree(objective.outputs(params, row))[1]
        jacobian = jax.jacobian(outputs)(flat)
        hessian = jax.hessian(lambda o: objective.loss(shape(o), row, objective.context)[0])(outputs(flat))
        return jnp.diagonal(jacobian.T @ hessian @ jacobian)

    expected = np.mean([dense(flat, one(rows, i)) for i in range(7)], axis=0)
    got = jax.jit(lambda p, r: ggn_diagonal(objective, p, r, chunk=chunk))(params, rows)
    np.testing.assert_allclose(flatten(got), expected, rtol=1e-10, atol=1e-14)


def test_fisher_squares_each_rows_gradient():
    objective, (params, rows) = coupled(convex=False), network()
    gradient = jax.jit(jax.grad(objective))
    expected = np.mean([flatten(gradient(params, one(rows, i))) ** 2 for i in range(7)], axis=0)
    np.testing.assert_allclose(flatten(fisher_diagonal(objective, params, rows)), expected, rtol=1e-10)


def test_hutchinson_lies_within_its_standard_error():
    objective, (params, rows) = coupled(convex=False), network()
    flat, unravel = ravel_pytree(params)
    expected = np.diagonal(jax.jit(jax.hessian(lambda f: objective(unravel(f), rows)))(flat))
    mean, error = jax.jit(lambda p, r, key: hutchinson_diagonal(objective, p, r, key, samples=400))(params, rows, jax.random.key(3))
    deviations = (flatten(mean) - expected) / flatten(error)
    # 24 entries: a normal deviate beyond 4 has a chance of 24 · 6e-5 = 0.2 %, and the mean square lies within 1 ± 5·√(2/24).
    assert np.abs(deviations).max() < 4
    assert np.mean(deviations**2) < 2.5
    assert (flatten(error) > 0).all()


def test_hutchinson_is_exact_where_the_hessian_is_diagonal():
    params = {"kernel": jnp.array([1.0, 2.0, -3.0])}
    mean, error = hutchinson_diagonal(lambda p, rows: jnp.sum(p["kernel"] ** 4), params, None, jax.random.key(0), samples=3)
    np.testing.assert_allclose(mean["kernel"], 12 * params["kernel"] ** 2, rtol=1e-14)
    np.testing.assert_allclose(error["kernel"], 0, atol=1e-12)


def test_auto_is_gauss_newton_where_convex_and_hutchinson_elsewhere():
    params, rows = network()
    assert resolve_curvature(coupled(), "auto") == "ggn"
    assert resolve_curvature(coupled(convex=False), "auto") == "hutchinson"
    key = jax.random.key(0)
    jax.tree.map(np.testing.assert_array_equal, diagonal(coupled(), params, rows, None), ggn_diagonal(coupled(), params, rows))
    loss = coupled(convex=False)
    jax.tree.map(
        np.testing.assert_array_equal,
        diagonal(loss, params, rows, key, samples=4),
        hutchinson_diagonal(loss, params, rows, key, samples=4)[0],
    )


@pytest.mark.parametrize("name", ["obd", "qm"])
def test_what_cannot_be_computed_is_refused(name):
    params, rows = network()
    score = CRITERIA[name]
    with pytest.raises(ValueError, match=r"hutchinson.*fisher"):
        score(coupled(convex=False), params, rows, curvature="ggn")
    with pytest.raises(ValueError, match="key"):
        score(coupled(convex=False), params, rows)
    with pytest.raises(ValueError, match="'predict'"):
        score(lambda params, rows: 0.0, params, rows)
    with pytest.raises(ValueError, match="auto, ggn, fisher, hutchinson"):
        score(coupled(), params, rows, curvature="kfac")
    with pytest.raises(ValueError, match="2 samples"):
        score(coupled(), params, rows, jax.random.key(0), curvature="hutchinson", samples=1)


def test_without_matfree_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matfree", None)
    params, rows = network()
    with pytest.raises(ImportError, match=r"jaxprune\[curvature\]"):
        hutchinson_diagonal(coupled(), params, rows, jax.random.key(0))


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 50])
def test_sum_over_rows_by_hand(chunk):
    rows = {"x": jnp.arange(7.0)}
    assert sum_over_rows(lambda part: jnp.sum(part["x"] ** 2), rows, chunk) == 91


def test_chunks_of_no_row_are_refused():
    with pytest.raises(ValueError, match="chunk=0"):
        sum_over_rows(lambda part: jnp.sum(part), jnp.arange(3.0), 0)
