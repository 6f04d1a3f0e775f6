"""The compacted network is the same function, told by forward passes in NumPy."""

import dataclasses
import functools
import itertools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jaxprune.networks import MLP, unit_groups
from jaxprune.parameters import UnitGroup
from jaxprune.pruning.compaction import compact_tree, expand_tree, live_units, packed_units
from jaxprune.pruning.inspection import effective_density

float32 = functools.partial(np.array, dtype=np.float32)

ACTIVATIONS = {
    "relu": (nn.relu, lambda x: np.maximum(x, 0)),
    "tanh": (jnp.tanh, np.tanh),
    "sigmoid": (nn.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
}


def forward(params, x, activation):
    """Outputs [members, rows, outputs] of a stack of perceptrons."""
    layers = [params[f"Dense_{i}"] for i in range(len(params))]
    hidden = x
    for i, layer in enumerate(layers):
        hidden = np.einsum("...ri,...io->...ro", hidden if i == 0 else activation(hidden), np.asarray(layer["kernel"]))
        hidden = hidden + np.asarray(layer["bias"])[..., None, :]
    return hidden


def case(rng, sizes, members, density, dtype: type = np.float64, mask_biases=False):
    lead = (members,) if members else ()
    params, masks = {}, {}
    for i, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes)):
        kernel, bias = rng.normal(size=(*lead, fan_in, fan_out)), rng.normal(size=(*lead, fan_out))
        params[f"Dense_{i}"] = {"bias": bias.astype(dtype), "kernel": kernel.astype(dtype)}
        masks[f"Dense_{i}"] = {
            "bias": rng.random(bias.shape) < 0.6 if mask_biases else np.ones(bias.shape, bool),
            "kernel": rng.random(kernel.shape) < density,
        }
    return jax.tree.map(lambda p, m: np.where(m, p, p.dtype.type(0)), params, masks), masks


def groups_of(sizes, members, activation):
    return unit_groups(MLP(tuple(sizes[1:]), activation=ACTIVATIONS[activation][0]), members=members)


shapes = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 2**31),
        "sizes": st.lists(st.integers(1, 9), min_size=2, max_size=5),
        "members": st.integers(0, 3),
        "density": st.sampled_from([0.0, 0.05, 0.15, 0.3, 0.6, 1.0]),
        "activation": st.sampled_from(sorted(ACTIVATIONS)),
        "mask_biases": st.booleans(),
        "multiple": st.sampled_from([1, 3, 8]),
    }
)


@given(shapes)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_same_function_packed_idempotent_and_back(drawn):
    rng, sizes, members = np.random.default_rng(drawn["seed"]), drawn["sizes"], drawn["members"]
    plain = ACTIVATIONS[drawn["activation"]][1]
    # NumPy's functions compile nothing, whatever the shapes.
    groups = tuple(dataclasses.replace(group, activation=plain) for group in groups_of(sizes, members, drawn["activation"]))
    with jax.enable_x64(True):
        params, masks = case(rng, sizes, members, drawn["density"], mask_biases=drawn["mask_biases"])
        x = rng.normal(size=(7, sizes[0]))
        expected = forward(params, x, plain)
        small, small_masks, plan = compact_tree(params, masks, groups, multiple=drawn["multiple"])
        scale = np.abs(expected).max()
        assert np.abs(forward(small, x, plain) - expected).max() <= 1e-12 * scale

        for group in groups:
            width, units = plan.widths[group.name], plan.units[group.name].reshape(max(1, members), -1)
            assert 1 <= width <= group.size
            assert width % drawn["multiple"] == 0 or width == group.size
            for row in units:
                live = row[row >= 0]
                assert (np.diff(live) > 0).all()
                assert (row[len(live) :] == -1).all()
        for layer, leaves in small.items():
            for name, leaf in leaves.items():
                assert leaf.dtype == np.float64
                assert not np.asarray(leaf)[~np.asarray(small_masks[layer][name])].any()

        resized = tuple(dataclasses.replace(g, size=plan.widths[g.name]) for g in groups)
        again, again_masks, second = compact_tree(small, small_masks, resized, multiple=drawn["multiple"])
        assert second.widths == plan.widths
        jax.tree.map(np.testing.assert_array_equal, (again, again_masks), (small, small_masks))

        full, full_masks = expand_tree(small, small_masks, plan)
        assert np.abs(forward(full, x, plain) - expected).max() <= 1e-12 * scale
        for layer, leaves in full.items():
            kernel, mask = np.asarray(leaves["kernel"]), np.asarray(full_masks[layer]["kernel"])
            np.testing.assert_array_equal(kernel, np.where(mask, params[layer]["kernel"], 0))
            assert not mask[~masks[layer]["kernel"]].any()
            assert not np.asarray(leaves["bias"])[~np.asarray(full_masks[layer]["bias"])].any()


def test_live_paths_are_no_more_than_what_is_kept():
    """Compaction keeps a unit in a dead layer, and units whose constant cannot be folded, so the two may differ."""
    rng, sizes = np.random.default_rng(0), (3, 6, 5, 2)
    for density in (0.05, 0.2, 0.4, 0.7):
        params, masks = case(rng, sizes, 0, density)
        groups = groups_of(sizes, 0, "tanh")
        kept = expand_tree(*compact_tree(params, masks, groups))[1]
        kept, total = (
            sum(np.asarray(layer["kernel"]).sum() for layer in tree.values()) for tree in (kept, jax.tree.map(np.ones_like, masks))
        )
        assert float(effective_density(params, masks, groups)) <= kept / total + 1e-6


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_float32(activation):
    rng, sizes = np.random.default_rng(0), (20, 300, 200, 3)
    params, masks = case(rng, sizes, 2, 0.02, np.float32)
    x = rng.normal(size=(50, 20)).astype(np.float32)
    small, _, plan = compact_tree(params, masks, groups_of(sizes, 2, activation))
    assert all(leaf.dtype == np.float32 for leaf in jax.tree.leaves(small))
    assert plan.shrinks
    plain = ACTIVATIONS[activation][1]
    expected = forward(params, x, plain)
    assert np.abs(forward(small, x, plain) - expected).max() <= 2e-6 * np.abs(expected).max()


def test_brute_force_liveness():
    """A unit stays exactly if some path of kept weights from an input to an output crosses it."""
    rng, sizes = np.random.default_rng(3), (3, 6, 5, 7, 2)
    for _ in range(40):
        _, masks = case(rng, sizes, 0, 0.2)
        kernels = [masks[f"Dense_{i}"]["kernel"].astype(int) for i in range(4)]
        live, _ = live_units(masks, groups_of(sizes, 0, "tanh"))
        for i in range(3):
            before, after = np.ones(sizes[0], int), np.ones(sizes[-1], int)
            for kernel in kernels[: i + 1]:
                before = before @ kernel
            for kernel in reversed(kernels[i + 1 :]):
                after = kernel @ after
            np.testing.assert_array_equal(live[f"Dense_{i}"], (before > 0) & (after > 0))


def test_constants_by_hand():
    """One input; unit 1 of the first layer is constant, unit 0 of the second reads it alone, and so is constant too."""
    params = {
        "Dense_0": {"kernel": float32([[2.0, 0.0, 5.0]]), "bias": float32([0.5, 1.0, -1.0])},
        "Dense_1": {"kernel": float32([[0.0, 3.0], [4.0, 7.0], [0.0, 0.0]]), "bias": float32([0.25, -0.5])},
        "Dense_2": {"kernel": float32([[10.0], [1.0]]), "bias": float32([0.125])},
    }
    masks = jax.tree.map(lambda p: np.asarray(p) != 0, params)
    small, small_masks, plan = compact_tree(params, masks, groups_of((1, 3, 2, 1), 0, "relu"))
    assert plan.units["Dense_0"].tolist() == [0]
    assert plan.units["Dense_1"].tolist() == [1]
    assert plan.constants["Dense_0"].tolist() == [False, True, False]
    assert plan.constants["Dense_1"].tolist() == [True, False]
    np.testing.assert_array_equal(small["Dense_0"]["kernel"], [[2.0]])
    np.testing.assert_array_equal(small["Dense_1"]["kernel"], [[3.0]])
    np.testing.assert_array_equal(small["Dense_1"]["bias"], [-0.5 + 7.0 * 1.0])
    np.testing.assert_array_equal(small["Dense_2"]["bias"], [0.125 + 10.0 * (0.25 + 4.0 * 1.0)])
    assert all(np.asarray(m).all() for m in jax.tree.leaves(small_masks))


def test_a_constant_without_a_place_to_go_stays():
    """The bias that would take it is masked, so it would be nonzero where masked: the unit is kept."""
    rng, sizes = np.random.default_rng(0), (2, 3, 1)
    params, masks = case(rng, sizes, 0, 1.0)
    masks["Dense_0"]["kernel"][:, 1] = False
    masks["Dense_1"]["bias"][:] = False
    params = jax.tree.map(lambda p, m: np.where(m, p, 0.0), params, masks)
    with jax.enable_x64(True):
        _, _, plan = compact_tree(params, masks, groups_of(sizes, 0, "relu"))
        assert plan.units["Dense_0"].tolist() == [0, 1, 2]
        masks["Dense_0"]["bias"][1] = False
        params = jax.tree.map(lambda p, m: np.where(m, p, 0.0), params, masks)
        assert compact_tree(params, masks, groups_of(sizes, 0, "relu"))[2].units["Dense_0"].tolist() == [0, 2]
        assert compact_tree(params, masks, groups_of(sizes, 0, "sigmoid"))[2].units["Dense_0"].tolist() == [0, 1, 2]


def test_consumers_at_an_offset():
    """Two groups side by side in one kernel, with two plain inputs between them."""
    rng = np.random.default_rng(1)
    left = UnitGroup("left", 4, jnp.tanh, (("left/kernel", 1), ("left/bias", 0)), (("out/kernel", 0, 0),))
    right = UnitGroup("right", 3, jnp.tanh, (("right/kernel", 1), ("right/bias", 0)), (("out/kernel", 0, 6),))
    shapes = {"left": (5, 4), "right": (5, 3), "out": (9, 2)}
    params = {name: {"kernel": rng.normal(size=shape), "bias": rng.normal(size=shape[1])} for name, shape in shapes.items()}
    masks = jax.tree.map(lambda p: np.ones(p.shape, bool), params)
    masks["left"]["kernel"][:, 2] = False
    masks["out"]["kernel"][[0, 7]] = False
    params = jax.tree.map(lambda p, m: np.where(m, p, 0.0), params, masks)

    def outputs(p, x):
        p = jax.tree.map(np.asarray, p)
        left, right = (np.tanh(x @ p[side]["kernel"] + p[side]["bias"]) for side in ("left", "right"))
        return np.concatenate([left, x[:, :2], right], axis=1) @ p["out"]["kernel"] + p["out"]["bias"]

    x = rng.normal(size=(6, 5))
    with jax.enable_x64(True):
        small, small_masks, plan = compact_tree(params, masks, [left, right])
        assert plan.widths == {"left": 2, "right": 2}
        assert small["out"]["kernel"].shape == (6, 2)
        np.testing.assert_allclose(outputs(small, x), outputs(params, x), rtol=1e-12)
        full, _ = expand_tree(small, small_masks, plan)
        assert full["out"]["kernel"].shape == (9, 2)
        np.testing.assert_allclose(outputs(full, x), outputs(params, x), rtol=1e-12)


def test_widths_may_be_given_and_may_be_larger():
    rng, sizes = np.random.default_rng(0), (3, 6, 2)
    params, masks = case(rng, sizes, 0, 1.0)
    masks["Dense_0"]["kernel"][:, :4] = False
    groups = groups_of(sizes, 0, "relu")
    for width in (2, 5, 9):
        small, small_masks, plan = compact_tree(params, masks, groups, widths={"Dense_0": width})
        assert plan.units["Dense_0"].tolist() == [4, 5] + [-1] * (width - 2)
        assert small["Dense_0"]["kernel"].shape == (3, width)
        assert not np.asarray(small["Dense_1"]["kernel"])[2:].any()
        assert not np.asarray(small_masks["Dense_0"]["bias"])[2:].any()
    with pytest.raises(ValueError, match="2 live units"):
        compact_tree(params, masks, groups, widths={"Dense_0": 1})


def test_refusals():
    params, masks = case(np.random.default_rng(0), (3, 4, 2), 0, 0.5)
    groups = groups_of((3, 4, 2), 0, "relu")
    with pytest.raises(TypeError, match="traced"):
        jax.jit(lambda m: compact_tree(params, m, groups)[0])(masks)
    with pytest.raises(ValueError, match="no leaf"):
        live_units(masks, [dataclasses.replace(groups[0], consumers=(("Dense_7/kernel", 0, 0),))])
    for wrong in (dataclasses.replace(groups[0], size=3), dataclasses.replace(groups[0], consumers=(("Dense_1/kernel", 0, 1),))):
        with pytest.raises(ValueError, match="declaration is wrong"):
            live_units(masks, [wrong])


def test_padding_of_stacks():
    live = {"a": np.array([[True, False, True, False], [False, False, False, True]])}
    group = UnitGroup("a", 4, nn.relu, (), (), members=2)
    assert packed_units(live, [group])["a"].tolist() == [[0, 2], [3, -1]]
    assert packed_units(live, [group], multiple=3)["a"].tolist() == [[0, 2, -1], [3, -1, -1]]
    assert packed_units(live, [group], multiple=8)["a"].shape == (2, 4)
