"""Scores against arrays computed with another framework's autograd in float64."""

import functools

import jax
import numpy as np
import pytest

from jaxprune.criteria import CRITERIA, UNIT_CRITERIA
from jaxprune.criteria.curvature import fisher_diagonal, ggn_diagonal
from jaxprune.objective import in_chunks
from jaxprune.parameters import prunable_leaves

RTOL = 1e-9
# An exact zero of the oracle (a dead ReLU) may be the sum of terms that cancel here.
ATOL = 1e-15


@functools.partial(jax.jit, static_argnames=("groups",))
def everything(objective, params, rows, lambda_, groups):
    """Every deterministic criterion in one program."""
    models = ("lm", "obd", "qm")
    plain = ("magnitude", "snip", "force", "grasp", "crop", "synflow", *models)
    scores = {name: CRITERIA[name](objective, params, rows) for name in plain}
    scores |= {f"{name}_lambda": CRITERIA[name](objective, params, rows, lambda_=lambda_) for name in models}
    scores["ggn_diag"] = ggn_diagonal(objective, params, rows)
    scores["empirical_fisher_diag"] = fisher_diagonal(objective, params, rows)
    units = {name: UNIT_CRITERIA[name](objective, params, groups, rows) for name in ("snap", "crop")}
    return scores, units, objective(params, rows)


@functools.lru_cache
def computed(case):
    return everything(case.objective, case.params, case.rows, case.value("lambda"), case.groups)


def agree(scores, expected, *, kernels_only=False):
    leaves = prunable_leaves(scores, lambda path, leaf: True)
    assert list(leaves) == sorted(expected)
    for name, leaf in leaves.items():
        assert leaf.dtype == np.float64
        if not (kernels_only and name.endswith("bias")):
            np.testing.assert_allclose(leaf, expected[name], rtol=RTOL, atol=ATOL, err_msg=name)


def test_loss_is_the_oracles(oracle):
    np.testing.assert_allclose(computed(oracle)[2], oracle.value("loss"), rtol=RTOL)


@pytest.mark.parametrize(
    "name",
    [
        *("magnitude", "snip", "lm", "obd", "qm", "lm_lambda", "obd_lambda", "qm_lambda"),
        *("synflow", "ggn_diag", "empirical_fisher_diag"),
    ],
)
def test_every_leaf(oracle, name):
    agree(computed(oracle)[0][name], oracle.expected(name))


@pytest.mark.parametrize("name", ["grasp", "crop"])
def test_kernels_with_biases_held_fixed(oracle, name):
    agree(computed(oracle)[0][name], oracle.expected(name), kernels_only=True)


def test_force_without_masks_is_snip(oracle):
    agree(computed(oracle)[0]["force"], oracle.expected("snip"))


@pytest.mark.parametrize("name", ["snap", "crop"])
def test_units(oracle, name):
    scores = computed(oracle)[1][name]
    assert len(scores) == oracle.hidden
    for layer in range(oracle.hidden):
        np.testing.assert_allclose(scores[f"Dense_{layer}"], oracle.value(f"{name}_units/{layer}"), rtol=RTOL, atol=ATOL)


@pytest.mark.parametrize("oracle", ["tanh"], indirect=True)
@pytest.mark.parametrize("chunk", [1, 5, 100])
def test_rows_accumulated_in_chunks_of_any_size(oracle, chunk):
    @jax.jit
    def scored(params, rows):
        objectives = {"objective": oracle.objective, "callable": oracle.objective.__call__}
        chunked = {kind: in_chunks(objective, chunk) for kind, objective in objectives.items()}
        first = {kind: {name: CRITERIA[name](o, params, rows) for name in ("snip", "grasp")} for kind, o in chunked.items()}
        return (
            first,
            ggn_diagonal(oracle.objective, params, rows, chunk=chunk),
            fisher_diagonal(oracle.objective, params, rows, chunk=chunk),
        )

    first, ggn, fisher = scored(oracle.params, oracle.rows)
    for kind in first:
        agree(first[kind]["snip"], oracle.expected("snip"))
        agree(first[kind]["grasp"], oracle.expected("grasp"), kernels_only=True)
    agree(ggn, oracle.expected("ggn_diag"))
    agree(fisher, oracle.expected("empirical_fisher_diag"))


def test_random_needs_a_key_and_repeats_with_it():
    params = {"kernel": np.ones((30, 40), np.float32), "bias": np.ones(40, np.float32)}
    with pytest.raises(ValueError, match="key"):
        CRITERIA["random"](None, params, None)
    first, second, other = (CRITERIA["random"](None, params, None, jax.random.key(seed)) for seed in (0, 0, 1))
    jax.tree.map(np.testing.assert_array_equal, first, second)
    assert (first["kernel"] != other["kernel"]).mean() > 0.99
    assert all(leaf.min() >= 0 and leaf.max() < 1 for leaf in jax.tree.leaves(first))
