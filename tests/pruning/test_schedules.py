import decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxprune.pruning.masks import kept_count
from jaxprune.pruning.schedules import SCHEDULES, kept_after


@pytest.mark.parametrize(
    ("schedule", "counts"),
    [
        ("exponential", [8, 4]),  # kept 16·0.25^(1/2)
        ("linear", [10, 4]),  # kept 16·(1 − 0.75/2)
        ("cubic", [6, 4]),  # kept 16·(1 − 0.75·(1 − 1/8)) = 5.5
    ],
)
def test_by_hand(schedule, counts):
    assert kept_after(0.75, 16, rounds=2, schedule=schedule) == counts


def test_exponential_is_as_published():
    # Laurent et al. 2020: pruned after round i, 1 − (1 − s)^(i/n) of the original number.
    got = kept_after(0.9885, 10_000, rounds=14)
    with decimal.localcontext(prec=50):
        density = decimal.Decimal("0.0115")
        expected = [int((10_000 * density ** (decimal.Decimal(i) / 14)).to_integral_value(decimal.ROUND_HALF_UP)) for i in range(1, 15)]
    assert got == expected


@pytest.mark.parametrize("schedule", SCHEDULES)
@given(sparsity=st.integers(0, 1000), n=st.integers(0, 5000), rounds=st.integers(1, 20))
def test_counts_fall_to_the_final_one(schedule, sparsity, n, rounds):
    counts = kept_after(sparsity / 1000, n, rounds=rounds, schedule=schedule)
    assert len(counts) == rounds
    assert counts[-1] == kept_count(sparsity / 1000, n)
    assert all(first >= second for first, second in zip([n, *counts], counts, strict=False))


def test_everything_goes_only_in_the_last_exponential_round():
    assert kept_after(1, 10, rounds=3) == [10, 10, 0]


def test_refusals():
    with pytest.raises(ValueError, match="exponential, linear, cubic"):
        kept_after(0.5, 10, schedule="cosine")
    with pytest.raises(ValueError, match="rounds=0"):
        kept_after(0.5, 10, rounds=0)
