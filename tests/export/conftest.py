"""Small agents: pruned by weights and by units, BC and BCQ."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprune as jp
from jaxprune.data.transitions import Spec, Statistics
from jaxprune.parameters import apply_masks
from tests.conftest import make_transitions

SPEC = Spec(4, 2, [-2.0, 0.5], [1.0, 3.0])
CONFIGS = {
    "bc": jp.agents.BCConfig(hidden=(24, 20), init="reference"),
    "bcq": jp.agents.BCQConfig(vae_hidden=(24, 20), hidden=(16, 12), evaluation_candidates=7, candidates=2, init="reference"),
}


def transitions():
    log = make_transitions(rows=300)
    low, high = np.asarray(SPEC.low), np.asarray(SPEC.high)
    return log.replace(actions=(low + (log.actions + 1) / 2 * (high - low)).astype(np.float32))


def made(algo, **pruning):
    """(agent, state), pruned, at full size. The initialisation has random biases, so that units without inputs are not zero."""
    log = transitions()
    agent = jp.agents.make(algo, SPEC).build(SPEC, CONFIGS[algo], ())
    state = agent.init(jax.random.key(0), Statistics(log.observations.mean(0), log.observations.std(0)))
    return agent, jp.prune_agent(agent, state, log, jax.random.key(1), **pruning)[0] if pruning else state


def thinned(agent, state, sparsity):
    """The agent with weights removed at random."""
    rng = np.random.default_rng(0)

    def kept(path, mask):
        return jnp.asarray(rng.random(mask.shape) >= sparsity) if path[-1].key == "kernel" else mask

    masks = jax.tree_util.tree_map_with_path(kept, state.masks)
    return agent, state.replace(masks=masks, params=apply_masks(state.params, masks))


@pytest.fixture(scope="session")
def runs():
    """{name: (agent, state)}."""
    return {
        "bc dense": made("bc"),
        "bc weights": made("bc", criterion="magnitude", sparsity=0.8),
        "bc units": made("bc", structure="units", unit_criterion="l1", sparsity=0.6, target="params"),
        # Not far, so that latents still reach the actions and candidates differ; by hand, as scoring all networks takes long to compile.
        "bcq weights": thinned(*made("bcq"), 0.5),
    }


@pytest.fixture(scope="session")
def observations():
    return (np.random.default_rng(3).normal(size=(300, 4)) * 4 + 1).astype(np.float32)


@pytest.fixture(scope="session")
def large():
    """BC 256-256 on Hopper's sizes, 95 % pruned, with biases and statistics that are not trivial; not trained."""
    rng = np.random.default_rng(0)
    agent = jp.agents.bc(Spec(11, 3, [-1] * 3, [1] * 3), jp.agents.BCConfig(init="reference"))
    state = agent.init(jax.random.key(0), Statistics(rng.normal(size=11), rng.uniform(0.5, 2, size=11)))
    log = make_transitions(rows=256, observation_size=11, action_size=3)
    return agent, jp.prune_agent(agent, state, log, jax.random.key(1), criterion="magnitude", sparsity=0.95)[0]
