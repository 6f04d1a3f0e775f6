"""Pruning a whole agent."""

import jax
import numpy as np
import pytest

import jaxprune as jp
from jaxprune.agents.sparse import score_agent
from jaxprune.parameters import prunable_leaves
from tests.agents.small import DISCRETE, NAMES, small_agent
from tests.conftest import statistics_of


def kept(masks, prefix=""):
    leaves = prunable_leaves(masks)
    chosen = [np.asarray(leaf) for name, leaf in leaves.items() if name.startswith(prefix)]
    return sum(int(leaf.sum()) for leaf in chosen), sum(leaf.size for leaf in chosen)


@pytest.fixture(params=NAMES)
def started(request, spec, transitions):
    agent = small_agent(request.param, spec)
    return agent, agent.init(jax.random.key(0), statistics_of(transitions))


@pytest.mark.parametrize("sparsity", [0, 0.5, 0.95, 1])
def test_each_perceptron_keeps_its_own_budget_exactly(started, transitions, sparsity):
    agent, state = started
    pruned, info = jp.prune_agent(agent, state, transitions, jax.random.key(1), criterion="snip", sparsity=sparsity)
    for name, network in agent.networks.items():
        for chain in network.chains:
            count, total = kept({name: pruned.masks[name]}, f"{name}/{chain}/" if chain else f"{name}/")
            assert count == jp.kept_count(sparsity, total)
    assert (info.kept, info.total) == kept(pruned.masks)
    assert sum(count for count, _ in info.layers.values()) == info.kept
    assert str(info) == f"kept {info.kept:,} of {info.total:,}"


def test_a_budget_may_be_the_network_or_the_agent(spec, transitions):
    agent = small_agent("bcq", spec)
    state = agent.init(jax.random.key(0), statistics_of(transitions))
    total = {name: kept({name: state.masks[name]})[1] for name in agent.order}
    network, _ = jp.prune_agent(agent, state, transitions, jax.random.key(1), sparsity=0.9, budget="network")
    assert {name: kept({name: network.masks[name]})[0] for name in agent.order} == {n: jp.kept_count(0.9, t) for n, t in total.items()}
    pooled, info = jp.prune_agent(agent, state, transitions, jax.random.key(1), sparsity=0.9, budget="pooled")
    assert info.kept == jp.kept_count(0.9, sum(total.values()))
    assert {name: kept({name: pooled.masks[name]})[0] for name in agent.order} != {n: jp.kept_count(0.9, t) for n, t in total.items()}
    with pytest.raises(ValueError, match="budget='layer' is unknown; expected one of mlp, network, pooled"):
        jp.prune_agent(agent, state, transitions, jax.random.key(1), budget="layer")


def test_only_the_networks_asked_for_are_pruned(spec, transitions):
    agent = small_agent("bcq", spec)
    state = agent.init(jax.random.key(0), statistics_of(transitions))
    pruned, info = jp.prune_agent(agent, state, transitions, jax.random.key(1), sparsity=0.9, networks="actor")
    assert kept(pruned.masks["vae"])[0] == kept(state.masks["vae"])[1]
    assert info.total == kept(state.masks["actor"])[1]
    with pytest.raises(ValueError, match="bcq has no network 'policy'; expected some of vae, critic, actor"):
        jp.prune_agent(agent, state, transitions, jax.random.key(1), networks=("policy",))


def test_scoring_changes_no_bit_and_is_repeatable(started, transitions):
    agent, state = started
    before = jax.tree.map(np.array, state)
    for criterion in ("snip", "grasp", "magnitude", "random"):
        first = score_agent(agent, state, transitions, jax.random.key(1), criterion=criterion)
        again = score_agent(agent, state, transitions, jax.random.key(1), criterion=criterion)
        jax.tree.map(np.testing.assert_array_equal, first, again)
    jax.tree.map(np.testing.assert_array_equal, jax.tree.map(np.array, state), before)


def test_scores_come_from_the_loss_that_trains(started, transitions):
    """SNIP of each network is |θ·g| with g from the agent's own objective on the same noise, all at the dense state."""
    agent, state = started
    key = jax.random.key(5)
    scores = score_agent(agent, state, transitions, key, criterion="snip")
    noise = agent.draw(jax.random.split(key)[0], len(transitions))
    for name in agent.order:
        objective = agent.objective(name, state)
        gradient = jax.jit(lambda o, p: jax.grad(o)(p, o.rows(transitions, noise)))(objective, state.params[name])
        expected = jax.tree.map(lambda w, g: np.abs(np.asarray(w) * np.asarray(g)), state.params[name], gradient)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-7), scores[name], expected)


def test_rounds_are_nested_and_end_at_the_same_count(started, transitions):
    agent, state = started
    coarse, _ = jp.prune_agent(agent, state, lambda i: transitions.take(slice(i, i + 50)), jax.random.key(1), sparsity=0.5)
    fine, info = jp.prune_agent(agent, state, lambda i: transitions.take(slice(i, i + 50)), jax.random.key(1), sparsity=0.75, rounds=2)
    assert info.kept == sum(jp.kept_count(0.75, n) for n in chain_sizes(agent, state))
    # The first of two exponential rounds to 75 % removes half, on the same rows and key as the one round above.
    nested = jax.tree.map(lambda a, b: bool(np.all(np.asarray(a) | ~np.asarray(b))), coarse.masks, fine.masks)
    assert all(jax.tree.leaves(nested))


def chain_sizes(agent, state):
    return [
        kept({name: state.masks[name]}, f"{name}/{chain}/" if chain else f"{name}/")[1]
        for name, network in agent.networks.items()
        for chain in network.chains
    ]


def test_bad_scores_are_refused_with_the_layers_name(started, transitions):
    agent, state = started
    broken = transitions.replace(observations=transitions.observations * np.nan, next_observations=transitions.next_observations * np.nan)
    with pytest.raises(ValueError, match="scores of .*kernel are NaN or infinite"):
        jp.prune_agent(agent, state, broken, jax.random.key(0), criterion="snip")
    with pytest.raises(ValueError, match="expected a sparsity in"):
        jp.prune_agent(agent, state, transitions, jax.random.key(0), sparsity=95)


def test_a_compacted_agent_is_expanded_before_it_is_pruned_again(spec, transitions):
    agent = small_agent("bc", spec)
    state = agent.init(jax.random.key(0), statistics_of(transitions))
    state, first = jp.prune_agent(agent, state, transitions, jax.random.key(1), sparsity=0.9)
    small, thin = jp.compact(agent, state, multiple=1)
    assert small.widths
    with pytest.raises(ValueError, match="prune jaxprune.expand"):
        jp.prune_agent(small, thin, transitions, jax.random.key(1), sparsity=0.95)
    _, second = jp.prune_agent(*jp.expand(small, thin), transitions, jax.random.key(1), sparsity=0.95)
    assert second.total == first.total


def test_a_dead_network_is_not_ranked_by_position(spec, transitions):
    agent = small_agent("bcq", spec)
    state = agent.init(jax.random.key(0), statistics_of(transitions))
    dead = jax.tree.map(lambda leaf: leaf, state.params["actor"])
    dead["Dense_0"]["bias"] = dead["Dense_0"]["bias"] - 1000
    state = state.replace(params={**state.params, "actor": dead})
    with pytest.raises(ValueError, match="every score of actor is zero"):
        jp.prune_agent(agent, state, transitions, jax.random.key(1), criterion="snip", sparsity=0.9)


@pytest.mark.parametrize("name", NAMES)
def test_actions_of_the_other_kind_are_refused(name):
    other = jp.Spec(4, 2, [-1, -1], [1, 1]) if name in DISCRETE else jp.Spec(4, 2, (), (), discrete=True)
    kind, remedy = ("discrete", "use bc, bcq, td3_bc or iql") if name in DISCRETE else ("continuous", "use discrete_bc or discrete_bcq")
    with pytest.raises(ValueError, match=f"^{name} needs {kind} actions, .*{remedy}$"):
        jp.agents.make(name, other)
