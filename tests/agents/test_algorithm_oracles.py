"""Five updates of TD3+BC, IQL and the discrete algorithms, recorded with their noise by `tests/vectors/algorithms.py` in float64."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxprune.agents import make
from jaxprune.data.transitions import Spec, Statistics, Transitions

VECTORS = pathlib.Path(__file__).parents[1] / "vectors"
CONTINUOUS, DISCRETE = Spec(4, 2, [-1, -1], [1, 1]), Spec(4, 3, (), (), discrete=True)
# Ours by name: the recorded perceptrons that are stacked, or the one that is it.
NETWORKS = {
    "td3_bc": {"critic": ("q1", "q2"), "actor": "actor"},
    "iql": {"value": "value", "actor": "actor", "critic": ("q1", "q2")},
    "discrete_bc": {"policy": "policy"},
    "discrete_bcq": {"critic": "critic", "imitation": "imitation"},
}


def perceptron(recorded, at, name):
    return {f"Dense_{i}": {"kernel": recorded[f"{at}/{name}/k{i}"], "bias": recorded[f"{at}/{name}/b{i}"]} for i in range(3)}


def networks(algorithm, recorded, at, names, suffix=""):
    out = {}
    for name in names:
        theirs = NETWORKS[algorithm][name]
        if isinstance(theirs, tuple):
            out[name] = jax.tree.map(lambda *m: np.stack(m), *(perceptron(recorded, at, f"{one}{suffix}") for one in theirs))
        else:
            out[name] = perceptron(recorded, at, f"{theirs}{suffix}")
    if algorithm == "iql" and "actor" in out:
        out["actor"] = {"mean": out["actor"], "log_std": recorded[f"{at}/log_std"]}
    return out


def assert_equal(ours, theirs):
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(ours), jax.tree.leaves(theirs), strict=True):
        assert a.dtype == np.float64
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12, err_msg=jax.tree_util.keystr(path))


@pytest.mark.parametrize("algorithm", sorted(NETWORKS))
def test_five_updates(algorithm, x64):
    recorded = np.load(VECTORS / f"{algorithm}.npz")
    meta = {key.removeprefix("meta/"): recorded[key].item() for key in recorded.files if key.startswith("meta/")}
    spec = DISCRETE if algorithm.startswith("discrete") else CONTINUOUS
    agent = make(algorithm, spec, hidden=(7, 6), learning_rate=1e-2, normalize=False, **meta)
    state = agent.init(jax.random.key(0), Statistics(np.zeros(4), np.ones(4)))
    params = networks(algorithm, recorded, 0, agent.order)
    assert jax.tree.structure(state.params) == jax.tree.structure(params)
    targets = networks(algorithm, recorded, 0, agent.targets, "_target")
    state = state.replace(params=jax.tree.map(jnp.asarray, params), targets=jax.tree.map(jnp.asarray, targets))
    update = jax.jit(agent.update_with, static_argnames="phase")
    for i in range(5):
        batch = {name: recorded[f"batch/{i}/{name}"] for name in Transitions.__dataclass_fields__}
        if spec.discrete:
            batch["actions"] = batch["actions"].astype(np.int32)
        noise = {name: recorded[f"noise/{i}/{name}"] for name in agent.draw(jax.random.key(0), 8)}
        state, _ = update(state, Transitions(**batch), noise, phase=i % agent.period)
        if i + 1 in (1, 2, 5):
            assert_equal(state.params, networks(algorithm, recorded, i + 1, agent.order))
            assert_equal(state.targets, networks(algorithm, recorded, i + 1, agent.targets, "_target"))
