"""The bound that decides whether a sparse agent is as good as the dense one."""

import numpy as np
import pytest
from scipy import stats

from jaxprune.reporting.tolerance import margin


def test_the_bound_is_scipys():
    rng = np.random.default_rng(0)
    dense, sparse = rng.normal(100, 5, 8), rng.normal(97, 5, 8)
    found = margin({i: [d] for i, d in enumerate(dense)}, {i: [s] for i, s in enumerate(sparse)}, 0.05)

    def statistic(d, s, axis=-1):
        return s.mean(axis=axis) - 0.95 * d.mean(axis=axis)

    expected = stats.bootstrap(
        (dense, sparse), statistic, paired=True, vectorized=True, n_resamples=20_000, confidence_level=0.9, method="percentile", rng=1
    ).confidence_interval
    assert found.mean == pytest.approx(sparse.mean() - 0.95 * dense.mean())
    assert found.low == pytest.approx(expected.low, abs=0.15)
    assert found.high == pytest.approx(expected.high, abs=0.15)
    assert not found.pooled


def test_few_seeds_pool_evaluations_and_negative_returns_keep_their_sense():
    found = margin({0: [100.0, 100.0], 1: [100.0]}, {0: [96.0, 96.0], 1: [94.0, 98.0]}, 0.05)
    assert found.pooled
    assert found.mean == pytest.approx(1.0)
    # seed 0 is always 96; seed 1 averages 94, 96 or 98
    assert (found.low, found.high) == pytest.approx((0.0, 2.0))
    assert margin({0: [-100.0]}, {0: [-104.0]}, 0.05).mean == pytest.approx(1.0)
    assert margin({0: [-100.0]}, {0: [-106.0]}, 0.05).high == pytest.approx(-1.0)


def test_pairs_only_and_finite_only():
    with pytest.raises(ValueError, match="seed that the dense and the sparse"):
        margin({0: [1.0]}, {1: [1.0]}, 0.05)
    with pytest.raises(ValueError, match="finite returns"):
        margin({0: [1.0]}, {0: [np.nan]}, 0.05)
