"""Scores against arrays computed with another framework's autograd in float64."""

import jax
import numpy as np
import pytest

from jaxprune.criteria import CRITERIA
from jaxprune.parameters import prunable_leaves

RTOL = 1e-9
# An exact zero of the oracle (a dead ReLU) may be the sum of terms that cancel here.
ATOL = 1e-15


def agree(scores, expected, *, kernels_only=False):
    leaves = prunable_leaves(scores, lambda path, leaf: True)
    assert list(leaves) == [name for layer in sorted({n.split("/")[0] for n in expected}) for name in (f"{layer}/bias", f"{layer}/kernel")]
    for name, leaf in leaves.items():
        assert leaf.dtype == np.float64
        if not (kernels_only and name.endswith("bias")):
            np.testing.assert_allclose(leaf, expected[name], rtol=RTOL, atol=ATOL, err_msg=name)


def test_loss_is_the_oracles(oracle):
    np.testing.assert_allclose(oracle.objective(oracle.params, oracle.rows), oracle.value("loss"), rtol=RTOL)


@pytest.mark.parametrize("name", ["magnitude", "snip"])
def test_every_leaf(oracle, name):
    agree(CRITERIA[name](oracle.objective, oracle.params, oracle.rows), oracle.expected(name))


@pytest.mark.parametrize("name", ["grasp", "crop"])
def test_kernels_with_biases_held_fixed(oracle, name):
    agree(CRITERIA[name](oracle.objective, oracle.params, oracle.rows), oracle.expected(name), kernels_only=True)


def test_any_callable_will_do_for_first_order_criteria(oracle):
    def loss(params, rows):
        return oracle.objective(params, rows)

    agree(CRITERIA["snip"](loss, oracle.params, oracle.rows), oracle.expected("snip"))
    agree(CRITERIA["grasp"](loss, oracle.params, oracle.rows), oracle.expected("grasp"), kernels_only=True)


def test_random_needs_a_key_and_repeats_with_it(oracle):
    with pytest.raises(ValueError, match="key"):
        CRITERIA["random"](oracle.objective, oracle.params, oracle.rows)
    first, second = (CRITERIA["random"](oracle.objective, oracle.params, oracle.rows, jax.random.key(0)) for _ in range(2))
    jax.tree.map(np.testing.assert_array_equal, first, second)
    assert all(0 <= leaf.min() and leaf.max() < 1 for leaf in jax.tree.leaves(first))
