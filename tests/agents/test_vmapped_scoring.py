"""Scoring many seeds in one program gives the masks of scoring them one by one, up to near-ties of rounding."""

import jax
import pytest

import jaxprune as jp
from tests.agents.small import small_agent
from tests.conftest import statistics_of


@pytest.mark.parametrize("criterion", ["snip", "grasp", "crop"])
@pytest.mark.parametrize(("algo", "network"), [("bc", "policy"), ("bcq", "critic")])
def test_vmapped_over_seeds(spec, transitions, algo, network, criterion):
    agent = small_agent(algo, spec)
    noise = agent.draw(jax.random.key(7), transitions.rewards.shape[0])

    def masks(key):
        state = agent.init(key, statistics_of(transitions))
        objective = agent.objective(network, state)
        rows = objective.rows(transitions, noise)
        return jp.prune(objective, state.params[network], rows, criterion=criterion, sparsity=0.8, key=key)

    keys = jax.random.split(jax.random.key(0), 4)
    together = jax.jit(jax.vmap(masks))(keys)
    for i, key in enumerate(keys):
        assert jp.jaccard(jax.tree.map(lambda leaf, i=i: leaf[i], together), masks(key)) >= 0.999
