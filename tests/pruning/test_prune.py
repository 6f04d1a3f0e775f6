import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxprune.criteria import CRITERIA
from jaxprune.parameters import prunable_leaves
from jaxprune.pruning.masks import apply_masks
from jaxprune.pruning.prune import mask_from_scores, prune
from jaxprune.pruning.schedules import kept_after
from jaxprune.training.arms import inverted

KEYS = jax.random.split(jax.random.key(0), 6)
PARAMS = {
    "first": {"kernel": jax.random.normal(KEYS[0], (6, 8)), "bias": jax.random.normal(KEYS[1], (8,))},
    "second": {"kernel": jax.random.normal(KEYS[2], (8, 2)), "bias": jnp.zeros(2)},
}
ROWS = (jax.random.normal(KEYS[3], (20, 6)), jax.random.normal(KEYS[4], (20, 2)))
TOTAL = 64


def loss(params, rows):
    x, y = rows
    hidden = jnp.tanh(x @ params["first"]["kernel"] + params["first"]["bias"])
    return jnp.mean((hidden @ params["second"]["kernel"] + params["second"]["bias"] - y) ** 2)


@pytest.fixture(autouse=True)
def strict():
    with jax.numpy_dtype_promotion("strict"):
        yield


def kernels(masks):
    return np.concatenate([np.ravel(leaf) for leaf in prunable_leaves(masks).values()])


@pytest.mark.parametrize(("sparsity", "kept"), [(0, 64), (0.5, 32), (0.95, 3), (0.99, 1), (1, 0)])
def test_exactly_the_count_and_biases_true(sparsity, kept):
    before = jax.tree.map(np.array, PARAMS)
    masks = prune(loss, PARAMS, ROWS, sparsity=sparsity)
    assert jax.tree.structure(masks) == jax.tree.structure(PARAMS)
    assert kernels(masks).sum() == kept
    assert all(masks[layer]["bias"].all() for layer in masks)
    jax.tree.map(np.testing.assert_array_equal, PARAMS, before)


def test_snip_of_any_loss_by_hand():
    gradient = jax.grad(loss)(PARAMS, ROWS)
    scores = {name: np.abs(leaf * prunable_leaves(gradient)[name]) for name, leaf in prunable_leaves(PARAMS).items()}
    flat = np.concatenate([leaf.ravel() for leaf in scores.values()])
    expected = np.argsort(-flat, kind="stable")[:10]
    assert set(np.flatnonzero(kernels(prune(loss, PARAMS, ROWS, sparsity=1 - 10 / 64)))) == set(expected)


@pytest.mark.parametrize("schedule", ["exponential", "linear", "cubic"])
@pytest.mark.parametrize("allocation", ["global", "uniform", "erk"])
def test_rounds_are_nested_and_follow_the_schedule(schedule, allocation):
    seen = []

    def magnitude_seen(objective, params, rows, key=None, *, masks=None):
        seen.append((params, masks))
        return jax.tree.map(jnp.abs, params)

    with jax.disable_jit():
        masks = prune(loss, PARAMS, ROWS, criterion=magnitude_seen, sparsity=0.9, rounds=5, schedule=schedule, allocation=allocation)
    assert seen[0][1] is None
    history = [*(kernels(m) for _, m in seen[1:]), kernels(masks)]
    assert [mask.sum() for mask in history] == kept_after(0.9, TOTAL, rounds=5, schedule=schedule)
    assert all(not (later & ~earlier).any() for earlier, later in itertools.pairwise(history))
    for params, m in seen[1:]:
        jax.tree.map(np.testing.assert_array_equal, params, apply_masks(PARAMS, m))


def test_each_round_scores_fresh_rows():
    asked = []

    def rows(i):
        asked.append(i)
        return (ROWS[0][i : i + 10], ROWS[1][i : i + 10])

    assert kernels(prune(loss, PARAMS, rows, sparsity=0.9, rounds=3)).sum() == 6
    assert asked == [0, 1, 2]


def test_force_may_bring_weights_back_from_dense_parameters():
    def swap(params, rows):
        # With all weights the third matters least; once it is gone it matters most, and the first least.
        a, b, c = params["kernel"]
        return jnp.where(c == 0, 1 * a + 2 * b + 5 * c, 4 * a + 5 * b + 1 * c)

    params = {"kernel": jnp.ones(3)}
    for force in ("force", CRITERIA["force"]):
        np.testing.assert_array_equal(prune(swap, params, None, criterion=force, sparsity=0.5, rounds=2)["kernel"], [False, True, True])
    np.testing.assert_array_equal(prune(swap, params, None, criterion="snip", sparsity=0.5, rounds=2)["kernel"], [True, True, False])


def test_force_turned_round_may_bring_weights_back_too():
    def swap(params, rows):
        # With all weights the second matters most, and goes; once it is gone it matters least, and the third most.
        a, b, c = params["kernel"]
        return jnp.where(b == 0, 5 * a + 1 * b + 9 * c, 4 * a + 5 * b + 1 * c)

    params = {"kernel": jnp.ones(3)}
    masks = prune(swap, params, None, criterion=inverted("force"), sparsity=0.5, rounds=2)
    np.testing.assert_array_equal(masks["kernel"], [True, True, False])


def test_masks_of_an_earlier_pruning_stay():
    first = prune(loss, PARAMS, ROWS, criterion="magnitude", sparsity=0.5)
    second = prune(loss, PARAMS, ROWS, criterion="snip", sparsity=0.8, masks=first)
    assert kernels(second).sum() == 13
    assert not (kernels(second) & ~kernels(first)).any()
    same = prune(loss, PARAMS, ROWS, criterion="snip", sparsity=0.1, masks=first)
    np.testing.assert_array_equal(kernels(same), kernels(first))


@pytest.mark.parametrize("criterion", ["snip", "grasp", "crop"])
def test_chunks_of_rows_give_the_same_mask(criterion):
    whole = prune(loss, PARAMS, ROWS, criterion=criterion, sparsity=0.7)
    parts = prune(loss, PARAMS, ROWS, criterion=criterion, sparsity=0.7, chunk=7)
    np.testing.assert_array_equal(kernels(whole), kernels(parts))


def test_prunable_decides_what_is_ranked():
    masks = prune(loss, PARAMS, ROWS, sparsity=0.5, prunable=lambda path, leaf: "second" in str(path[0]) and leaf.ndim == 2)
    assert masks["first"]["kernel"].all()
    assert masks["second"]["kernel"].sum() == 8
    with pytest.raises(ValueError, match="prunable"):
        prune(loss, PARAMS, ROWS, prunable=lambda path, leaf: False)


def test_floor_keeps_a_layer_alive():
    scores = {"a": {"kernel": jnp.arange(10.0)}, "b": {"kernel": -jnp.ones(5)}}
    assert mask_from_scores(scores, {"": 4})["b"]["kernel"].sum() == 0
    masks = mask_from_scores(scores, {"": 4}, floor=1)
    np.testing.assert_array_equal(masks["b"]["kernel"], [True, False, False, False, False])
    np.testing.assert_array_equal(np.flatnonzero(masks["a"]["kernel"]), [7, 8, 9])


def test_budgets_are_ranked_apart():
    scores = {"a": {"kernel": jnp.arange(10.0)}, "b": {"kernel": -jnp.arange(5.0)}}
    masks = mask_from_scores(scores, {"a": 2, "b": 3})
    assert masks["a"]["kernel"].sum() == 2
    np.testing.assert_array_equal(masks["b"]["kernel"], [True, True, True, False, False])


def test_scores_that_rank_nothing_are_refused():
    with pytest.raises(ValueError, match="every score is zero"):
        prune(lambda params, rows: jnp.float32(1), PARAMS, ROWS)
    with pytest.raises(ValueError, match="first/kernel"):
        prune(loss, {**PARAMS, "first": {**PARAMS["first"], "kernel": PARAMS["first"]["kernel"].at[0, 0].set(jnp.nan)}}, ROWS)


def test_unknown_names_list_those_there_are():
    with pytest.raises(ValueError, match="snip"):
        prune(loss, PARAMS, ROWS, criterion="sniff")
    with pytest.raises(ValueError, match="global"):
        prune(loss, PARAMS, ROWS, allocation="all")
    with pytest.raises(ValueError, match="cubic"):
        prune(loss, PARAMS, ROWS, schedule="all")
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        prune(loss, PARAMS, ROWS, sparsity=95)


def test_equal_scores_keep_the_first_positions():
    def equal(objective, params, rows, key=None, *, masks=None):
        return jax.tree.map(jnp.ones_like, params)

    kept = kernels(prune(loss, PARAMS, ROWS, criterion=equal, sparsity=0.75, rounds=3))
    np.testing.assert_array_equal(kept, np.arange(64) < 16)


def whole_numbers(seed, shape, most=3):
    return np.random.default_rng(seed).integers(-most, most + 1, shape).astype(np.float32)


def linear_loss(params, rows):
    """Every product and sum of whole numbers is exact in float32: a program's order of operations changes no bit of a score."""
    return jnp.mean(jnp.sum((rows["x"] @ params["first"]["kernel"] @ params["second"]["kernel"] - rows["y"]) ** 2, axis=-1))


def linear_problem(seed):
    params = {"first": {"kernel": whole_numbers(seed, (5, 8)), "bias": np.zeros(8, np.float32)}}
    params["second"] = {"kernel": whole_numbers(seed + 1, (8, 4)), "bias": np.zeros(4, np.float32)}
    rows = {"x": whole_numbers(seed + 2, (16, 5), 1), "y": whole_numbers(seed + 3, (16, 4))}
    masks = jax.tree.map(lambda leaf: np.random.default_rng(seed + 4).random(leaf.shape) < 0.7, params)
    return params, rows, masks


@pytest.mark.parametrize(
    ("criterion", "allocation", "floor", "earlier"),
    [
        ("snip", "global", 0, "none"),
        ("snip", "global", 4, "none"),
        ("snip", "uniform", 0, "none"),
        ("grasp", "erk", 4, "none"),
        ("force", "uniform", 4, "none"),
        ("snip", "global", 0, "traced"),
        ("snip", "global", 4, "traced"),
        ("force", "global", 4, "traced"),
        ("snip", "uniform", 4, "concrete"),
        ("magnitude", "erk", 0, "concrete"),
        ("force", "erk", 0, "concrete"),
    ],
)
def test_under_jit_and_vmap_as_outside(criterion, allocation, floor, earlier):
    problems = [linear_problem(seed) for seed in (0, 10, 20)]
    first = problems[0][2]
    before = [{"none": None, "traced": masks, "concrete": first}[earlier] for *_, masks in problems]
    static = {"criterion": criterion, "allocation": allocation, "floor": floor, "sparsity": 0.8, "rounds": 3}
    traces = []

    def pruned(params, rows, masks):
        traces.append(1)
        return prune(linear_loss, params, rows, masks=first if earlier == "concrete" else masks, **static)

    expected = [prune(linear_loss, params, rows, masks=masks, **static) for (params, rows, _), masks in zip(problems, before, strict=True)]
    assert all(kernels(masks).sum() == 14 for masks in expected)
    compiled = jax.jit(pruned)
    given = [(params, rows, masks if earlier == "traced" else None) for params, rows, masks in problems]
    for (params, rows, masks), known in zip(given, expected, strict=True):
        jax.tree.map(np.testing.assert_array_equal, compiled(params, rows, masks), known)
    assert len(traces) == 1
    together = jax.jit(jax.vmap(pruned))(*jax.tree.map(lambda *leaves: np.stack(leaves), *given))
    for i, known in enumerate(expected):
        jax.tree.map(lambda got, mask, i=i: np.testing.assert_array_equal(got[i], mask), together, known)


def test_fewer_weights_left_than_the_budget_under_jit():
    params, rows, masks = linear_problem(0)
    few = jax.tree.map(lambda leaf: leaf & (np.arange(leaf.shape[-1]) == 0), masks)
    left = kernels(few)
    assert 0 < left.sum() < 36
    got = jax.jit(lambda m: prune(linear_loss, params, rows, sparsity=0.5, rounds=2, masks=m))(few)
    np.testing.assert_array_equal(kernels(got), left)


def test_what_depends_on_traced_values_is_refused_in_one_line():
    params, rows, masks = linear_problem(0)

    def under_jit(**options):
        return jax.jit(lambda m: prune(linear_loss, params, rows, sparsity=0.9, masks=m, **options))(masks)

    for allocation in ("uniform", "erk"):
        with pytest.raises(ValueError, match=f"allocation='{allocation}' divides .* they are traced"):
            under_jit(allocation=allocation)
    with pytest.raises(ValueError, match="whether floor=5 fits into a budget of 7 weights .* they are traced"):
        under_jit(floor=5)
    with pytest.raises(ValueError, match="sparsity is traced.*a Python number"):
        jax.jit(lambda s: prune(linear_loss, params, rows, sparsity=s))(0.5)
    # A floor that can never fit is told from one that depends on the masks.
    with pytest.raises(ValueError, match="floor=5 needs 10 weights in 2 layers but the budget keeps 7; lower it"):
        jax.jit(lambda p: prune(linear_loss, p, rows, sparsity=0.9, floor=5))(params)
