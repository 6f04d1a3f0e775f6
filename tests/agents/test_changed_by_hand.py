"""Agents and masks made by hand: what does not fit is told, never computed as something else."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprune as jp
from jaxprune.agents.sparse import mask_agent, score_agent
from tests.agents.small import small_agent
from tests.agents.states import fresh_state, same, with_random_masks
from tests.conftest import statistics_of


def absolute(agent):
    """Behaviour cloning by absolute error: another loss under the same name, spec, config and widths."""
    policy = agent.networks["policy"]
    loss = policy.objective.replace(loss=lambda outputs, rows, context: jnp.mean(jnp.abs(outputs - rows.actions), axis=-1))
    return dataclasses.replace(agent, networks={"policy": dataclasses.replace(policy, objective=loss)})


@pytest.fixture
def started(spec, transitions):
    agent = small_agent("bc", spec)
    return agent, fresh_state(agent, statistics_of(transitions))


def test_an_agent_with_other_networks_is_another_agent(started):
    agent, _ = started
    changed = absolute(agent)
    assert agent != changed
    assert hash(agent) == hash(changed)
    assert changed == dataclasses.replace(changed)
    assert agent == dataclasses.replace(agent)
    assert agent != dataclasses.replace(agent, choose=lambda params, observations, key: observations)
    assert agent != "bc"


def test_its_own_loss_is_scored_and_trained(started, transitions):
    agent, state = started
    batch, noise = transitions.take(slice(0, 32)), agent.draw(jax.random.key(0), 32)
    # The programs of the usual agent are compiled first, so that an agent mistaken for it would find them.
    usual, _ = jp.train(agent, state, transitions, steps=1, key=jax.random.key(2))
    score_agent(agent, state, batch, jax.random.key(1))
    changed = absolute(agent)
    objective = changed.objective("policy", state)
    outputs = np.asarray(objective.outputs(state.params["policy"], objective.rows(batch, noise)))
    expected = np.abs(outputs - np.asarray(batch.actions)).mean()
    np.testing.assert_allclose(objective(state.params["policy"], objective.rows(batch, noise)), expected, rtol=1e-6)
    squared = agent.objective("policy", state)
    np.testing.assert_allclose(
        squared(state.params["policy"], objective.rows(batch, noise)), ((outputs - np.asarray(batch.actions)) ** 2).mean(), rtol=1e-6
    )
    trained, _ = jp.train(changed, state, transitions, steps=1, key=jax.random.key(2))
    pairs = zip(jax.tree.leaves(usual.params), jax.tree.leaves(trained.params), strict=True)
    assert any((np.asarray(a) != np.asarray(b)).any() for a, b in pairs)


def test_it_is_not_compacted_into_the_usual_agent(started):
    agent, state = started
    changed = absolute(agent)
    masked = with_random_masks(changed, state, 0.1)
    with pytest.raises(ValueError, match="bc: with_widths builds another agent, bc; give it a `build` of its own"):
        jp.compact(changed, masked)
    full, same_state = jp.expand(changed, masked)
    assert full is changed
    assert same_state is masked
    small, compacted = jp.compact(agent, masked)
    with pytest.raises(ValueError, match="with_widths builds another agent"):
        jp.expand(absolute(small), compacted)


@pytest.mark.parametrize("name", ["bc", "bcq"])
def test_masks_that_keep_padding_are_refused(name, spec, transitions):
    agent = small_agent(name, spec)
    state = with_random_masks(agent, fresh_state(agent, statistics_of(transitions)), 0.15)
    small, compacted = jp.compact(agent, state, multiple=8)
    network = agent.order[-1]
    shuffled = jp.shuffle_masks(jax.random.key(0), compacted.masks[network])
    with pytest.raises(ValueError, match=f"weights of {network}/Dense_0/.* belong to no unit.*jaxprune.expand"):
        mask_agent(small, compacted, {network: shuffled})
    same(mask_agent(small, compacted, compacted.masks), compacted)
    # One wrong bias is enough.
    wrong = jax.tree.map(lambda leaf: leaf, compacted.masks[network])
    padding = np.asarray(compacted.units[network]["Dense_1"]) < 0
    assert padding.any()
    wrong["Dense_1"]["bias"] = wrong["Dense_1"]["bias"] | padding
    with pytest.raises(ValueError, match=f"{network}/Dense_1/bias"):
        mask_agent(small, compacted, {network: wrong})
    # At full size a shuffle is what it says, and compacts.
    full, expanded = jp.expand(small, compacted)
    masks = jp.shuffle_masks(jax.random.key(0), expanded.masks[network])
    again = mask_agent(full, expanded, {network: masks})
    for layer in masks:
        assert masks[layer]["kernel"].sum() == expanded.masks[network][layer]["kernel"].sum()
    jp.compact(full, again)
