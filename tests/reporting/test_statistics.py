import numpy as np
import pytest
from scipy import stats

from jaxprune.reporting import interquartile_mean, pooled_spread, ratio_of_means, spread

SIX = [10.0, 12.0, 9.0, 30.0, 11.0, 13.0]


def test_interquartile_mean_by_hand():
    assert interquartile_mean([100.0, 1.0, 2.0, 3.0]) == 2.5  # one of four cut at either end
    assert interquartile_mean([5.0, 1.0, 2.0, 3.0, 100.0]) == pytest.approx(10 / 3)  # ⌊5/4⌋ = 1
    assert interquartile_mean([0, 1, 2, 3, 4, 5, 6, 99]) == 3.5
    np.testing.assert_allclose(interquartile_mean([[1, 2, 3, 50], [4, 5, 6, 7]]), [2.5, 5.5])


def test_few_seeds_are_points_and_range():
    found = spread([3.0, 1.0, 2.0])
    assert (found.values, found.mean, found.low, found.high, found.kind) == ((3.0, 1.0, 2.0), 2.0, 1.0, 3.0, "range")
    assert found.iqm is None
    assert found.label == "3 seeds, points and range"
    assert spread([1.0, 2.0, 3.0, 4.0]).kind == "range"
    assert spread([7.0]).label == "1 seed, one point, no spread"


def test_five_seeds_are_a_bootstrap():
    found = spread(SIX)
    assert found.kind == "bootstrap"
    assert found.label == "6 seeds, mean and 95 % bootstrap interval"
    assert found.mean == pytest.approx(85 / 6)
    assert found.iqm == pytest.approx((10 + 11 + 12 + 13) / 4)
    # The percentile interval, drawn here with another generator and by hand: equal up to Monte Carlo error.
    draws = np.random.default_rng(123).choice(SIX, (200_000, 6)).mean(axis=1)
    low, high = np.percentile(draws, [2.5, 97.5])
    assert found.low == pytest.approx(low, abs=0.4)
    assert found.high == pytest.approx(high, abs=0.8)
    assert found.iqm is not None
    assert found.iqm_low is not None
    assert found.iqm_high is not None
    assert found.iqm_low < found.iqm < found.iqm_high


def test_the_interval_is_scipys():
    expected = stats.bootstrap(
        (np.array(SIX),), np.mean, n_resamples=2000, method="percentile", confidence_level=0.95, rng=np.random.default_rng(0)
    ).confidence_interval
    found = spread(SIX)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_deterministic():
    assert spread(SIX) == spread(SIX)
    assert spread(SIX) != spread(SIX, seed=1)


def test_equal_values_have_an_interval_of_width_zero():
    found = spread([2.0] * 5)
    assert (found.low, found.mean, found.high, found.iqm) == (2.0, 2.0, 2.0, 2.0)


@pytest.mark.parametrize("seeds", [3, 5, 7])
def test_equal_values_have_themselves_for_a_mean(seeds):
    for numerator in range(1, 704):
        found = spread([numerator / 704] * seeds, resamples=9)
        assert found.low == found.mean == found.high == numerator / 704


def test_the_bootstrap_is_stratified_by_task():
    # Two tasks far apart, no spread inside either: resampling within tasks cannot move the mean, resampling over all would.
    found = pooled_spread({"a": [0.0] * 5, "b": [100.0] * 5})
    assert (found.low, found.mean, found.high) == (50.0, 50.0, 50.0)
    assert found.label == "5 seeds × 2 tasks, mean and 95 % bootstrap interval"


def test_the_task_with_fewest_seeds_decides():
    found = pooled_spread({"a": [1.0] * 6, "b": [2.0, 4.0]})
    assert (found.kind, found.seeds, found.low, found.high) == ("range", 2, 1.0, 4.0)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_value_that_is_not_finite_is_refused(bad):
    with pytest.raises(ValueError, match=r"value 1 is .*name them"):
        spread([1.0, bad])


def test_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one value"):
        spread([])
    with pytest.raises(ValueError, match="at least one task"):
        pooled_spread({})
    with pytest.raises(ValueError, match="of 'b'"):
        pooled_spread({"a": [1.0], "b": []})


def test_ratio_of_means():
    few = ratio_of_means([9.0, 11.0], [20.0, 20.0])
    assert few is not None
    assert (few.value, few.low, few.high) == (0.5, None, None)
    assert ratio_of_means([1.0], [-2.0]) is None
    many = ratio_of_means(SIX, [20.0] * 5)
    assert many is not None
    assert many.low is not None
    assert many.high is not None
    assert many.value == pytest.approx(85 / 120)
    assert many.low < many.value < many.high
    assert (many.low, many.high) == pytest.approx(  # a constant denominator only scales the interval of the mean
        tuple(np.array([spread(SIX).low, spread(SIX).high]) / 20), abs=0.05
    )


def test_overlap():
    assert spread([1.0, 3.0]).overlaps(spread([3.0, 4.0]))
    assert not spread([1.0, 2.0]).overlaps(spread([3.0, 4.0]))
