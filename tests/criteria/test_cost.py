"""What scores cost, counted in the compiled programs: the same on a busy machine."""

import jax
import pytest

from jaxprune.criteria import CRITERIA
from tests.criteria.test_contract import network_of

pytestmark = pytest.mark.usefixtures("strict")


def compiled(function, params, rows):
    program = jax.jit(function).lower(params, rows).compile()
    return program.cost_analysis()["flops"], program.as_text().count(" dot("), program.memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize("network", ["vae", "critic", "actor"])
def test_snip_is_the_gradient_and_two_operations_a_parameter(network):
    objective, params, rows = network_of("bcq", network)
    count = sum(leaf.size for leaf in jax.tree.leaves(params))
    gradient, products, scratch = compiled(jax.grad(objective), params, rows)
    for name in ("snip", "force"):
        operations, same, memory = compiled(lambda p, r, name=name: CRITERIA[name](objective, p, r), params, rows)
        # A multiplication and an absolute value, in the gradient's own memory but for some alignment.
        assert operations - gradient == pytest.approx(2 * count, rel=0.01)
        assert same == products
        assert memory <= scratch + 4096


@pytest.mark.parametrize("network", ["vae", "critic", "actor"])
def test_gradient_flow_shares_the_gradient_with_its_own_derivative(network):
    """One gradient and its directional derivative, which is twice that: three, where computing the gradient twice would be four."""
    objective, params, rows = network_of("bcq", network)
    gradient, *_ = compiled(jax.grad(objective), params, rows)
    for name in ("grasp", "crop"):
        operations, *_ = compiled(lambda p, r, name=name: CRITERIA[name](objective, p, r), params, rows)
        assert operations < 3.5 * gradient
