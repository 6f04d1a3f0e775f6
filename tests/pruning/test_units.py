"""Choosing whole units: orders and counts against brute force."""

import itertools

import flax.linen as nn
import jax
import numpy as np
import pytest

from jaxprune.networks import MLP, unit_groups
from jaxprune.pruning.units import (
    check_unit_scores,
    count_around,
    count_within,
    kept_units,
    kernel_shapes,
    unit_masks,
    unit_order,
    units_left,
    weights_left,
)


def network(sizes, members=0):
    lead = (members,) if members else ()
    params = {
        f"Dense_{i}": {"kernel": np.ones((*lead, a, b), np.float32), "bias": np.ones((*lead, b), np.float32)}
        for i, (a, b) in enumerate(itertools.pairwise(sizes))
    }
    return params, unit_groups(MLP(tuple(sizes[1:]), activation=nn.relu), members=members)


def test_the_floor_comes_first_then_the_ranking():
    _, groups = network((2, 3, 4, 1))
    scores = {"Dense_0": np.array([1.0, 3.0, 2.0]), "Dense_1": np.array([9.0, 7.0, 8.0, 6.0])}
    order, least = unit_order(scores, groups)
    assert least == 2
    # units 0-2 are of the first layer, 3-6 of the second
    assert order.tolist() == [3, 1, 5, 4, 6, 2, 0]
    assert unit_order(scores, groups, floor=2)[0].tolist() == [3, 5, 1, 2, 4, 6, 0]
    assert unit_order(scores, groups, floor=99)[1] == 7


def test_uniform_keeps_the_same_fraction_of_every_layer():
    _, groups = network((2, 30, 10, 1))
    rng = np.random.default_rng(0)
    scores = {"Dense_0": rng.random(30), "Dense_1": 100 + rng.random(10)}
    order, _ = unit_order(scores, groups, allocation="uniform")
    for count in (8, 20, 32):
        kept = kept_units(order, count, groups)
        assert kept["Dense_0"].sum() == count * 3 // 4
        for name, units in kept.items():
            assert scores[name][units].min() > scores[name][~units].max()


def test_members_have_a_floor_each_and_ties_go_by_position():
    _, groups = network((2, 3, 1), members=2)
    order, least = unit_order({"Dense_0": np.array([[5.0, 5.0, 5.0], [0.0, 0.0, 0.0]])}, groups)
    assert least == 2
    assert order.tolist() == [0, 3, 1, 2, 4, 5]
    assert kept_units(order, 3, groups)["Dense_0"].tolist() == [[True, True, False], [True, False, False]]


def test_what_was_removed_stays_removed():
    _, groups = network((2, 4, 1))
    kept = {"Dense_0": np.array([False, True, True, True])}
    order, _ = unit_order({"Dense_0": np.array([9.0, 1.0, 3.0, 2.0])}, groups, kept=kept)
    assert order.tolist() == [2, 3, 1, 0]
    assert unit_order({"Dense_0": np.array([9.0, 1.0, 3.0, 2.0])}, groups, kept=kept, allocation="uniform")[0].tolist() == [2, 3, 1, 0]


@pytest.mark.parametrize("members", [0, 2])
def test_what_is_left_where_single_weights_are_gone(members):
    params, groups = network((3, 4, 5, 2), members)
    rng = np.random.default_rng(0)
    masks = {name: rng.random(shape) < 0.5 for name, shape in kernel_shapes(params).items()}
    first, middle, last = (masks[f"Dense_{i}/kernel"] for i in range(3))
    first[..., 0, :] = middle[..., 0, :] = middle[..., 2, :] = True
    first[..., :, 1] = middle[..., 1, :] = False  # unit 1 of the first layer makes and reads nothing
    first[..., :, 2] = False  # unit 2 is still read
    last[..., 3, :] = False  # unit 3 of the second layer is still made
    alive = units_left(masks, groups)
    expected = {"Dense_0": [True, False, True, True], "Dense_1": [True] * 5}
    for name, each in expected.items():
        np.testing.assert_array_equal(alive[name], np.broadcast_to(each, alive[name].shape))
    kept = {group.name: rng.random(alive[group.name].shape) < 0.6 for group in groups}
    both = jax.tree.map(np.asarray, unit_masks(params, groups, kept))
    count = sum(int((masks[f"{layer}/kernel"] & both[layer]["kernel"]).sum()) for layer in both)
    assert weights_left(kernel_shapes(params), groups, kept, masks) == count
    whole = {name: np.ones_like(mask) for name, mask in masks.items()}
    assert weights_left(kernel_shapes(params), groups, kept, whole) == weights_left(kernel_shapes(params), groups, kept)


@pytest.mark.parametrize("members", [0, 3])
def test_masks_and_counts_against_loops(members):
    sizes = (3, 5, 4, 2)
    params, groups = network(sizes, members)
    rng = np.random.default_rng(1)
    kept = {g.name: rng.random((members, g.size) if members else g.size) < 0.5 for g in groups}
    masks = unit_masks(params, groups, kept)
    for m in range(max(1, members)):
        hidden = [kept[f"Dense_{i}"][m] if members else kept[f"Dense_{i}"] for i in range(2)]
        inner = [np.ones(3, bool), *hidden, np.ones(2, bool)]
        for i in range(3):
            kernel, bias = (
                np.asarray(masks[f"Dense_{i}"][leaf])[m] if members else masks[f"Dense_{i}"][leaf] for leaf in ("kernel", "bias")
            )
            np.testing.assert_array_equal(bias, inner[i + 1])
            for a, b in itertools.product(range(sizes[i]), range(sizes[i + 1])):
                assert kernel[a, b] == (inner[i][a] and inner[i + 1][b])
    total = sum(int(np.asarray(masks[f"Dense_{i}"]["kernel"]).sum()) for i in range(3))
    assert weights_left(kernel_shapes(params), groups, kept) == total


def test_counts_for_a_budget_of_weights_against_every_count():
    params, groups = network((3, 7, 6, 2))
    scores = {g.name: np.random.default_rng(5).random(g.size) for g in groups}
    order, least = unit_order(scores, groups)
    shapes = kernel_shapes(params)

    def weights(count):
        return weights_left(shapes, groups, kept_units(order, count, groups))

    all_counts = range(least, 14)
    for budget in range(weights(least), weights(13) + 3):
        assert count_within(weights, least, 13, budget, "x") == max(c for c in all_counts if weights(c) <= budget)
        enough = [c for c in all_counts if weights(c) >= min(budget, weights(13))]
        for wanted in (budget, 1.5 * budget, 4 * budget):
            expected = min(enough, key=lambda c: (abs(weights(c) - min(wanted, weights(13))), -c))
            got = count_around(weights, least, 13, min(wanted, weights(13)), min(budget, weights(13)))
            assert weights(got) == weights(expected)
    with pytest.raises(ValueError, match="x: at least one unit in every layer takes 6 weights, but the sparsity leaves 5"):
        count_within(weights, least, 13, 5, "x")


def test_refusals():
    _, groups = network((2, 3, 1))
    scores = {"Dense_0": np.ones(3)}
    with pytest.raises(ValueError, match="'erk' is unknown for units; expected one of global, uniform"):
        unit_order(scores, groups, allocation="erk")
    with pytest.raises(ValueError, match="floor of at least one unit"):
        unit_order(scores, groups, floor=0)
    with pytest.raises(ValueError, match="'crop': scores of a are NaN"):
        check_unit_scores({"a": np.array([1.0, np.nan])}, criterion="crop")
    with pytest.raises(ValueError, match="'crop': every score is zero"):
        check_unit_scores({"a": np.zeros(2)}, criterion="crop")
    assert jax.tree.leaves(unit_masks(network((2, 3, 1))[0], groups, {"Dense_0": np.ones(3, bool)}))
