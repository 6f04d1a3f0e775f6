import numpy as np
import pytest

from jaxprune.data import columns


@pytest.fixture(params=[7, 65_536])
def chunk(request, monkeypatch):
    monkeypatch.setattr(columns, "CHUNK", request.param)


@pytest.mark.usefixtures("chunk")
def test_statistics_match_float64():
    array = (np.random.default_rng(0).normal(size=(1_000, 3)) * [1, 1e-3, 1e4] + [1e4, 0, -5]).astype(np.float32)
    found = columns.summarize(array)
    wide = array.astype(np.float64)
    np.testing.assert_allclose(found.mean, wide.mean(0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.std, wide.std(0), rtol=1e-12)
    np.testing.assert_array_equal(found.low, wide.min(0))
    np.testing.assert_array_equal(found.high, wide.max(0))


def test_float32_would_lose_the_mean():
    """Two million times 1048576.125: a float32 sum stops growing."""
    array = np.full((2_000_000, 1), 1048576.125, np.float32)
    array[0] = 0
    assert columns.summarize(array).mean[0] == pytest.approx(1048576.125 * (1 - 1 / 2_000_000), rel=1e-12)


@pytest.mark.usefixtures("chunk")
def test_first_nonfinite():
    array = np.zeros((30, 2), np.float32)
    assert columns.first_nonfinite(array) is None
    array[[9, 20], [1, 0]] = [np.inf, np.nan]
    assert columns.first_nonfinite(array) == (9, 1, 2)
    array[:] = np.finfo(np.float32).max
    assert columns.first_nonfinite(array) is None
    array[3, 0], array[3, 1] = np.inf, -np.inf
    assert columns.first_nonfinite(array) == (3, 0, 1)


@pytest.mark.usefixtures("chunk")
def test_keep_rows_in_place():
    array = np.arange(40.0).reshape(20, 2)
    keep = np.asarray([0, 3, 4, 5, 9, 11, 12, 13, 14, 19])
    expected = array[keep].copy()
    kept = columns.keep_rows(array, keep)
    np.testing.assert_array_equal(kept, expected)
    assert kept.base is array or kept.base is array.base
