import numpy as np
import pytest

from jaxprune.reporting.mask_figure import block_density, mask_figure


def test_blocks_by_hand():
    mask = np.array([[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]], bool)
    np.testing.assert_array_equal(block_density(mask, cells=2), [[0.75, 0], [0, 1]])
    np.testing.assert_array_equal(block_density(mask, cells=10), mask)
    np.testing.assert_array_equal(block_density(np.stack([mask, ~mask])), np.full((4, 4), 0.5))


def test_blocks_of_uneven_size_keep_the_mean():
    mask = np.random.default_rng(0).random((53, 101)) < 0.1
    blocks = block_density(mask, cells=7)
    assert blocks.shape == (7, 7)
    rows, columns = (np.diff(np.linspace(0, n, 8).astype(int)) for n in mask.shape)
    assert np.sum(blocks * np.outer(rows, columns)) == pytest.approx(mask.sum())


def test_a_panel_for_every_mask_and_kernel():
    kernels = {"encoder/Dense_0/kernel": np.eye(6, dtype=bool), "encoder/Dense_1/kernel": np.zeros((6, 3), bool)}
    figure = mask_figure({"snip": kernels, "random": kernels}, title="masks")
    panels = [axes for axes in figure.axes if axes.images]
    assert len(panels) == 4
    assert [axes.get_xlabel() for axes in panels] == ["17 % kept", "0 % kept"] * 2
