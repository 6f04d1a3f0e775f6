"""What must hold whatever the numbers are."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxprune.criteria import CRITERIA, UNIT_CRITERIA
from jaxprune.networks import MLP, apply, linear_signal, unit_groups
from jaxprune.objective import Objective
from jaxprune.parameters import prunable_leaves
from jaxprune.pruning.masks import kept_count, select
from jaxprune.pruning.prune import prune

SIZES, ROWS = (4, 6, 5, 2), 9
NET = MLP(SIZES[1:], activation=jnp.tanh, init_scheme="reference")
GROUPS = unit_groups(NET)
TOTAL = sum(a * b for a, b in itertools.pairwise(SIZES))
DATA = [name for name in CRITERIA if name not in ("random", "magnitude", "synflow")]

fast = settings(max_examples=8, deadline=None)
seeds = st.integers(0, 2**20)


@pytest.fixture(autouse=True)
def exact(x64, strict):
    del x64, strict


def loss(outputs, rows, context):
    return jnp.mean((outputs - rows["y"]) ** 2, axis=-1) * context


# The context scales the loss.
OBJECTIVE = Objective(
    lambda params, rows, context: apply(NET, params, rows["x"]), loss, signal=lambda params, context: linear_signal(params) * context
)


def problem(seed):
    """Parameters and rows drawn with NumPy: no compilation."""
    rng = np.random.default_rng(seed)
    params = {
        f"Dense_{i}": {"kernel": rng.normal(size=(a, b)) / np.sqrt(a), "bias": rng.normal(size=b) / 4}
        for i, (a, b) in enumerate(itertools.pairwise(SIZES))
    }
    return params, {"x": rng.normal(size=(ROWS, SIZES[0])), "y": rng.normal(size=(ROWS, SIZES[-1]))}


@functools.cache
def _program(criteria):
    @jax.jit
    def scores(params, rows, scale, lambda_):
        objective = OBJECTIVE.replace(context=scale)
        options = {"lm": {"lambda_": lambda_}, "obd": {"lambda_": lambda_}, "qm": {"lambda_": lambda_}}
        return {name: CRITERIA[name](objective, params, rows, jax.random.key(0), **options.get(name, {})) for name in criteria}

    return scores


def every_score(params, rows, scale=1.0, lambda_=0.0):
    return _program(tuple(CRITERIA))(params, rows, jnp.float64(scale), jnp.float64(lambda_))


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in prunable_leaves(tree).values()])


def chosen(scores, count):
    mask = np.zeros(scores.size, bool)
    mask[np.argsort(-scores, kind="stable")[:count]] = True
    return mask


@fast
@given(seed=seeds, scale=st.sampled_from([2.0**-9, 0.25, 8.0, 2.0**11]))
def test_a_scaled_loss_ranks_the_same(seed, scale):
    params, rows = problem(seed)
    plain, scaled = every_score(params, rows), every_score(params, rows, scale=scale)
    for name in CRITERIA:
        for count in (1, 13, 40):
            np.testing.assert_array_equal(chosen(flat(plain[name]), count), chosen(flat(scaled[name]), count), err_msg=name)


def permuted(params, order):
    """The same function with the first hidden layer's units in another order."""
    first, second = params["Dense_0"], params["Dense_1"]
    return {
        **params,
        "Dense_0": {"kernel": first["kernel"][:, order], "bias": first["bias"][order]},
        "Dense_1": {"kernel": second["kernel"][order], "bias": second["bias"]},
    }


@fast
@given(seed=seeds, order=st.permutations(range(SIZES[1])))
def test_scores_follow_a_permutation_of_units(seed, order):
    params, rows = problem(seed)
    order = np.array(order)
    plain, moved = every_score(params, rows), every_score(permuted(params, order), rows)
    for name in CRITERIA:
        if name != "random":
            expected = permuted(plain[name], order)
            jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-13, err_msg=name), moved[name], expected)


@fast
@given(seed=seeds, order=st.permutations(range(ROWS)))
def test_the_order_of_rows_does_not_matter(seed, order):
    params, rows = problem(seed)
    plain = every_score(params, rows)
    shuffled = every_score(params, jax.tree.map(lambda leaf: leaf[np.array(order)], rows))
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-13), plain, shuffled)


@fast
@given(seed=seeds)
def test_an_endless_step_penalty_is_magnitude(seed):
    params, rows = problem(seed)
    scores = every_score(params, rows, lambda_=1e13)
    for name in ("lm", "obd", "qm"):
        for count in (1, 13, 40):
            np.testing.assert_array_equal(chosen(flat(scores[name]), count), chosen(flat(scores["magnitude"]), count), err_msg=name)


@fast
@given(seed=seeds)
def test_snip_is_the_linear_model_in_one_round(seed):
    params, rows = problem(seed)
    scores = every_score(params, rows)
    np.testing.assert_array_equal(flat(scores["snip"]), flat(scores["lm"]))
    np.testing.assert_array_equal(flat(scores["snip"]), flat(scores["force"]))


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("sparsity", [0, 1e-9, 0.5 / TOTAL, 0.99, 1 - 1e-9, 1])
def test_extreme_sparsities(criterion, sparsity):
    scores = every_score(*problem(7))[criterion]
    masks = select(prunable_leaves(scores), kept_count(sparsity, TOTAL))
    assert sum(int(mask.sum()) for mask in masks.values()) == kept_count(sparsity, TOTAL)


@pytest.mark.parametrize("criterion", DATA)
def test_chunks_give_the_same_mask(criterion):
    params, rows = problem(3)
    objective = OBJECTIVE.replace(context=jnp.float64(1))
    masks = [prune(objective, params, rows, criterion=criterion, sparsity=0.8, chunk=chunk) for chunk in (None, 2)]
    np.testing.assert_array_equal(flat(masks[0]), flat(masks[1]))


def gate_derivative(function, size, j, step=1e-5):
    ones = np.ones(size)
    up, down = ones.copy(), ones.copy()
    up[j] += step
    down[j] -= step
    return (function(up) - function(down)) / (2 * step)


@pytest.mark.parametrize("criterion", ["snap", "crop"])
def test_unit_scores_are_gates_on_pre_activations(criterion):
    """Against central differences of a network written out with its gates."""
    params, rows = problem(11)
    kernels, biases = ([params[f"Dense_{i}"][leaf] for i in range(3)] for leaf in ("kernel", "bias"))

    def gated_loss(kernels, first, second):
        h = jnp.tanh(first * (rows["x"] @ kernels[0] + biases[0]))
        h = jnp.tanh(second * (h @ kernels[1] + biases[1]))
        return jnp.mean((h @ kernels[2] + biases[2] - rows["y"]) ** 2)

    value, gradient = jax.jit(gated_loss), jax.jit(jax.grad(gated_loss))
    ones = np.ones(SIZES[1]), np.ones(SIZES[2])
    flow = gradient(kernels, *ones)

    def measured(first, second):
        if criterion == "snap":
            return float(value(kernels, first, second))
        return float(sum(jnp.vdot(f, g) for f, g in zip(flow, gradient(kernels, first, second), strict=True)))

    scores = UNIT_CRITERIA[criterion](OBJECTIVE.replace(context=jnp.float64(1)), params, GROUPS, rows)
    first = [abs(gate_derivative(lambda c: measured(c, ones[1]), SIZES[1], j)) for j in range(SIZES[1])]
    second = [abs(gate_derivative(lambda c: measured(ones[0], c), SIZES[2], j)) for j in range(SIZES[2])]
    np.testing.assert_allclose(scores["Dense_0"], first, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(scores["Dense_1"], second, rtol=1e-6, atol=1e-9)


def test_unit_l1_by_hand_and_per_member():
    params = {
        "Dense_0": {"kernel": np.array([[[1.0, -2.0]], [[0.5, 3.0]]]), "bias": np.array([[9.0, 9.0], [9.0, 9.0]])},
        "Dense_1": {"kernel": np.ones((2, 2, 1)), "bias": np.zeros((2, 1))},
    }
    scores = UNIT_CRITERIA["l1"](None, params, unit_groups(MLP((2, 1)), members=2), None)
    np.testing.assert_array_equal(scores["Dense_0"], [[1.0, 2.0], [0.5, 3.0]])
    with pytest.raises(ValueError, match="key"):
        UNIT_CRITERIA["random"](None, params, GROUPS, None)


@pytest.mark.parametrize("criterion", ["snap", "crop"])
def test_unit_scores_of_a_stack_are_its_members(criterion):
    problems = [problem(seed) for seed in (1, 2)]
    rows = problems[0][1]
    stacked = jax.tree.map(lambda a, b: np.stack([a, b]), problems[0][0], problems[1][0])

    def both(params, rows):
        outputs = jax.vmap(lambda p: apply(NET, p, rows["x"]))(params)
        return jnp.sum(jnp.mean((outputs - rows["y"]) ** 2, axis=(1, 2)))

    together = jax.jit(lambda p: UNIT_CRITERIA[criterion](both, p, unit_groups(NET, members=2), rows))(stacked)
    for member, (params, _) in enumerate(problems):
        alone = UNIT_CRITERIA[criterion](OBJECTIVE.replace(context=jnp.float64(1)), params, GROUPS, rows)
        for name in alone:
            np.testing.assert_allclose(together[name][member], alone[name], rtol=1e-9, atol=1e-14)
