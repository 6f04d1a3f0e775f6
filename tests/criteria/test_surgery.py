"""OBS, ExactOBS and Wanda against dense matrices in NumPy."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from jaxprune.criteria.layerwise import exact_obs, perceptron_inputs, wanda
from jaxprune.criteria.obs import obs_prune
from jaxprune.parameters import apply_masks, prunable_leaves, replace_leaves

pytestmark = pytest.mark.usefixtures("x64", "strict")


def dense_gauss_newton(network):
    """The kernels' Gauss-Newton matrix of the mean squared error, from the dense Jacobian; and the kernels, flat."""
    kernels, unravel = ravel_pytree(prunable_leaves(network.params))

    def outputs(flat):
        return network.objective.outputs(replace_leaves(network.params, unravel(flat)), network.rows).ravel()

    jacobian = np.asarray(jax.jit(jax.jacobian(outputs))(kernels))
    return 2 * jacobian.T @ jacobian / len(jacobian), np.asarray(kernels)


def greedy(matrix, weights, count):
    """One removal at a time, each by a fresh inverse of the remaining weights' matrix."""
    weights, left = weights.copy(), list(range(len(weights)))
    for _ in range(count):
        inverse = np.linalg.inv(matrix[np.ix_(left, left)])
        costs = weights[left] ** 2 / (2 * np.diag(inverse))
        q = int(np.argmin(costs))
        weights[left] -= weights[left][q] / inverse[q, q] * inverse[:, q]
        weights[left[q]] = 0
        del left[q]
    return weights, np.isin(np.arange(len(weights)), left)


def flat_kernels(tree):
    return np.asarray(ravel_pytree(prunable_leaves(tree))[0])


@pytest.mark.parametrize("count", [0, 1, 17, 43])
def test_obs_is_dense_brute_force(network, count):
    case = network(jax.random.key(0), (3, 5, 4, 2))
    matrix, weights = dense_gauss_newton(case)
    damped = matrix + 0.05 * np.trace(matrix) / len(matrix) * np.eye(len(matrix))
    expected, left = greedy(damped, weights, count)
    params, masks = obs_prune(case.objective, case.params, case.rows, keep=43 - count, damping=0.05, block=None)
    np.testing.assert_array_equal(flat_kernels(masks), left)
    np.testing.assert_allclose(flat_kernels(params), expected, rtol=1e-7, atol=1e-12)
    assert (flat_kernels(params)[~left] == 0).all()
    for layer in params:
        np.testing.assert_array_equal(params[layer]["bias"], case.params[layer]["bias"])
        assert masks[layer]["bias"].all()


def test_obs_in_blocks_is_brute_force_on_the_block_diagonal(network):
    case = network(jax.random.key(1), (3, 5, 4, 2))
    matrix, weights = dense_gauss_newton(case)
    inside = np.arange(43) // 8
    blocked = np.where(inside[:, None] == inside, matrix, 0) + 0.01 * np.trace(matrix) / 43 * np.eye(43)
    expected, left = greedy(blocked, weights, 30)
    params, masks = obs_prune(case.objective, case.params, case.rows, keep=13, block=8)
    np.testing.assert_array_equal(flat_kernels(masks), left)
    np.testing.assert_allclose(flat_kernels(params), expected, rtol=1e-7, atol=1e-12)


def test_obs_takes_its_curvature_at_the_masked_network(network):
    case = network(jax.random.key(4))
    _, masks = obs_prune(case.objective, case.params, case.rows, keep=30)
    masked = apply_masks(case.params, masks)
    one, other = (obs_prune(case.objective, params, case.rows, keep=20, masks=masks) for params in (case.params, masked))
    jax.tree.map(np.testing.assert_array_equal, one, other)


def test_obs_in_rounds_leaves_removed_weights_alone(network):
    case = network(jax.random.key(2))
    params, masks = obs_prune(case.objective, case.params, case.rows, keep=40)
    later, fewer = obs_prune(case.objective, params, case.rows, keep=20, masks=masks)
    assert flat_kernels(fewer).sum() == 20
    assert not (flat_kernels(fewer) & ~flat_kernels(masks)).any()
    assert (flat_kernels(later)[~flat_kernels(fewer)] == 0).all()
    with pytest.raises(ValueError, match="between 0 and 40"):
        obs_prune(case.objective, params, case.rows, keep=41, masks=masks)


def test_obs_moves_the_kept_weights_to_a_smaller_loss_near_a_minimum(network):
    case = network(jax.random.key(3), rows=200)
    rows = {**case.rows, "y": case.objective.outputs(case.params, case.rows)}
    params, masks = obs_prune(case.objective, case.params, rows, keep=52, damping=1e-4, block=None)
    untouched = case.objective(jax.tree.map(lambda p, m: jnp.where(m, p, 0.0), case.params, masks), rows)
    assert 0 < case.objective(params, rows) < untouched / 2


def test_obs_refusals(network):
    case = network(jax.random.key(0))
    with pytest.raises(TypeError, match="kept_count"):
        obs_prune(case.objective, case.params, case.rows, keep=0.5)
    with pytest.raises(ValueError, match="predict"):
        obs_prune(lambda params, rows: 0.0, case.params, case.rows, keep=3)
    with pytest.raises(ValueError, match="fisher"):
        obs_prune(case.objective.replace(convex=False), case.params, case.rows, keep=3, curvature="ggn")
    with pytest.raises(ValueError, match="prunable"):
        obs_prune(case.objective, {"bias": jnp.ones(3)}, case.rows, keep=0)
    params, masks = obs_prune(case.objective.replace(convex=False), case.params, case.rows, keep=3)
    assert flat_kernels(masks).sum() == (flat_kernels(params) != 0).sum() == 3


def layer(seed, rows=9, inputs=4, outputs=3):
    keys = jax.random.split(jax.random.key(seed), 3)
    mixing = jax.random.normal(keys[2], (inputs, inputs))
    return jax.random.normal(keys[0], (inputs, outputs)), jax.random.normal(keys[1], (rows, inputs)) @ mixing


@pytest.mark.parametrize("count", [0, 1, 7, 12])
def test_exact_obs_is_greedy_over_all_outputs(count):
    kernel, x = layer(0)
    matrix = np.asarray(x.T @ x) / 9
    matrix = matrix + 0.01 * np.trace(matrix) / 4 * np.eye(4)
    expected, left = greedy(np.kron(np.eye(3), matrix), np.asarray(kernel).T.ravel(), count)
    params, masks = exact_obs({"kernel": kernel, "bias": jnp.ones(3)}, {"kernel": x}, keep={"kernel": 12 - count})
    np.testing.assert_allclose(params["kernel"].T.ravel(), expected, rtol=1e-8, atol=1e-13)
    np.testing.assert_array_equal(masks["kernel"].T.ravel(), left)
    np.testing.assert_array_equal(params["bias"], 1)
    assert masks["bias"].all()


def test_exact_obs_solves_least_squares_on_what_is_left():
    kernel, x = layer(1)
    params, masks = exact_obs({"kernel": kernel}, {"kernel": x}, keep={"kernel": 6}, damping=0.0)
    x, target = np.asarray(x), np.asarray(x @ kernel)
    for output in range(3):
        left = np.flatnonzero(masks["kernel"][:, output])
        best = np.linalg.lstsq(x[:, left], target[:, output], rcond=None)[0]
        np.testing.assert_allclose(params["kernel"][left, output], best, rtol=1e-8)


def test_exact_obs_removes_first_what_costs_least_of_all_single_removals():
    kernel, x = layer(2)
    target = np.asarray(x @ kernel)
    errors = np.full((4, 3), np.inf)
    for i, j in itertools.product(range(4), range(3)):
        rest = [k for k in range(4) if k != i]
        solution = np.linalg.lstsq(np.asarray(x)[:, rest], target[:, j], rcond=None)
        errors[i, j] = solution[1][0]
    masks = exact_obs({"kernel": kernel}, {"kernel": x}, keep={"kernel": 11}, damping=0.0)[1]
    assert np.argwhere(~np.asarray(masks["kernel"])).tolist() == [list(np.unravel_index(errors.argmin(), errors.shape))]


def test_a_stack_is_pruned_by_each_members_inputs():
    (first, x), (second, z) = layer(3), layer(4)
    stacked, inputs = jnp.stack([first, second]), jnp.stack([x, z])
    params, masks = exact_obs({"kernel": stacked}, {"kernel": inputs}, keep={"kernel": 10}, damping=1e-3)
    assert masks["kernel"].sum() == 10
    for member, (kernel, values) in enumerate([(first, x), (second, z)]):
        count = int(masks["kernel"][member].sum())
        alone = exact_obs({"kernel": kernel}, {"kernel": values}, keep={"kernel": count}, damping=1e-3)
        np.testing.assert_array_equal(masks["kernel"][member], alone[1]["kernel"])
        np.testing.assert_allclose(params["kernel"][member], alone[0]["kernel"], rtol=1e-10, atol=1e-14)
    scores = wanda({"kernel": stacked}, {"kernel": inputs})
    np.testing.assert_allclose(scores["kernel"][1], wanda({"kernel": second}, {"kernel": z})["kernel"], rtol=1e-12)


def test_wanda_by_hand():
    params = {"Dense_0": {"kernel": jnp.array([[1.0, -2.0], [3.0, 0.5]]), "bias": jnp.array([-7.0, 1.0])}}
    scores = wanda(params, {"Dense_0/kernel": jnp.array([[3.0, 0.0], [4.0, 2.0]])})
    np.testing.assert_allclose(scores["Dense_0"]["kernel"], [[5.0, 10.0], [6.0, 1.0]], rtol=1e-15)
    np.testing.assert_array_equal(scores["Dense_0"]["bias"], [7.0, 1.0])


def test_inputs_of_a_perceptron(network):
    case = network(jax.random.key(0))
    inputs = perceptron_inputs(case.params, case.rows["x"], activation=jnp.tanh, prefix="net")
    assert list(inputs) == ["net/Dense_0/kernel", "net/Dense_1/kernel", "net/Dense_2/kernel"]
    last = case.params["Dense_2"]
    outputs = inputs["net/Dense_2/kernel"] @ last["kernel"] + last["bias"]
    np.testing.assert_allclose(outputs, case.objective.outputs(case.params, case.rows), rtol=1e-12)


def test_layerwise_refusals():
    params = {"kernel": jnp.ones((4, 3))}
    with pytest.raises(ValueError, match="other"):
        wanda(params, {"kernel": jnp.ones((2, 4)), "other": jnp.ones((2, 4))})
    with pytest.raises(ValueError, match=r"\[B, 4\].*\(2, 3\)"):
        wanda(params, {"kernel": jnp.ones((2, 3))})
    with pytest.raises(ValueError, match="number to keep"):
        exact_obs(params, {"kernel": jnp.ones((2, 4))}, keep={})
    with pytest.raises(TypeError, match="kept_count"):
        exact_obs(params, {"kernel": jnp.ones((2, 4))}, keep={"kernel": 0.5})
