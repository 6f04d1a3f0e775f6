"""Losses and targets against numbers worked out by hand."""

import math

import jax
import numpy as np
import pytest

import jaxprune as jp
from jaxprune.agents.base import from_unit, standardize, to_unit
from jaxprune.agents.bc import squared_error
from jaxprune.agents.bcq import kl_divergence, perturbed, reconstruction_error, soft_clipped_target, twin_squared_error
from jaxprune.data.transitions import Statistics, Transitions


def test_squared_error_averages_over_actions():
    np.testing.assert_allclose(squared_error(np.float32([[1, 2], [0, 0]]), np.float32([[0, 4], [3, 0]])), [2.5, 4.5])
    np.testing.assert_allclose(reconstruction_error(np.float32([[1, 1]]), np.float32([[0, 3]])), [2.5])


def test_kl_divergence():
    """KL(N(μ, σ²) ‖ N(0, 1)) = ½(μ² + σ² − 1) − log σ: ½·1 for μ = 1, σ = 1; ½·(4 − 1) − log 2 for μ = 0, σ = 2."""
    values = kl_divergence(np.float64([[1, 0], [0, 0]]), np.float64([[0, 0], [math.log(2), 0]]))
    np.testing.assert_allclose(values, [0.25, (1.5 - math.log(2)) / 2], rtol=1e-6)


def test_soft_clipped_target():
    """Candidates (2, 4) and (3, 3): mixed 0.75·2 + 0.25·4 = 2.5 and 3; r + γ·3 = 1 + 2.7."""
    values = np.float32([[[2, 3]], [[4, 3]]])
    np.testing.assert_allclose(soft_clipped_target(np.float32([1]), np.float32([0.9]), values, 0.75), [3.7], rtol=1e-6)
    np.testing.assert_allclose(soft_clipped_target(np.float32([1]), np.float32([0]), values, 0.75), [1.0])


def test_perturbation_is_bounded_and_clipped():
    np.testing.assert_allclose(perturbed(np.float32([0, 0.99, 0.5]), np.float32([100, 100, -100]), 0.05), [0.05, 1, 0.45], rtol=1e-6)


def test_twin_errors_add():
    np.testing.assert_allclose(twin_squared_error(np.float32([[1, 3]]), np.float32([2])), [2])
    np.testing.assert_allclose(twin_squared_error(np.float32([[1, 5]]), np.float32([2])), [10])


def test_action_scaling():
    spec = jp.Spec(1, 2, [-2, 0], [2, 10])
    np.testing.assert_allclose(to_unit(spec, np.float32([[2, 5], [-2, 0]])), [[1, 0], [-1, -1]])
    np.testing.assert_allclose(from_unit(spec, np.float32([[0.5, 0.5]])), [[1, 7.5]])
    batch = Transitions(np.float32([[3]]), np.float32([[1, 10]]), np.float32([1]), np.float32([[5]]), np.float32([1]))
    standard = standardize(spec, batch, Statistics(np.float32([1]), np.float32([2])))
    np.testing.assert_allclose(standard.observations, [[1]])
    np.testing.assert_allclose(standard.next_observations, [[2]])
    np.testing.assert_allclose(standard.actions, [[0.5, 1]])


def test_a_timeout_bootstraps_and_a_terminal_does_not():
    """With zeroed critics' heads the target is r + γ·d·Q', Q' the constant bias of the target critics."""
    spec = jp.Spec(2, 1, [-1], [1])
    agent = jp.agents.bcq(spec, jp.agents.BCQConfig(hidden=(4,), vae_hidden=(4,)))
    state = agent.init(jax.random.key(0), Statistics(np.zeros(2, np.float32), np.ones(2, np.float32)))
    target = jax.tree.map(np.zeros_like, state.targets["critic"])
    target["Dense_1"]["bias"] = np.float32([[2], [6]])
    state = state.replace(targets={**state.targets, "critic": target})
    batch = Transitions(*(np.ones(s, np.float32) for s in ((2, 2), (2, 1), (2,), (2, 2))), np.float32([1, 0]))
    rows = agent.objective("critic", state).rows(batch, agent.draw(jax.random.key(0), 2))
    np.testing.assert_allclose(rows["targets"], [1 + 0.99 * (0.75 * 2 + 0.25 * 6), 1], rtol=1e-6)


@pytest.mark.parametrize("settings", [{"low": [0], "high": [1, 2]}, {"low": [1, 0], "high": [0, 1]}, {"low": [-np.inf, 0], "high": [0, 1]}])
def test_spec_refuses_bad_bounds(settings):
    with pytest.raises(ValueError, match="bounds"):
        jp.Spec(3, 2, **settings)


def test_unknown_names_say_what_there_is():
    spec = jp.Spec(3, 1, [-1], [1])
    with pytest.raises(ValueError, match="algo='td4' is unknown; expected one of bc, bcq"):
        jp.agents.make("td4", spec)
    with pytest.raises(ValueError, match="bc has no setting 'tau'"):
        jp.agents.make("bc", spec, tau=1)
