import jax.numpy as jnp
import numpy as np
import pytest

import jaxprune as jp
from jaxprune.parameters import named_leaves, prunable_leaves, replace_leaves

NESTED = {"a": {"b": {"kernel": jnp.ones((2, 3))}}}


def test_a_slash_in_a_key_is_no_harm_while_names_differ():
    params = {**NESTED, "a/c": {"kernel": jnp.zeros((2, 3))}}
    assert list(named_leaves(params)) == ["a/b/kernel", "a/c/kernel"]
    np.testing.assert_array_equal(replace_leaves(params, {"a/c/kernel": jnp.ones(1)})["a/c"]["kernel"], [1])


@pytest.mark.parametrize(
    "clash",
    [
        {**NESTED, "a/b": {"kernel": jnp.zeros((4, 4))}},
        {**NESTED, "a/b/kernel": jnp.zeros((4, 4))},
        {"a": [{"kernel": jnp.ones(2)}], "a/0": {"kernel": jnp.ones(2)}},
        {"x": jnp.ones(3), "l": {"bias": jnp.ones(3)}, "l/bias": jnp.ones(1)},  # none of the two is prunable
    ],
)
def test_two_leaves_of_one_name_are_refused(clash):
    message = r"two parameters are called '(a/b/kernel|a/0/kernel|l/bias)', \[.*\] and \[.*\]; rename one"
    for function in (named_leaves, prunable_leaves, lambda tree: replace_leaves(tree, {}), jp.density):
        with pytest.raises(ValueError, match=message):
            function(clash)


def test_pruning_does_not_drop_a_layer_in_silence():
    params = {**NESTED, "a/b": {"kernel": jnp.zeros((4, 4))}}
    with pytest.raises(ValueError, match="two parameters are called 'a/b/kernel'"):
        jp.prune(lambda p, rows: jnp.sum(p["a"]["b"]["kernel"] ** 2), params, None, criterion="magnitude", sparsity=0.5)
