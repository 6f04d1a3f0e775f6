import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxprune.networks import MLP, unit_groups
from jaxprune.parameters import UnitGroup, prunable_leaves
from jaxprune.pruning.inspection import UnitCounts, count_units, effective_density, effective_masks, jaccard, layer_fractions, live_units
from jaxprune.pruning.masks import dense_masks, density

MLP_2_3_3_1 = MLP((3, 3, 1))
GROUPS = unit_groups(MLP_2_3_3_1)


@pytest.fixture(autouse=True)
def strict():
    with jax.numpy_dtype_promotion("strict"):
        yield


def masks_of(first, second, third):
    kernels = {"Dense_0": first, "Dense_1": second, "Dense_2": third}
    return {name: {"kernel": jnp.array(k, bool), "bias": jnp.ones(len(k[0]), bool)} for name, k in kernels.items()}


# Unit 0 of the first layer is fed and heard through unit 1 of the second; unit 1 is fed and leads to unit 0 of the second, which leads
# nowhere; unit 2 has no input and leads to unit 2, which is heard.
BY_HAND = masks_of(
    [[1, 0, 0], [0, 1, 0]],
    [[0, 1, 0], [1, 0, 0], [0, 0, 1]],
    [[0], [1], [1]],
)


def test_live_units_by_hand():
    units = live_units(BY_HAND, GROUPS)
    np.testing.assert_array_equal(units["Dense_0"][0], [True, True, False])
    np.testing.assert_array_equal(units["Dense_0"][1], [True, False, True])
    np.testing.assert_array_equal(units["Dense_1"][0], [True, True, False])
    np.testing.assert_array_equal(units["Dense_1"][1], [False, True, True])
    counts = count_units(BY_HAND, GROUPS)
    assert counts == {"Dense_0": UnitCounts(1, 1, 1), "Dense_1": UnitCounts(1, 1, 1)}


def test_effective_density_by_hand():
    # 18 kernel weights, 7 kept; one path of three weights.
    assert density(BY_HAND) == pytest.approx(7 / 18)
    assert effective_density(BY_HAND, BY_HAND, GROUPS) == pytest.approx(3 / 18)
    live = effective_masks(BY_HAND, GROUPS)
    assert {name: np.argwhere(mask).tolist() for name, mask in live.items()} == {
        "Dense_0/kernel": [[0, 0]],
        "Dense_1/kernel": [[0, 1]],
        "Dense_2/kernel": [[1, 0]],
    }


def test_dense_and_empty():
    params = MLP_2_3_3_1.parameters(jax.random.key(0), 2)
    dense = dense_masks(params)
    assert effective_density(params, dense, GROUPS) == 1
    dense["Dense_1"]["kernel"] = jnp.zeros((3, 3), bool)
    assert effective_density(params, dense, GROUPS) == 0
    assert count_units(dense, GROUPS) == {"Dense_0": UnitCounts(0, 0, 3), "Dense_1": UnitCounts(0, 3, 0)}


def test_live_paths_are_what_the_gradient_sees():
    params = MLP((6, 5, 2)).parameters(jax.random.key(0), 4)
    groups = unit_groups(MLP((6, 5, 2)))
    for seed in range(8):
        masks = {
            name: {
                "kernel": jax.random.bernoulli(jax.random.fold_in(jax.random.key(seed), i), 0.2, layer["kernel"].shape),
                "bias": layer["bias"] == 0,
            }
            for i, (name, layer) in enumerate(params.items())
        }

        def signal(kernels):
            x = jnp.ones(4)
            for kernel in kernels:
                x = x @ kernel
            return jnp.sum(x)

        weights = [masks[f"Dense_{i}"]["kernel"].astype(jnp.float32) for i in range(3)]
        expected = [(w > 0) & (g > 0) for w, g in zip(weights, jax.grad(signal)(weights), strict=True)]
        live = effective_masks(masks, groups)
        for i in range(3):
            np.testing.assert_array_equal(live[f"Dense_{i}/kernel"], expected[i])


def test_members_of_a_stack_are_networks_of_their_own():
    other = dense_masks(BY_HAND)
    stacked = jax.tree.map(lambda a, b: jnp.stack([a, b]), BY_HAND, other)
    groups = unit_groups(MLP_2_3_3_1, members=2)
    live = effective_masks(stacked, groups)
    alone = effective_masks(BY_HAND, GROUPS)
    for name in live:
        np.testing.assert_array_equal(live[name][0], alone[name])
        assert live[name][1].all()
    assert effective_density(stacked, stacked, groups) == pytest.approx((3 + 18) / 36)
    assert count_units(stacked, groups)["Dense_0"] == UnitCounts(4, 1, 1)
    assert live_units(stacked, groups)["Dense_1"][0].shape == (2, 3)


def test_a_consumer_may_read_units_beside_other_inputs():
    # Two units enter rows 1 and 2 of a kernel whose row 0 is an input of the network.
    group = UnitGroup("units", 2, jax.nn.relu, producers=(("in/kernel", 1),), consumers=(("out/kernel", 0, 1),))
    masks = {"in": {"kernel": jnp.array([[True, False]])}, "out": {"kernel": jnp.array([[True], [True], [True]])}}
    live = effective_masks(masks, [group])
    np.testing.assert_array_equal(live["out/kernel"].ravel(), [True, True, False])
    np.testing.assert_array_equal(live["in/kernel"].ravel(), [True, False])


def test_jaccard_by_hand():
    a = {"kernel": jnp.array([True, True, False, False]), "bias": jnp.array([True])}
    b = {"kernel": jnp.array([True, False, True, False]), "bias": jnp.array([False])}
    assert jaccard(a, b) == pytest.approx(1 / 3)
    assert jaccard(a, a) == 1
    nothing = jax.tree.map(jnp.zeros_like, a)
    assert jaccard(a, nothing) == 0
    assert jaccard(nothing, nothing) == 1


def test_layer_fractions():
    assert {name: float(x) for name, x in layer_fractions(BY_HAND).items()} == {
        "Dense_0/kernel": pytest.approx(2 / 6),
        "Dense_1/kernel": pytest.approx(3 / 9),
        "Dense_2/kernel": pytest.approx(2 / 3),
    }


def test_all_of_it_traces():
    program = jax.jit(lambda m: (effective_density(m, m, GROUPS), jaccard(m, m), layer_fractions(m)))
    density_, overlap, fractions = program(BY_HAND)
    assert density_ == pytest.approx(3 / 18)
    assert overlap == 1
    assert set(fractions) == set(prunable_leaves(BY_HAND))
