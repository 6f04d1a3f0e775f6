"""Five steps of the authors' BCQ, recorded by an independent implementation in float64 with its noise."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxprune.agents import BCQConfig, bcq
from jaxprune.data.transitions import Spec, Statistics, Transitions

VECTORS = np.load(pathlib.Path(__file__).parents[1] / "vectors" / "bcq.npz")


def layer(step, network, *names):
    """The named reference layers side by side, as one layer of ours."""
    return {
        "kernel": np.concatenate([VECTORS[f"step/{step}/{network}/{name}.weight"] for name in names], axis=1),
        "bias": np.concatenate([VECTORS[f"step/{step}/{network}/{name}.bias"] for name in names]),
    }


def perceptron(step, network, *names):
    return {f"Dense_{i}": layer(step, network, *([name] if isinstance(name, str) else name)) for i, name in enumerate(names)}


def recorded(step, suffix=""):
    critic = [perceptron(step, f"critic{suffix}", *names) for names in (("l1", "l2", "l3"), ("l4", "l5", "l6"))]
    networks = {
        "critic": jax.tree.map(lambda *members: np.stack(members), *critic),
        "actor": perceptron(step, f"actor{suffix}", "l1", "l2", "l3"),
    }
    if not suffix:
        networks["vae"] = {
            "encoder": perceptron(step, "vae", "e1", "e2", ("mean", "log_std")),
            "decoder": perceptron(step, "vae", "d1", "d2", "d3"),
        }
    return networks


def batch(i):
    arrays = {name: VECTORS[f"batch/{i}/{name}"] for name in ("observations", "actions", "rewards", "next_observations", "not_done")}
    return Transitions(
        arrays["observations"], arrays["actions"], arrays["rewards"][:, 0], arrays["next_observations"], arrays["not_done"][:, 0]
    )


def noise(i):
    eps = VECTORS[f"noise/{i}/vae_eps"]
    following = VECTORS[f"noise/{i}/next_latent_unclipped"].reshape(len(eps), -1, eps.shape[1])
    return {"eps": eps, "next_latents": following, "latents": VECTORS[f"noise/{i}/latent_unclipped"]}


def assert_equal(ours, theirs):
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(ours), jax.tree.leaves(theirs), strict=True):
        assert a.dtype == np.float64
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-12, err_msg=jax.tree_util.keystr(path))


@pytest.fixture
def agent():
    meta = {
        name: VECTORS[f"meta/{name}"].item() for name in ("discount", "tau", "lmbda", "phi", "samples", "latent_clip", "lr", "max_action")
    }
    assert meta["max_action"] == 1
    config = BCQConfig(
        vae_hidden=(20, 20),
        hidden=(16, 12),
        discount=meta["discount"],
        tau=meta["tau"],
        mixture=meta["lmbda"],
        phi=meta["phi"],
        candidates=meta["samples"],
        latent_clip=meta["latent_clip"],
        learning_rate=meta["lr"],
        batch_size=8,
        normalize=False,
    )
    return bcq(Spec(5, 2, [-1, -1], [1, 1]), config)


def test_five_steps_agree_with_the_authors_code(x64, agent):
    state = agent.init(jax.random.key(0), Statistics(np.zeros(5), np.ones(5)))
    assert jax.tree.structure(state.params) == jax.tree.structure(recorded(0))
    state = state.replace(params=jax.tree.map(jnp.asarray, recorded(0)), targets=jax.tree.map(jnp.asarray, recorded(0, "_target")))
    update = jax.jit(agent.update_with)
    for i in range(5):
        state, _ = update(state, batch(i), noise(i))
        if i + 1 in (1, 5):
            assert_equal(state.params, recorded(i + 1))
            assert_equal(state.targets, recorded(i + 1, "_target"))
