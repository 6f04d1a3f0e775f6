import decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxprune.pruning.masks import apply_masks, dense_masks, density, invert_scores, kept_count, ranks, select, shuffle_masks


@pytest.fixture(autouse=True)
def strict():
    with jax.numpy_dtype_promotion("strict"):
        yield


def tree(key=0, dtype=jnp.float32):
    keys = jax.random.split(jax.random.key(key), 3)
    return {
        "a": {"bias": jax.random.normal(keys[0], (4,), dtype), "kernel": jax.random.normal(keys[1], (5, 4), dtype)},
        "b": {"kernel": jax.random.normal(keys[2], (2, 4, 3), dtype)},
    }


def size(scores):
    return sum(leaf.size for leaf in jax.tree.leaves(scores))


def kept(masks):
    return sum(int(leaf.sum()) for leaf in jax.tree.leaves(masks))


@pytest.mark.parametrize(
    ("sparsity", "n", "count"),
    [
        (0, 7, 7),
        (1, 7, 0),
        (0.0, 0, 0),
        (0.5, 1, 1),
        (0.5, 3, 2),
        (0.5, 5, 3),
        (0.9, 1000, 100),
        (0.95, 1000, 50),
        (0.99, 50, 1),
        (0.995, 100, 1),
        (0.7, 10, 3),
        (0.3, 10, 7),
        (0.15, 10, 9),
        (0.25, 2, 2),
        (0.29, 100, 71),
        (0.999, 1_229_259, 1229),
        (decimal.Decimal("0.995"), 100, 1),
        (np.float32(0.95), 1000, 50),
        (np.float64(0.95), 1000, 50),
        (np.float32(0.7), 15, 5),
    ],
)
def test_kept_count_rounds_halves_up_in_decimal(sparsity, n, count):
    got = kept_count(sparsity, n)
    assert got == count
    assert type(got) is int


def test_kept_count_of_a_concrete_jax_scalar_means_its_shortest_decimal():
    assert kept_count(jnp.float32(0.9), 1000) == 100


@pytest.mark.parametrize("sparsity", [-0.1, 1.0000001, float("nan"), float("inf"), -1])
def test_kept_count_refuses_what_is_no_fraction(sparsity):
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        kept_count(sparsity, 10)


@pytest.mark.parametrize(
    "sparsity",
    [True, False, np.True_, jnp.array(True), "x", "0.5", None, 0.5j, [0.5], (0.5, 0.9), np.array([0.5]), jnp.zeros((1,)), {}, object()],
)
def test_kept_count_wants_one_number(sparsity):
    with pytest.raises(TypeError, match="expected a sparsity in .0, 1., a number, got"):
        kept_count(sparsity, 10)


@pytest.mark.parametrize("sparsity", [np.float16(0.5), jnp.bfloat16(0.5), np.array(0.5), 1, np.int32(1), np.uint8(0)])
def test_kept_count_takes_any_kind_of_number(sparsity):
    assert kept_count(sparsity, 10) == 10 - int(10 * float(sparsity))


def test_kept_count_refuses_a_negative_number_and_a_tracer():
    with pytest.raises(ValueError, match="-1"):
        kept_count(0.5, -1)
    with pytest.raises(TypeError, match="host"):
        jax.jit(lambda s: kept_count(s, 10))(jnp.float32(0.5))


@pytest.mark.parametrize("sparsity", [0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1])
@pytest.mark.parametrize("kind", ["distinct", "ties", "equal", "zero"])
def test_select_keeps_exactly_the_count(sparsity, kind):
    scores = tree()
    if kind == "ties":
        scores = jax.tree.map(jnp.round, scores)
    if kind in ("equal", "zero"):
        scores = jax.tree.map(lambda leaf: jnp.full_like(leaf, kind == "equal"), scores)
    count = kept_count(sparsity, size(scores))
    masks = select(scores, count)
    assert all(mask.dtype == bool for mask in jax.tree.leaves(masks))
    assert kept(masks) == count
    flat, mask = (np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(t)]) for t in (scores, masks))
    expected = np.zeros(len(flat), bool)
    expected[np.lexsort((np.arange(len(flat)), -flat))[:count]] = True
    np.testing.assert_array_equal(mask, expected)


def test_negative_and_positive_zero_tie_by_position():
    scores = [jnp.array([-0.0, 0.0, 1.0]), jnp.array([0.0, -0.0])]
    np.testing.assert_array_equal(jnp.concatenate(select(scores, 3)), [True, True, True, False, False])


def test_nan_comes_last_even_after_minus_infinity():
    scores = [jnp.array([jnp.nan, -jnp.inf, 2.0, jnp.nan, -1.0])]
    np.testing.assert_array_equal(ranks(scores)[0], [3, 2, 0, 4, 1])
    np.testing.assert_array_equal(select(scores, 3)[0], [False, True, True, False, True])


def test_one_compilation_serves_every_count_and_vmap_agrees():
    scores, traces = tree(), []

    @jax.jit
    def chosen(scores, keep):
        traces.append(keep)
        return select(scores, keep)

    counts = jnp.arange(size(scores) + 1, dtype=jnp.int32)
    one_by_one = [chosen(scores, count) for count in counts]
    assert len(traces) == 1
    together = jax.vmap(select, in_axes=(None, 0))(scores, counts)
    for i, masks in enumerate(one_by_one):
        assert kept(masks) == i
        jax.tree.map(lambda m, t, i=i: np.testing.assert_array_equal(m, t[i]), masks, together)


def test_a_vmap_over_counts_sorts_once():
    program = str(jax.make_jaxpr(jax.vmap(select, in_axes=(None, 0)))([jnp.ones(9)], jnp.arange(3)))
    assert program.count("sort[") == 1
    assert "f32[3,9]" not in program


@pytest.mark.parametrize("keep", [0.95, 2.0, np.float32(3), jnp.float32(3), True, np.array([1, 2]), None, "3"])
def test_select_wants_an_integer_and_names_kept_count(keep):
    with pytest.raises(TypeError, match="kept_count"):
        select(tree(), keep)


def test_select_wants_an_integer_under_a_trace_too():
    with pytest.raises(TypeError, match="kept_count"):
        jax.jit(select)(tree(), 0.5)


@pytest.mark.parametrize("keep", [-1, 49, np.int32(100), jnp.int32(-3)])
def test_select_refuses_a_count_out_of_range(keep):
    with pytest.raises(ValueError, match="between 0 and 48"):
        select(tree(), keep)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.int32])
def test_other_score_types(dtype):
    scores = jax.tree.map(lambda leaf: (4 * leaf).astype(dtype), tree())
    assert kept(select(scores, 20)) == 20
    assert kept(select(invert_scores(scores), 20)) == 20


def test_leaves_of_different_types_are_ranked_together():
    scores = [jnp.array([1.0, 4.0], jnp.bfloat16), jnp.array([2.0, 3.0], jnp.float32)]
    np.testing.assert_array_equal(jnp.concatenate(select(scores, 2)), [False, True, False, True])


def test_an_empty_tree_is_an_empty_mask():
    assert select({}, 0) == {}


def test_apply_masks_gives_exact_zeros_whatever_is_masked():
    values = {"w": jnp.array([jnp.nan, -2.0, jnp.inf, -0.0])}
    out = apply_masks(values, {"w": jnp.array([False, True, False, False])})
    np.testing.assert_array_equal(out["w"], [0.0, -2.0, 0.0, 0.0])
    assert not np.signbit(out["w"])[[0, 2, 3]].any()
    assert out["w"].dtype == jnp.float32


def test_density_counts_kernels_alone():
    masks = dense_masks(tree())
    assert density(masks) == 1
    masks["a"]["kernel"] = masks["a"]["kernel"].at[0].set(False)
    masks["a"]["bias"] = jnp.zeros(4, bool)
    assert density(masks) == pytest.approx(40 / 44)
    assert jax.jit(density)(masks).dtype == jnp.float32


def test_shuffle_keeps_every_layers_count_and_moves_the_places():
    masks = select(tree(), 13) | {"c": {"kernel": jnp.zeros((3, 3), bool)}}
    masks["a"]["bias"] = jnp.array([True, False, True, True])
    shuffled = shuffle_masks(jax.random.key(1), masks)
    np.testing.assert_array_equal(shuffled["a"]["bias"], masks["a"]["bias"])
    for layer in ("a", "b", "c"):
        assert shuffled[layer]["kernel"].sum() == masks[layer]["kernel"].sum()
        assert shuffled[layer]["kernel"].shape == masks[layer]["kernel"].shape
    assert (shuffled["b"]["kernel"] != masks["b"]["kernel"]).any()
    again = shuffle_masks(jax.random.key(1), masks)
    jax.tree.map(np.testing.assert_array_equal, shuffled, again)
    other = shuffle_masks(jax.random.key(2), masks)
    assert (other["b"]["kernel"] != shuffled["b"]["kernel"]).any()


def test_members_keep_their_own_number_and_places_of_their_own():
    masks = {
        "kernel": jnp.stack([jnp.arange(600).reshape(20, 30) < 300, jnp.arange(600).reshape(20, 30) < 7]),
        "bias": jnp.ones((2, 30), bool),
    }
    shuffled = shuffle_masks(jax.random.key(0), masks, members=True)
    assert shuffled["kernel"].sum(axis=(1, 2)).tolist() == [300, 7]
    np.testing.assert_array_equal(shuffled["bias"], masks["bias"])
    alike = shuffle_masks(jax.random.key(0), {"kernel": jnp.stack([masks["kernel"][0]] * 2)}, members=True)["kernel"]
    assert (alike[0] != alike[1]).any()


@pytest.mark.parametrize("members", [False, True])
def test_shuffle_reaches_every_place(members):
    masks = {"kernel": jnp.arange(8).reshape(2, 4) % 4 < 1}
    shuffled = jax.vmap(lambda key: shuffle_masks(key, masks, members=members))(jax.random.split(jax.random.key(0), 400))
    share = jnp.mean(shuffled["kernel"], axis=0, dtype=jnp.float32)
    # 400 draws with probability 1/4: 5 standard deviations are 0.108.
    np.testing.assert_allclose(share, 0.25, atol=0.108)


def test_inverted_scores_keep_what_would_go():
    scores = tree()
    n = size(scores)
    best, worst = select(scores, 10), select(invert_scores(scores), n - 10)
    jax.tree.map(lambda b, w: np.testing.assert_array_equal(b, ~w), best, worst)


def test_integer_and_boolean_scores_are_ranked_by_value():
    assert select([np.uint8([0, 1, 2])], 1)[0].tolist() == [False, False, True]
    assert select([np.int32([-(2**31), 1, 2])], 2)[0].tolist() == [False, True, True]
    assert select([np.array([False, True, False])], 1)[0].tolist() == [False, True, False]
