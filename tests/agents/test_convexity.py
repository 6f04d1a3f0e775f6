"""Losses are convex where an algorithm says so, Gauss-Newton is refused where it does not, and diagonals are exact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import jaxprune as jp
from jaxprune.criteria.curvature import ggn_diagonal
from tests.agents.small import NAMES, small_agent, small_log, small_spec
from tests.agents.states import filled, fresh_state
from tests.conftest import statistics_of

CONVEX = {
    "bc": {"policy": True},
    "bcq": {"vae": True, "critic": True, "actor": False},
    "td3_bc": {"critic": True, "actor": False},
    "iql": {"value": True, "actor": True, "critic": True},
    "discrete_bc": {"policy": True},
    "discrete_bcq": {"critic": True, "imitation": True},
}


def started(name, **settings):
    log = small_log(name, 40, dtype=np.float64)
    agent = small_agent(name, small_spec(name), **settings)
    state = filled(agent, fresh_state(agent, statistics_of(log)))
    return agent, state.replace(params=jax.tree.map(lambda x: 0.5 * x, state.params)), log


@pytest.mark.parametrize("name", NAMES)
def test_a_loss_called_convex_is(name, x64):
    """The second derivative in the outputs has no negative eigenvalue, at the network's own outputs and far from them."""
    agent, state, log = started(name)
    assert {network: agent.networks[network].objective.convex for network in agent.order} == CONVEX[name]
    noise = agent.draw(jax.random.key(0), 40)
    for network in (network for network in agent.order if CONVEX[name][network]):
        objective = agent.objective(network, state)

        def least_eigenvalues(objective, params, scale):
            rows = objective.rows(log, noise)

            def least(outputs, row):
                flat, shape = ravel_pytree(outputs)
                hessian = jax.hessian(lambda o: objective.loss(jax.tree.map(lambda x: x[None], shape(o)), row, objective.context)[0])(flat)
                return jnp.linalg.eigvalsh(hessian)[0] / (1 + jnp.abs(hessian).max())

            outputs = jax.tree.map(lambda x: scale * x, objective.outputs(params, rows))
            return jax.vmap(lambda o, r: least(o, jax.tree.map(lambda x: x[None], r)))(outputs, rows)

        compiled = jax.jit(least_eigenvalues)
        lowest = min(float(compiled(objective, state.params[network], scale).min()) for scale in (0.3, 1.0, 3.0))
        assert lowest >= -1e-9, network


@pytest.mark.parametrize("name", [name for name in NAMES if not all(CONVEX[name].values())])
def test_gauss_newton_is_refused_where_a_loss_is_not_convex(name):
    log = small_log(name, 40)
    agent = small_agent(name, small_spec(name))
    state = fresh_state(agent, statistics_of(log))
    with pytest.raises(ValueError, match="needs a loss that is convex in the network's outputs, and this objective says convex=False"):
        jp.prune_agent(agent, state, log, jax.random.key(0), criterion="obd", networks="actor", curvature="ggn")


def jacobian(function, params):
    """Leaves [B, outputs, …]."""
    return jax.tree.map(np.asarray, jax.jit(jax.jacrev(function))(params))


def test_softmax_curvature_is_exact(x64):
    """Σ_ab J_a (p_a δ_ab − p_a p_b) J_b, averaged over rows, with p the softmax of the logits."""
    agent, state, log = started("discrete_bc", hidden=(5,))
    objective, params = agent.objective("policy", state), state.params["policy"]
    rows = objective.rows(log, {})
    diagonal = jax.jit(lambda o, p, r: ggn_diagonal(o, p, r))(objective, params, rows)
    logits = np.asarray(objective.outputs(params, rows))
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    middle = np.einsum("ba,ac->bac", p, np.eye(3)) - np.einsum("ba,bc->bac", p, p)
    jacobians = jacobian(lambda q: objective.outputs(q, rows), params)
    jax.tree.map(
        lambda d, j: np.testing.assert_allclose(d, np.einsum("ba...,bac,bc...->...", j, middle, j) / 40, rtol=1e-9, atol=1e-12),
        diagonal,
        jacobians,
    )


def test_gaussian_curvature_is_exact(x64):
    """w·(∂μ/∂θ)²/σ² for the mean's parameters and 2w for log σ, the Fisher information of a normal distribution; averaged over rows."""
    agent, state, log = started("iql", hidden=(5,))
    params = {**state.params["actor"], "log_std": jnp.asarray([0.3, -0.7])}
    objective = agent.objective("actor", state)
    rows = objective.rows(log, {})
    diagonal = jax.jit(lambda o, p, r: ggn_diagonal(o, p, r))(objective, params, rows)
    sigma, weights = np.exp([0.3, -0.7]), np.asarray(rows["weights"])
    assert weights.std() > 0.1

    def means(mean):
        x = rows["observations"]
        x = jnp.maximum(x @ mean["Dense_0"]["kernel"] + mean["Dense_0"]["bias"], 0)
        return jnp.tanh(x @ mean["Dense_1"]["kernel"] + mean["Dense_1"]["bias"])

    jax.tree.map(
        lambda d, j: np.testing.assert_allclose(d, np.einsum("b,a,ba...->...", weights, 1 / sigma**2, j**2) / 40, rtol=1e-9, atol=1e-12),
        diagonal["mean"],
        jacobian(means, params["mean"]),
    )
    np.testing.assert_allclose(diagonal["log_std"], [2 * weights.mean()] * 2, rtol=1e-9)
