"""What must hold on networks that are more than one perceptron with a convex loss: a VAE's two, stacked twins, an actor judged by a critic.

One program a network scores it by every criterion, in 64-bit, under masks.
"""

import functools
import itertools

import jax
import numpy as np
import pytest

from jaxprune.agents.bcq import BCQConfig, bcq
from jaxprune.agents.scoring import budget_prefixes
from jaxprune.criteria import CRITERIA
from jaxprune.criteria.registry import REVIVING
from jaxprune.data.transitions import Spec, Statistics, Transitions
from jaxprune.parameters import named_leaves, prunable_leaves
from jaxprune.pruning.masks import kept_count
from jaxprune.pruning.prune import mask_from_scores, prune_in_rounds
from jaxprune.pruning.ranking import below
from jaxprune.pruning.schedules import kept_after

NETWORKS, ROWS = ("vae", "critic", "actor"), 8
PERCEPTRONS = {"vae": ("encoder", "decoder"), "critic": ("",), "actor": ("",)}
AGENT = bcq(Spec(5, 2, (-1.0, -2.0), (1.0, 2.0)), BCQConfig(hidden=(6, 5), vae_hidden=(5, 4)))
MODELS = ("lm", "obd", "qm")

pytestmark = pytest.mark.parametrize("network", NETWORKS)


@pytest.fixture(autouse=True)
def exact(x64, strict):
    del x64, strict


@functools.cache
def problem(network, seed=0):
    """Objective, parameters with biases, and rows."""
    rng = np.random.default_rng(seed)
    size = AGENT.spec.observation_size
    state = jax.eval_shape(lambda: AGENT.init(jax.random.key(0), Statistics(np.zeros(size), np.ones(size))))

    def drawn(leaf):
        return rng.normal(size=leaf.shape) / (np.sqrt(leaf.shape[-2]) if leaf.ndim > 1 else 4)

    params = jax.tree.map(drawn, state.params)
    state = state.replace(
        params=params, targets={name: params[name] for name in state.targets}, statistics=Statistics(np.zeros(size), np.ones(size))
    )
    batch = Transitions(
        rng.normal(size=(ROWS, size)), rng.uniform(-1, 1, (ROWS, 2)), rng.normal(size=ROWS), rng.normal(size=(ROWS, size)), np.ones(ROWS)
    )
    objective = AGENT.objective(network, state)
    noise = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape), jax.eval_shape(lambda: AGENT.draw(jax.random.key(0), ROWS)))
    return objective, params[network], jax.tree.map(np.asarray, jax.jit(objective.rows)(batch, noise))


@jax.jit
def _scores(objective, params, rows, masks, scale, lambda_):
    scaled = objective.replace(
        loss=lambda outputs, rows, context: objective.loss(outputs, rows, context) * scale,
        signal=lambda params, context: objective.signal(params, context) * scale,
    )
    options = {name: {"lambda_": lambda_} for name in MODELS}
    for name in ("obd", "qm"):
        options[name]["samples"] = 2
    scores = {
        name: function(scaled, params, rows, jax.random.key(0), masks=masks, **options.get(name, {})) for name, function in CRITERIA.items()
    }
    if not objective.convex:
        # Random signs belong to positions: what has to follow a permutation of units is measured by gradients of rows.
        for name in ("obd", "qm"):
            scores[f"{name}_fisher"] = CRITERIA[name](scaled, params, rows, masks=masks, lambda_=lambda_, curvature="fisher")
    return scores


def every_score(network, params=None, rows=None, masks=None, scale=1.0, lambda_=0.0, seed=0):
    objective, own_params, own_rows = problem(network, seed)
    params, rows = own_params if params is None else params, own_rows if rows is None else rows
    masks = jax.tree.map(lambda leaf: np.ones(leaf.shape, bool), own_params) if masks is None else masks
    return jax.tree.map(np.asarray, _scores(objective, params, rows, masks, np.float64(scale), np.float64(lambda_)))


def flat(tree, prefix=""):
    return np.concatenate([np.ravel(leaf) for name, leaf in prunable_leaves(tree).items() if below(prefix, name)])


def best(scores, count):
    mask = np.zeros(scores.size, bool)
    mask[np.argsort(-scores, kind="stable")[:count]] = True
    return mask


def test_budgets_are_the_perceptrons(network):
    expected = tuple(f"{network}/{chain}" if chain else network for chain in PERCEPTRONS[network])
    assert budget_prefixes(AGENT, (network,), "mlp") == expected


@pytest.mark.parametrize("schedule", ["exponential", "linear"])
def test_exact_counts_and_nested_rounds(network, schedule):
    _, params, _ = problem(network)
    sizes = {chain: flat(params, chain).size for chain in PERCEPTRONS[network]}
    for name in CRITERIA:
        history = []

        def score_round(i, masks, name=name, history=history):
            history.append(masks)
            return every_score(network, masks=masks)[name]

        last = prune_in_rounds(score_round, params, sparsity=0.9, rounds=3, schedule=schedule, chains=PERCEPTRONS[network], criterion=name)
        for chain, size in sizes.items():
            masks = [flat(m, chain) for m in (*history[1:], last)]
            assert [int(m.sum()) for m in masks] == kept_after(0.9, size, rounds=3, schedule=schedule), name
            if name not in REVIVING:
                assert all(not (later & ~earlier).any() for earlier, later in itertools.pairwise(masks)), name
        assert all(leaf.all() for path, leaf in named_leaves(last).items() if path.endswith("bias"))


@pytest.mark.parametrize("sparsity", [0, 1e-9, 0.005, 0.99, 1 - 1e-9, 1])
def test_extreme_sparsities(network, sparsity):
    _, params, _ = problem(network)
    keep = {chain: kept_count(sparsity, flat(params, chain).size) for chain in PERCEPTRONS[network]}
    for name, scores in every_score(network).items():
        masks = mask_from_scores(scores, keep)
        for chain, count in keep.items():
            np.testing.assert_array_equal(flat(masks, chain), best(flat(scores, chain), count), err_msg=name)


def test_equal_scores_keep_the_first_positions_of_every_budget(network):
    _, params, _ = problem(network)
    ones = jax.tree.map(np.ones_like, params)
    keep = {chain: flat(params, chain).size // 3 for chain in PERCEPTRONS[network]}
    masks = mask_from_scores(ones, keep)
    for chain, count in keep.items():
        np.testing.assert_array_equal(flat(masks, chain), np.arange(flat(params, chain).size) < count)
    # So does a criterion, where all weights are the same.
    same = every_score(network, params=jax.tree.map(lambda leaf: np.full_like(leaf, -0.25), params))["magnitude"]
    jax.tree.map(np.testing.assert_array_equal, mask_from_scores(same, keep), masks)


@pytest.mark.parametrize("scale", [2.0**-9, 2.0**11])
def test_a_scaled_loss_ranks_the_same(network, scale):
    plain, scaled = every_score(network), every_score(network, scale=scale)
    for name in CRITERIA:
        size = flat(plain[name]).size
        for count in (1, size // 20, size // 2):
            np.testing.assert_array_equal(best(flat(plain[name]), count), best(flat(scaled[name]), count), err_msg=name)
        ratio = {"magnitude": 1.0, "random": 1.0, "grasp": scale**2, "crop": scale**2}.get(name, scale)
        np.testing.assert_allclose(flat(scaled[name]), ratio * flat(plain[name]), rtol=1e-9, atol=1e-12 * ratio, err_msg=name)


def permuted(network, params, seed):
    """The same function with every hidden layer's units in another order, in each member of a stack its own."""
    rng = np.random.default_rng(seed)
    out = jax.tree.map(np.array, params)
    for chain in PERCEPTRONS[network]:
        layers = out[chain] if chain else out
        for i in range(2):
            first, second = layers[f"Dense_{i}"], layers[f"Dense_{i + 1}"]
            order = rng.permuted(np.broadcast_to(np.arange(first["bias"].shape[-1]), first["bias"].shape), axis=-1)
            first["kernel"] = np.take_along_axis(first["kernel"], order[..., None, :], axis=-1)
            first["bias"] = np.take_along_axis(first["bias"], order, axis=-1)
            second["kernel"] = np.take_along_axis(second["kernel"], order[..., :, None], axis=-2)
    return out


@pytest.mark.parametrize("seed", [1, 2])
def test_scores_follow_a_permutation_of_units(network, seed):
    objective, params, rows = problem(network)
    moved = permuted(network, params, seed)
    np.testing.assert_allclose(objective(moved, rows), objective(params, rows), rtol=1e-12)
    assert any((a != b).any() for a, b in zip(jax.tree.leaves(moved), jax.tree.leaves(params), strict=True))
    plain, scores = every_score(network), every_score(network, params=moved)
    drawn = {"random"} if objective.convex else {"random", "obd", "qm"}
    for name in set(scores) - drawn:
        expected = permuted(network, plain[name], seed)
        jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-13, err_msg=name), scores[name], expected)


def test_the_order_of_rows_does_not_matter(network):
    _, _, rows = problem(network)
    order = np.random.default_rng(3).permutation(ROWS)
    plain, shuffled = every_score(network), every_score(network, rows=jax.tree.map(lambda leaf: leaf[order], rows))
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-13), shuffled, plain)


@pytest.mark.parametrize("seed", [0, 1])
def test_an_endless_step_penalty_is_magnitude(network, seed):
    scores = every_score(network, lambda_=1e13, seed=seed)
    for name in MODELS:
        for count in (1, 13, 40):
            np.testing.assert_array_equal(best(flat(scores[name]), count), best(flat(scores["magnitude"]), count), err_msg=name)


@pytest.mark.parametrize("seed", [0, 1])
def test_snip_is_the_linear_model_in_one_round(network, seed):
    scores = every_score(network, seed=seed)
    assert len(set(flat(scores["snip"]).tolist())) > 30
    np.testing.assert_array_equal(flat(scores["snip"]), flat(scores["lm"]))
    np.testing.assert_array_equal(flat(scores["snip"]), flat(scores["force"]))
