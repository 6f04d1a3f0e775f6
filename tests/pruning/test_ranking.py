import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxprune.parameters import prunable_leaves
from jaxprune.pruning.masks import ranks
from jaxprune.pruning.ranking import rank_scores

SCORES = {
    "a": {"bias": jnp.ones(3), "kernel": jnp.arange(10.0)},
    "b": {"kernel": jnp.arange(10.0, 14.0)},
    "c": {"kernel": jnp.array([[-1.0, -2.0], [-3.0, -4.0]])},
}


@pytest.fixture(autouse=True)
def strict():
    with jax.numpy_dtype_promotion("strict"):
        yield


def counts(masks):
    return {name.split("/")[0]: int(mask.sum()) for name, mask in prunable_leaves(masks).items()}


def test_a_lower_class_comes_first_whatever_the_score():
    scores, classes = [jnp.array([1.0, jnp.nan, 5.0]), jnp.array([2.0, 9.0])], [jnp.array([1, 0, 1]), jnp.array([0, 2])]
    # class 0: 2.0 then NaN; class 1: 5.0 then 1.0; class 2: 9.0.
    np.testing.assert_array_equal(jnp.concatenate(ranks(scores, classes)), [3, 1, 2, 0, 4])
    equal = jax.tree.map(jnp.zeros_like, scores)
    np.testing.assert_array_equal(jnp.concatenate(ranks(equal, classes)), [2, 0, 3, 1, 4])


def test_a_floor_claims_the_best_of_every_leaf_first():
    ranking = rank_scores(SCORES, floor=1)
    # One each, then b's three others and a's best.
    assert counts(ranking.masks({"": 3})) == {"a": 1, "b": 1, "c": 1}
    assert counts(ranking.masks({"": 6})) == {"a": 1, "b": 4, "c": 1}
    assert counts(ranking.masks({"": 7})) == {"a": 2, "b": 4, "c": 1}
    np.testing.assert_array_equal(ranking.masks({"": 7})["c"]["kernel"], [[True, False], [False, False]])
    # A floor above a leaf's size is that leaf.
    assert counts(rank_scores(SCORES, floor=5).masks({"": 17})) == {"a": 9, "b": 4, "c": 4}
    with pytest.raises(ValueError, match="floor=5 needs 13 weights in 3 layers but the budget keeps 12"):
        rank_scores(SCORES, floor=5).masks({"": 12})


def test_what_is_removed_stays_removed_and_a_larger_budget_keeps_the_rest():
    within = jax.tree.map(lambda leaf: leaf != 13, SCORES) | {"a": {"bias": jnp.ones(3, bool), "kernel": jnp.arange(10) < 2}}
    for floor in (0, 1):
        ranking = rank_scores(SCORES, floor=floor, within=within)
        assert counts(ranking.masks({"": 18})) == {"a": 2, "b": 3, "c": 4}
        assert counts(ranking.masks({"": 4})) == {"a": 1, "b": 3 - floor, "c": floor}
        np.testing.assert_array_equal(ranking.masks({"": 4})["b"]["kernel"], [not floor, True, True, False])
        np.testing.assert_array_equal(ranking.masks({"": 4})["a"]["bias"], [True] * 3)


def test_counts_of_a_sparsity_are_of_the_original_size():
    ranking = rank_scores(SCORES, ("a", "b"), within=jax.tree.map(lambda leaf: leaf > 3, SCORES))
    assert ranking.kept(0.5) == {"a": 5, "b": 2}
    masks = ranking.masks(ranking.kept(0.2))
    assert counts(masks) == {"a": 6, "b": 3, "c": 4}  # six of a are left; c has no budget and keeps everything
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        ranking.kept(20)


@pytest.mark.parametrize("allocation", ["global", "uniform", "erk"])
def test_counts_are_integers_in_range(allocation):
    ranking = rank_scores(SCORES, allocation=allocation)
    with pytest.raises(TypeError, match="kept_count"):
        ranking.masks({"": 0.5})
    with pytest.raises(ValueError, match="between 0 and 18"):
        ranking.masks({"": 19})
    with pytest.raises(ValueError, match="global, uniform, erk"):
        rank_scores(SCORES, allocation="all")


def test_a_global_ranking_leaves_jit_and_takes_a_traced_count():
    ranking = jax.jit(rank_scores)(SCORES)
    masks = jax.vmap(lambda keep: ranking.masks({"": keep}))(jnp.arange(19))
    for keep in range(19):
        jax.tree.map(lambda m, e, keep=keep: np.testing.assert_array_equal(m[keep], e), masks, rank_scores(SCORES).masks({"": keep}))
    assert str(jax.make_jaxpr(jax.vmap(lambda keep: ranking.masks({"": keep})))(jnp.arange(19))).count("sort[") == 0
    with pytest.raises(ValueError, match="allocation='uniform' with floor=0 divides a budget between layers on the host"):
        jax.jit(lambda keep: rank_scores(SCORES, allocation="uniform").masks({"": keep}))(jnp.int32(3))
