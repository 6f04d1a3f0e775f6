import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxprune.pruning.allocation import ALLOCATIONS, allocate, largest_remainder

SHAPES = {"a": (10, 20), "b": (20, 5), "c": (5, 2)}


def test_uniform_is_the_same_density_everywhere():
    assert allocate("uniform", SHAPES, 31) == {"a": 20, "b": 10, "c": 1}


def test_remainders_go_to_the_largest_fraction_then_to_the_first():
    # 0.1 of 7, 7 and 6 weights is 0.7, 0.7 and 0.6: two weights, one each for the first two.
    assert allocate("uniform", {"a": (7,), "b": (7,), "c": (6,)}, 2) == {"a": 1, "b": 1, "c": 0}
    np.testing.assert_array_equal(largest_remainder(np.array([1.5, 1.5, 1.0]), 4, np.full(3, 9), np.zeros(3, int)), [2, 1, 1])


def test_erk_by_hand():
    # Densities proportional to 30/200, 25/100 and 7/10: weights 30, 25 and 7.
    # 15, 12.5 and 3.5: the tie goes to the first.
    assert allocate("erk", SHAPES, 31) == {"a": 15, "b": 13, "c": 3}
    # Twice 62 would need 14 of c's 10: c is full, and 114 weights are shared 30 : 25.
    assert allocate("erk", SHAPES, 124) == {"a": 62, "b": 52, "c": 10}


def test_a_member_axis_is_no_fan():
    stacked = {name: (3, *shape) for name, shape in SHAPES.items()}
    counts = allocate("erk", stacked, 93, stacked=frozenset(stacked))
    assert counts == {"a": 45, "b": 38, "c": 10}


def test_global_leaves_it_to_the_ranking():
    assert allocate("global", SHAPES, 31) is None
    assert allocate("global", SHAPES, 31, floor=4) is None


def test_a_floor_lifts_the_smallest_layer():
    assert allocate("uniform", SHAPES, 31, floor=4) == {"a": 18, "b": 9, "c": 4}


@pytest.mark.parametrize("allocation", ALLOCATIONS)
def test_a_floor_that_does_not_fit_is_refused(allocation):
    with pytest.raises(ValueError, match="floor=5 needs 15"):
        allocate(allocation, SHAPES, 14, floor=5)


def test_an_unknown_allocation_lists_those_there_are():
    with pytest.raises(ValueError, match="global, uniform, erk"):
        allocate("magic", SHAPES, 3)


@settings(max_examples=200, deadline=None)
@given(
    shapes=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=6),
    share=st.floats(0, 1),
    left=st.floats(0.1, 1),
    allocation=st.sampled_from(["uniform", "erk"]),
)
def test_sums_exactly_within_what_there_is(shapes, share, left, allocation):
    named = {f"l{i}": shape for i, shape in enumerate(shapes)}
    available = {name: int(left * a * b) for name, (a, b) in named.items()}
    keep = int(share * sum(available.values()))
    counts = allocate(allocation, named, keep, available=available)
    assert counts is not None
    assert sum(counts.values()) == keep
    assert all(0 <= counts[name] <= available[name] for name in named)
