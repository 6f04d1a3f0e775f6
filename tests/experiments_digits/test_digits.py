import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from digits import ConvolutionalNetwork, convolutional_objective, convolve, cross_entropy, load_digits, wrong

import jaxprune as jp
from jaxprune.parameters import prunable_size


def test_without_scikit_learn_the_way_to_get_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ImportError, match=r"sklearn is needed here .* pip install 'jaxprune\[experiments\]'"):
        load_digits()


def test_the_split_and_the_standardisation():
    pytest.importorskip("sklearn")
    digits = load_digits()
    assert digits.train["images"].shape == (1200, 8, 8, 1)
    assert digits.held_out["images"].shape == (597, 8, 8, 1)
    np.testing.assert_allclose([digits.train["images"].mean(), digits.train["images"].std()], [0, 1], atol=1e-5)
    everything = np.concatenate([part["images"].reshape(len(part["labels"]), -1) for part in (digits.train, digits.held_out)])
    assert len(np.unique(everything, axis=0)) == 1797, "no image is in both"
    assert set(digits.held_out["labels"].tolist()) == set(range(10))


def test_loss_and_errors_by_hand():
    logits = jnp.log(jnp.array([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3]]))
    rows = {"labels": jnp.array([0, 2])}
    np.testing.assert_allclose(cross_entropy(logits, rows, None), -np.log([0.7, 0.3]), rtol=1e-6)
    assert wrong(logits, rows).tolist() == [0.0, 1.0]


@pytest.mark.parametrize(("stride", "size", "kernel"), [(1, (8, 8), (3, 3)), (2, (8, 8), (3, 3)), (2, (5, 7), (3, 3)), (1, (4, 6), (2, 1))])
def test_products_over_shifted_copies_are_the_convolution(stride, size, kernel):
    images = jax.random.normal(jax.random.key(0), (2, *size, 3))
    weights = jax.random.normal(jax.random.key(1), (*kernel, 3, 4))
    expected = jax.lax.conv_general_dilated(images, weights, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    np.testing.assert_allclose(convolve(images, weights, (stride, stride), "SAME"), expected, atol=1e-5)


def test_the_groups_of_the_network_fit_its_arrays():
    """A channel that the masks cut off everywhere changes the logits no more, and leaves the arrays."""
    network = ConvolutionalNetwork((3, 4, 5), 6)
    params = network.parameters(jax.random.key(0))
    assert prunable_size(params) == 9 * 3 + 9 * 3 * 4 + 9 * 4 * 5 + 4 * 5 * 6 + 6 * 10
    params = jax.tree.map(lambda leaf: leaf + 0.1, params)
    rows = {"images": jax.random.normal(jax.random.key(1), (7, 8, 8, 1)), "labels": jnp.arange(7)}
    objective = convolutional_objective(network)
    assert convolutional_objective(ConvolutionalNetwork((3, 4, 5), 6)) is objective
    masks = jp.prune_units(objective, params, network.groups(), rows, criterion="crop", sparsity=0.6)
    small, _, plan = jp.compact_tree(jp.apply_masks(params, masks), masks, network.groups())
    cut = network.with_widths(plan.widths)
    assert jax.tree.map(jnp.shape, cut.parameters(jax.random.key(0))) == jax.tree.map(jnp.shape, small)
    expected = network.apply({"params": jp.apply_masks(params, masks)}, rows["images"])
    np.testing.assert_allclose(cut.apply({"params": small}, rows["images"]), expected, atol=1e-5)
    assert all(group.activation is nn.relu for group in network.groups())
