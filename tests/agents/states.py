"""States made in NumPy, which compiles nothing, and what their perceptrons compute."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jaxprune.agents.sparse import mask_agent
from jaxprune.parameters import path_name


def _zeros(x):
    return jax.random.key(0) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else jax.device_put(np.zeros(x.shape, x.dtype))


def fresh_state(agent, statistics, seed=0):
    """Like `agent.init` with an optimizer whose state begins at zero: kernels uniform ±1/√fan_in, biases zero."""
    rng = np.random.default_rng(seed)
    shapes = jax.eval_shape(lambda: agent.init(jax.random.key(0), statistics))

    def initial(path, x):
        if not path_name(path).endswith("kernel"):
            return _zeros(x)
        return jax.device_put((rng.uniform(-1, 1, size=x.shape) / np.sqrt(x.shape[-2])).astype(x.dtype))

    params = jax.tree_util.tree_map_with_path(initial, shapes.params)
    full = {name: {g.name: np.arange(g.size, dtype=np.int32) for g in agent.groups(name)} for name in agent.order}
    return dataclasses.replace(
        jax.tree.map(_zeros, shapes),
        params=params,
        targets={name: jax.tree.map(lambda x: jax.device_put(np.array(x)), params[name]) for name in agent.targets},
        masks=jax.tree.map(lambda x: jax.device_put(np.ones(x.shape, bool)), shapes.masks),
        statistics=jax.tree.map(lambda x, shape: jax.device_put(np.asarray(x, shape.dtype)), statistics, shapes.statistics),
        units={
            name: {g: jax.device_put(np.broadcast_to(full[name][g], x.shape)) for g, x in by_group.items()}
            for name, by_group in shapes.units.items()
        },
        total={
            name: jnp.int32(sum(x.size for p, x in jax.tree_util.tree_leaves_with_path(tree) if path_name(p).endswith("kernel")))
            for name, tree in shapes.params.items()
        },
    )


def filled(agent, state, seed=0):
    """The state with other numbers in every array of floats, zero where masked: as if trained for long."""
    rng = np.random.default_rng(seed)

    def numbers(tree, change=lambda x: x):
        return jax.tree.map(
            lambda x: jax.device_put(change(rng.normal(size=x.shape)).astype(x.dtype)) if jnp.issubdtype(x.dtype, jnp.floating) else x, tree
        )

    moments = {name: numbers(opt_state, np.abs) for name, opt_state in state.opt_state.items()}
    state = dataclasses.replace(state, params=numbers(state.params), targets=numbers(state.targets), opt_state=moments)
    return mask_agent(agent, state, state.masks)


def with_random_masks(agent, state, density, seed=0):
    """Every kernel at a density of about that; biases are kept."""
    rng = np.random.default_rng(seed)
    masks = jax.tree_util.tree_map_with_path(
        lambda path, m: jax.device_put(rng.random(m.shape) < density) if path_name(path).endswith("kernel") else m, state.masks
    )
    return mask_agent(agent, state, masks)


def outputs(agent, params, seed=0):
    """{perceptron: outputs for random inputs}, in NumPy; hidden layers are ReLU."""
    out = {}
    for name in agent.order:
        for chain in agent.networks[name].chains if name in params else ():
            tree = params[name][chain] if chain else params[name]
            layers = [jax.tree.map(np.asarray, tree[f"Dense_{i}"]) for i in range(len(tree))]
            kernel = layers[0]["kernel"]
            x = np.random.default_rng(seed).normal(size=(9, kernel.shape[-2])).astype(kernel.dtype)
            for i, layer in enumerate(layers):
                x = np.einsum("...ri,...io->...ro", np.maximum(x, 0) if i else x, layer["kernel"]) + layer["bias"][..., None, :]
            out[f"{name}/{chain}"] = x
    return out


def agree(agent, state, other, other_state, tolerance):
    """Parameters and targets of both compute the same."""
    for tree in ("params", "targets"):
        expected, got = outputs(agent, getattr(state, tree)), outputs(other, getattr(other_state, tree))
        assert expected.keys() == got.keys()
        for name, value in expected.items():
            assert np.abs(value - got[name]).max() <= tolerance * np.abs(value).max(), (tree, name)


def plain(leaf):
    return np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)


def same(a, b):
    """The same bits in every leaf."""
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(plain(x), plain(y)), a, b)
