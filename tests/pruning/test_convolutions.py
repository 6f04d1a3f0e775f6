"""Channels of convolutions as units: scored, removed whole, cut out of the arrays, also behind a flattening."""

import dataclasses
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprune as jp
from jaxprune.parameters import named_leaves, prunable_size
from jaxprune.pruning.compaction import expand_tree, live_units
from jaxprune.pruning.units import kernel_shapes
from jaxprune.pruning.widths import fitting_widths

float32 = functools.partial(np.array, dtype=np.float32)


class Network(nn.Module):
    """Two convolutions, pooling, and two dense layers behind the flattened image."""

    channels: tuple[int, int] = (6, 8)
    width: int = 7

    @nn.compact
    def __call__(self, images):
        """[B, 8, 8, 1] -> [B, 3]."""
        x = nn.relu(nn.Conv(self.channels[0], (3, 3), name="first")(images))
        x = nn.relu(nn.Conv(self.channels[1], (3, 3), strides=2, name="second")(x))
        x = nn.max_pool(x, (2, 2), strides=(2, 2))
        x = nn.relu(nn.Dense(self.width, name="hidden")(x.reshape(len(x), -1)))
        return nn.Dense(3, name="out")(x)


def groups_of(channels=(6, 8), width=7, positions=4):
    made = [(name, ((f"{name}/kernel", axis), (f"{name}/bias", 0))) for name, axis in (("first", 3), ("second", 3), ("hidden", 1))]
    read = [
        (("second/kernel", 2, 0),),
        tuple(("hidden/kernel", 0, place * channels[1]) for place in range(positions)),
        (("out/kernel", 0, 0),),
    ]
    sizes = (*channels, width)
    return tuple(jp.UnitGroup(name, size, nn.relu, ends, to) for (name, ends), to, size in zip(made, read, sizes, strict=True))


@pytest.fixture(scope="module")
def problem():
    """Parameters with biases away from zero, a loss, and rows."""
    images = jax.random.normal(jax.random.key(1), (16, 8, 8, 1))
    labels = jax.random.randint(jax.random.key(2), (16,), 0, 3)
    params = Network().init(jax.random.key(0), images)["params"]
    params = jax.tree.map(lambda leaf: leaf + 0.1 * jax.random.normal(jax.random.key(leaf.size), leaf.shape), params)

    def loss(params, rows):
        logits = jax.nn.log_softmax(Network().apply({"params": params}, rows[0]))
        return -jnp.mean(jnp.take_along_axis(logits, rows[1][:, None], axis=1))

    return params, loss, (images, labels)


@pytest.mark.parametrize("criterion", sorted(jp.UNIT_CRITERIA))
def test_channels_go_whole_and_the_smaller_network_is_the_same_function(problem, criterion):
    params, loss, rows = problem
    groups, total = groups_of(), prunable_size(params)
    masks = jp.prune_units(loss, params, groups, rows, jax.random.key(3), criterion=criterion, sparsity=0.7)
    kept = sum(int(np.asarray(leaf).sum()) for name, leaf in named_leaves(masks).items() if name.endswith("kernel"))
    assert 0 < kept <= jp.kept_count(0.7, total)
    masked = jp.apply_masks(params, masks)
    small, small_masks, plan = jp.compact_tree(masked, masks, groups)
    assert prunable_size(small) == kept, "whole channels: the arrays hold the kept weights and nothing else"
    widths = plan.widths
    assert small["hidden"]["kernel"].shape == (4 * widths["second"], widths["hidden"])
    expected = Network().apply({"params": masked}, rows[0])
    got = Network((widths["first"], widths["second"]), widths["hidden"]).apply({"params": small}, rows[0])
    np.testing.assert_allclose(got, expected, atol=1e-5)
    full, full_masks = expand_tree(small, small_masks, plan)
    jax.tree.map(np.testing.assert_array_equal, (full, full_masks), (masked, masks))


@pytest.mark.parametrize("density", [0.02, 0.1, 0.4])
def test_single_weights_gone_the_arrays_shrink_and_the_function_stays(problem, density):
    params, _, (images, _) = problem
    rng = np.random.default_rng(0)
    masks = jax.tree_util.tree_map_with_path(
        lambda path, leaf: rng.random(leaf.shape) < density if jp.is_kernel(path, leaf) else np.ones(leaf.shape, bool), params
    )
    masked = jp.apply_masks(params, masks)
    small, _, plan = jp.compact_tree(masked, masks, groups_of())
    widths = plan.widths
    got = Network((widths["first"], widths["second"]), widths["hidden"]).apply({"params": small}, images)
    np.testing.assert_allclose(got, Network().apply({"params": masked}, images), atol=1e-5)
    assert plan.shrinks


def test_a_channel_is_removed_exactly_where_it_is_read(problem):
    """Channel 2 of the second convolution is at 2, 10, 18 and 26 of the flattened image of 2 × 2 positions and 8 channels."""
    params, loss, rows = problem
    kept = {"first": np.ones(6, bool), "second": np.arange(8) != 2, "hidden": np.ones(7, bool)}
    scores = {name: jnp.asarray(units, jnp.float32) for name, units in kept.items()}

    def criterion(objective, params, groups, rows, key, *, masks):
        return scores

    masks = jp.prune_units(loss, params, groups_of(), rows, criterion=criterion, sparsity=1 / 21, target="units")
    assert np.flatnonzero(~np.asarray(masks["hidden"]["kernel"]).any(axis=1)).tolist() == [2, 10, 18, 26]
    assert np.flatnonzero(~np.asarray(masks["second"]["bias"])).tolist() == [2]
    assert not np.asarray(masks["second"]["kernel"])[..., 2].any()
    assert np.asarray(masks["second"]["kernel"])[..., np.arange(8) != 2].all()
    assert np.asarray(masks["first"]["kernel"]).all()


def test_constant_channels_by_hand():
    """A 1 × 2 image, three channels of a 1 × 1 convolution: one lives, one outputs relu(1) = 1 everywhere, one is not read."""
    params = {
        "conv": {"kernel": float32([[[[2.0, 0.0, 5.0]]]]), "bias": float32([0.5, 1.0, -1.0])},
        "out": {"kernel": float32([[1.0], [10.0], [0.0], [3.0], [7.0], [0.0]]), "bias": float32([0.25])},
    }
    masks = jax.tree.map(lambda leaf: np.asarray(leaf) != 0, params)
    ends = (("conv/kernel", 3), ("conv/bias", 0))
    group = jp.UnitGroup("conv", 3, nn.relu, ends, (("out/kernel", 0, 0), ("out/kernel", 0, 3)))
    small, _, plan = jp.compact_tree(params, masks, [group])
    assert plan.units["conv"].tolist() == [0]
    assert plan.constants["conv"].tolist() == [False, True, False]
    np.testing.assert_array_equal(small["out"]["kernel"], [[1.0], [3.0]])
    np.testing.assert_array_equal(small["out"]["bias"], [0.25 + 10.0 + 7.0])
    np.testing.assert_array_equal(small["conv"]["kernel"], [[[[2.0]]]])


def test_a_constant_channel_that_a_convolution_reads_stays():
    """Padding makes it less than constant at the border, so no bias can take its place; without a bias it outputs zero and goes."""
    params = {
        "a": {"kernel": np.ones((3, 3, 1, 2), np.float32), "bias": np.ones(2, np.float32)},
        "b": {"kernel": np.ones((3, 3, 2, 4), np.float32), "bias": np.ones(4, np.float32)},
    }
    group = jp.UnitGroup("a", 2, nn.relu, (("a/kernel", 3), ("a/bias", 0)), (("b/kernel", 2, 0),))
    masks = jax.tree.map(lambda leaf: np.ones(leaf.shape, bool), params)
    masks["a"]["kernel"][..., 1] = False
    assert live_units(masks, [group])[0]["a"].tolist() == [True, True]
    masks["a"]["bias"][1] = False
    assert live_units(masks, [group])[0]["a"].tolist() == [True, False]


def test_widths_that_fit_by_hand():
    """9·c weights of the first kernel, and four positions of c channels into five outputs: 116 for c = 4, 58 for c = 2."""
    params = {"conv": {"kernel": np.ones((3, 3, 1, 4), np.float32)}, "out": {"kernel": np.ones((16, 5), np.float32)}}
    group = jp.UnitGroup("conv", 4, nn.relu, (("conv/kernel", 3),), tuple(("out/kernel", 0, 4 * place) for place in range(4)))
    for keep, width in ((116, 4), (86, 2), (58, 2), (57, 1)):
        assert fitting_widths(kernel_shapes(params), [group], keep) == {"conv": width}
    with pytest.raises(ValueError, match="takes 29 weights, but the sparsity leaves 28"):
        fitting_widths(kernel_shapes(params), [group], 28)


def test_rounds_are_nested_and_rows_may_change(problem):
    params, loss, rows = problem
    seen = []

    def fresh(i):
        seen.append(i)
        return jax.tree.map(lambda leaf: leaf[i::2], rows)

    masks = jp.prune_units(loss, params, groups_of(), fresh, sparsity=0.8, rounds=2)
    assert seen == [0, 1]
    # Round 0 keeps √0.2 of the weights, scored on rows 0, 2, …
    first = jp.prune_units(loss, params, groups_of(), fresh, sparsity=1 - 0.2**0.5)
    sizes = [sum(int(np.asarray(leaf).sum()) for leaf in jax.tree.leaves(tree)) for tree in (masks, first)]
    assert sizes[0] < sizes[1]
    assert all(np.asarray(a | ~b).all() for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(masks), strict=True))


def test_refusals(problem):
    params, loss, rows = problem
    with pytest.raises(ValueError, match="'snip' is unknown; expected one of crop, l1, random, snap"):
        jp.prune_units(loss, params, groups_of(), rows, criterion="snip")
    with pytest.raises(ValueError, match="draws its scores: pass key"):
        jp.prune_units(loss, params, groups_of(), rows, criterion="random")
    with pytest.raises(ValueError, match="declaration is wrong"):
        jp.prune_units(loss, params, [dataclasses.replace(groups_of()[0], size=5)], rows, criterion="random", key=jax.random.key(0))
    with pytest.raises(ValueError, match="at least one unit in every layer"):
        jp.prune_units(loss, params, groups_of(), rows, sparsity=0.999)
