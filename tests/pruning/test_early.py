"""The detector on made-up trajectories, by hand; the diagnostics against whole Jacobians."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxprune.networks import MLP, apply
from jaxprune.objective import Objective
from jaxprune.parameters import prunable_leaves, replace_leaves
from jaxprune.pruning.early import Detector, check, watch
from jaxprune.pruning.lazy_regime import empirical_ntk, gradient_flow, ntk_change

# One kernel [1, 2] moving along one axis: r_t = |θ_t − θ_ref| / ‖θ_ref‖.
START = {"kernel": jnp.array([[3.0, 4.0]]), "bias": jnp.array([100.0])}


def at(distance):
    return {"kernel": jnp.array([[3.0 + 5 * distance, 4.0]]), "bias": jnp.array([-7.0])}


def fired_at(detector, distances, start=START):
    state, fired = watch(start), []
    for step, distance in enumerate(distances, start=1):
        state, due = check(detector, state, at(distance), step)
        fired.append(bool(due))
    return fired, state


def test_reference_init_compares_from_the_second_check():
    # movements 0.4, 0.6, 0.75, 0.79; changes –, 0.2, 0.15, 0.04; τ = 0.4 · (1 − 0.8) = 0.08
    fired, state = fired_at(Detector(0.8, reference="init"), [0.4, 0.6, 0.75, 0.79])
    assert fired == [False, False, False, True]
    np.testing.assert_allclose([state.first, state.movement, state.change, state.bound], [0.4, 0.79, 0.04, 0.08], rtol=1e-5)


def test_reference_first_measures_from_the_first_check():
    # θ_ref = (3 + 5·0.2, 4), norm √32; movements 0, then 5·(d − 0.2)/√32
    state, movements = watch(START), []
    for d in (0.2, 0.4, 0.45):
        state, _ = check(Detector(0.8), state, at(d), 1)
        movements.append(float(state.movement))
    np.testing.assert_allclose(movements, [np.nan, 1 / np.sqrt(32), 1.25 / np.sqrt(32)], rtol=1e-5)
    assert fired_at(Detector(0.8), [0.2, 0.4, 0.45])[0] == [False, False, False]
    assert fired_at(Detector(0.7), [0.2, 0.4, 0.45])[0] == [False, False, True]


def test_thresholds():
    assert Detector(0.5, "units").scale == pytest.approx(0.4)
    assert Detector(0.5, "hybrid").scale == 0.5
    assert Detector(0.95, "units", threshold="paper").scale == pytest.approx(0.05)
    # the paper's does not scale with r_1: changes of 0.04 against 1 − 0.95
    distances = [0.2, 0.28, 0.32]
    assert fired_at(Detector(0.95, threshold="paper", reference="init"), distances)[0] == [False, False, True]
    assert fired_at(Detector(0.95, threshold="code", reference="init"), distances)[0] == [False, False, False]


def test_the_cap():
    assert fired_at(Detector(0.8, reference="init", cap=3), [1.0, 2.0, 3.0, 4.0])[0] == [False, False, True, True]


def test_a_threshold_that_cannot_fire_is_an_error():
    for s in (0.9, 0.95, 0.99):
        with pytest.raises(ValueError, match="can never fire for units .* use threshold='paper'"):
            Detector(s, "units")
        Detector(s, "units", threshold="paper")
        Detector(s, "weights")
    with pytest.raises(ValueError, match="can never fire at sparsity 1"):
        Detector(1, threshold="paper")
    with pytest.raises(ValueError, match="reference='last' is unknown; expected one of first, init"):
        Detector(0.5, reference="last")
    with pytest.raises(ValueError, match="cap of at least one"):
        Detector(0.5, cap=0)


def test_runs_of_a_stack_fire_at_their_own_times():
    paths = np.array([[0.4, 0.6, 0.75, 0.79], [0.4, 0.41, 0.42, 0.43], [0.1, 0.5, 0.9, 0.91]])
    detector = Detector(0.8, reference="init")
    states = jax.vmap(lambda _: watch(START))(jnp.arange(3))
    one = jax.jit(jax.vmap(lambda s, p, t: check(detector, s, p, t), in_axes=(0, 0, None)))
    fired = []
    for step in range(4):
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(at(d) for d in paths[:, step]))
        states, due = one(states, stacked, step)
        fired.append(np.asarray(due))
    np.testing.assert_array_equal(np.stack(fired, axis=1), [fired_at(detector, path)[0] for path in paths])


def test_diagnostics_against_the_whole_jacobian(x64):
    mlp = MLP((5, 3), activation=jnp.tanh, init_scheme="reference")
    objective = Objective(predict=lambda p, rows, _: apply(mlp, p, rows), loss=lambda out, rows, _: jnp.sum(out**2, axis=-1))
    rows, params = jax.random.normal(jax.random.key(0), (4, 2)), mlp.parameters(jax.random.key(1), 2)
    kernels = prunable_leaves(params)
    jacobian = jax.jacobian(lambda k: objective.outputs(replace_leaves(params, k), rows).ravel())(kernels)
    flat = np.concatenate([leaf.reshape(12, -1) for leaf in jacobian.values()], axis=1)
    kernel = empirical_ntk(objective, params, rows)
    np.testing.assert_allclose(kernel, flat @ flat.T, rtol=1e-10, atol=1e-13)
    outputs = objective.outputs(params, rows).ravel()
    gradient = flat.T @ (2 * outputs / 4)
    np.testing.assert_allclose(gradient_flow(objective, params, rows), gradient @ gradient, rtol=1e-10)
    assert ntk_change(kernel, kernel) == 0
    np.testing.assert_allclose(ntk_change(3 * kernel, kernel), 2, rtol=1e-12)
