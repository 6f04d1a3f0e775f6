"""Files of sparse networks: their bytes against counts by hand, and what comes back."""

import numpy as np
import pytest
from storage_formats import DENSE, FORMATS, PUBLISHED, leaves, read, write


def network(kept_of=20, seed=0):
    """A stack of two kernels of 40 × 30, of which every `kept_of`-th weight stays, a kernel of 30 × 1 without any, and biases."""
    rng = np.random.default_rng(seed)
    mask = (np.arange(2 * 40 * 30) % kept_of == 0).reshape(2, 40, 30)
    kernel = np.where(mask, rng.normal(size=mask.shape), 0).astype(np.float32)
    params = {
        "first": {"kernel": kernel, "bias": rng.normal(size=(2, 30)).astype(np.float32)},
        "last": {"kernel": np.zeros((30, 1), np.float32)},
    }
    masks = {"first": {"kernel": mask, "bias": np.ones((2, 30), bool)}, "last": {"kernel": np.zeros((30, 1), bool)}}
    return params, masks


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_written_comes_back(name, tmp_path):
    params, masks = network()
    assert write(tmp_path / "file", FORMATS[name], params, masks) == (tmp_path / "file").stat().st_size
    found = list(read(tmp_path / "file", FORMATS[name], params, masks))
    assert [leaf for leaf, *_ in found] == ["first/bias", "first/kernel.0", "first/kernel.1", "last/kernel"]
    for leaf, array, before in found:
        bound = 0 if FORMATS[name].exact else 0.51 / 127 * np.abs(before).max()
        np.testing.assert_allclose(array, before, rtol=0, atol=bound, err_msg=leaf)
        assert ((array != 0) <= (before != 0)).all()


def arrays_of(name, params, masks):
    parts = [FORMATS[name].encode(array, kept) for _, array, kept in leaves(params, masks) if kept is not None]
    return sum(np.asarray(value).nbytes for part in parts for value in part.values())


def test_bytes_of_the_kernels_by_hand():
    params, masks = network()
    weights, kept = 2 * 40 * 30 + 30, 2 * 60
    assert arrays_of(DENSE, params, masks) == 4 * weights
    assert arrays_of(PUBLISHED, params, masks) == 20 * kept
    assert arrays_of("COO, int32 indices", params, masks) == 12 * kept
    # A begin for every row, and one more: 41 in each of the two kernels and 31 in the last.
    assert arrays_of("CSR, int32 indices", params, masks) == 8 * kept + 4 * (2 * 41 + 31)
    assert arrays_of("bit mask and values", params, masks) == 4 * kept + 2 * (40 * 30 // 8) + 4
    # Five bytes a weight, and a byte a row: 30 outputs twice, and one.
    assert arrays_of("rows of short integers", params, masks) == 5 * kept + 61


def test_the_published_factor_follows_from_twenty_bytes():
    params, masks = network()
    assert arrays_of(DENSE, *network()) / arrays_of(PUBLISHED, params, masks) == pytest.approx(4, rel=0.02)
    fifth = network(kept_of=5)
    assert arrays_of(PUBLISHED, *fifth) / arrays_of(DENSE, *fifth) == pytest.approx(1, rel=0.02)
