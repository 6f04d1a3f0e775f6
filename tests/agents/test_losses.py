"""Losses and targets against numbers worked out by hand."""

import math

import jax
import numpy as np
import pytest

import jaxprune as jp
from jaxprune.agents.base import from_unit, standardize, to_unit
from jaxprune.agents.bc import squared_error
from jaxprune.agents.bcq import kl_divergence, perturbed, reconstruction_error, soft_clipped_target, twin_squared_error
from jaxprune.agents.discrete_bc import cross_entropy
from jaxprune.agents.discrete_bcq import best_likely_action, chosen, huber, imitation_error
from jaxprune.agents.iql import advantage_weight, expectile_error, gaussian_surprise
from jaxprune.agents.td3_bc import clipped_double_target, regularized_value_loss, smoothed, value_weight
from jaxprune.data.transitions import Statistics, Transitions
from tests.agents.small import small_agent
from tests.agents.states import fresh_state


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


def test_smoothed_actions_stay_in_range():
    """0.9 + 0.2 is clipped at 1; five deviations of 0.2 are clipped at 0.5; −0.95 + 0.2."""
    np.testing.assert_allclose(smoothed(np.float32([0.9, 0, -0.95]), np.float32([1, -5, 1]), 0.2, 0.5), [1, -0.5, -0.75], rtol=1e-6)


def test_clipped_double_target():
    values = np.float32([[2, 4], [3, 1]])
    np.testing.assert_allclose(clipped_double_target(np.float32([1, 1]), np.float32([0.5, 0]), values), [2, 1])


def test_value_weight_is_that_of_the_batch():
    """mean |Q| of 1 and −3 is 2. A critic that is zero leaves a finite weight."""
    np.testing.assert_allclose(value_weight(np.float32([1, -3]), 2.5), [1.25, 1.25])
    assert np.isfinite(value_weight(np.zeros(3, np.float32), 2.5)).all()


def test_regularized_value_loss():
    np.testing.assert_allclose(regularized_value_loss(np.float32([2]), np.float32([1.25]), np.float32([0.5])), [-2])


def test_expectile_error():
    """0.7·2² above, 0.3·2² below."""
    np.testing.assert_allclose(expectile_error(np.float32([2, -2, 0]), 0.7), [2.8, 1.2, 0], rtol=1e-6)


def test_advantage_weight_is_bounded():
    advantages = np.float32([0, math.log(2) / 3, -math.log(2) / 3, 10, 1000])
    np.testing.assert_allclose(advantage_weight(advantages, 3.0, 100.0), [1, 2, 0.5, 100, 100], rtol=1e-6)


def test_gaussian_surprise():
    """One deviation off at σ = 2: ½ + log 2 + ½ log 2π; at the mean with σ = ½: −log 2 + ½ log 2π; features add."""
    means, sigma, actions = np.float64([[0.5, 3]]), np.float64([[2, 0.5]]), np.float64([[2.5, 3]])
    np.testing.assert_allclose(gaussian_surprise(means / sigma**2, 1 / sigma**2, actions), [0.5 + math.log(2 * math.pi)], rtol=1e-6)
    one = gaussian_surprise(means[:, :1] / 4, np.float64([[0.25]]), actions[:, :1])
    np.testing.assert_allclose(one, [0.5 + math.log(2) + 0.5 * math.log(2 * math.pi)], rtol=1e-6)


def test_cross_entropy():
    """Logits 0 and log 3 are likelihoods ¼ and ¾."""
    logits = np.float32([[0, math.log(3)]] * 2)
    np.testing.assert_allclose(cross_entropy(logits, np.int32([0, 1])), [math.log(4), math.log(4 / 3)], rtol=1e-6)


def test_imitation_error():
    """log(1 + e⁻²) + 0.01·(0² + 2²)/2."""
    np.testing.assert_allclose(imitation_error(np.float32([[0, 2]]), np.int32([1]), 0.01), [math.log(1 + math.exp(-2)) + 0.02], rtol=1e-6)


def test_huber_bends_at_one():
    np.testing.assert_allclose(huber(np.float32([0.5, -3, 1, 0])), [0.125, 2.5, 0.5, 0])


def test_best_likely_action():
    """Likelihoods 0.6, 0.3, 0.1 are 1, ½ and ⅙ of the largest. The values may be as bad as they like."""
    logits, values = np.log(np.float32([[0.6, 0.3, 0.1]])), np.float32([[1, 2, 9]])
    assert [best_likely_action(values, logits, threshold).item() for threshold in (0.1, 0.3, 0.6)] == [2, 1, 0]
    assert best_likely_action(np.float32([[-3e9, -2e9, 9]]), logits, 0.3).item() == 1
    assert chosen(np.float32([[1, 2, 9], [3, 4, 5]]), np.int32([2, 0])).tolist() == [9, 3]


@pytest.mark.parametrize("name", ["td3_bc", "iql", "discrete_bcq"])
def test_terminals_end_the_return(name, spec, transitions):
    """The target is the reward alone, scaled where the algorithm scales it."""
    scale = {"reward_scale": 3.0} if name == "iql" else {}
    agent = small_agent(name, spec, **scale)
    state = fresh_state(agent, Statistics(np.zeros(4, np.float32), np.ones(4, np.float32)))
    batch, noise = transitions.take(slice(0, 8)), agent.draw(jax.random.key(0), 8)
    targets = {
        d: agent.objective("critic", state).rows(batch.replace(discounts=np.full(8, d, np.float32)), noise)["targets"] for d in (0, 1)
    }
    np.testing.assert_allclose(targets[0], scale.get("reward_scale", 1.0) * batch.rewards, rtol=1e-6)
    assert (np.abs(targets[1] - targets[0]) > 1e-4).all()


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
