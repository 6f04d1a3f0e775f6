"""One ranking of an agent's weights for every sparsity."""

import inspect
import itertools

import jax
import numpy as np
import pytest

import jaxprune as jp
from jaxprune.agents.sparse import score_agent
from jaxprune.parameters import prunable_leaves
from jaxprune.pruning.allocation import ALLOCATIONS, allocate
from tests.agents.small import small_agent
from tests.conftest import statistics_of


def chosen_by_hand(scores, allocation, budget, floor, sparsity, earlier=None):
    """{leaf path: mask} by sorting lists of (score, position), in NumPy, one sparsity at a time."""
    leaves = {name: np.asarray(leaf) for name, leaf in prunable_leaves(scores).items()}
    left = {name: np.ones(leaf.shape, bool) for name, leaf in leaves.items()}
    if earlier is not None:
        left = {name: np.asarray(mask) for name, mask in prunable_leaves(earlier).items()}
    budgets: dict = {}
    for name in leaves:
        network, part = name.split("/")[:2]
        own = {"pooled": "", "network": network, "mlp": f"{network}/{part}" if network == "vae" else network}[budget]
        budgets.setdefault(own, []).append(name)
    out = {}
    for names in budgets.values():
        order = [(-leaves[name].flat[i], n, i) for n, name in enumerate(names) for i in np.flatnonzero(left[name])]
        order.sort()
        keep = min(jp.kept_count(sparsity, sum(leaves[name].size for name in names)), len(order))
        if allocation == "global":
            claimed = [item for n in range(len(names)) for item in [o for o in order if o[1] == n][:floor]]
            first = set(claimed)
            chosen = (claimed + [item for item in order if item not in first])[:keep]
        else:
            shapes = {name: leaves[name].shape for name in names}
            stacked = frozenset(name for name in names if name.startswith("critic"))
            available = {name: int(left[name].sum()) for name in names}
            counts = list(allocate(allocation, shapes, keep, stacked=stacked, floor=floor, available=available).values())
            chosen = [item for n, count in enumerate(counts) for item in [o for o in order if o[1] == n][:count]]
        for n, name in enumerate(names):
            out[name] = np.zeros(leaves[name].shape, bool)
            out[name].flat[[i for _, m, i in chosen if m == n]] = True
    return out


@pytest.mark.parametrize("criterion", sorted(jp.CRITERIA))
def test_one_ranking_gives_the_masks_of_every_sparsity(criterion, spec, transitions):
    """Budgets, allocations and floors against sorting by hand, and against pruning at one sparsity at a time."""
    agent, batch, key = small_agent("bcq", spec), transitions, jax.random.key(1)
    state = agent.init(jax.random.key(0), statistics_of(transitions))
    options = {"samples": 2} if "samples" in inspect.signature(jp.CRITERIA[criterion]).parameters else {}
    # A ranking does not know where its scores come from: every combination for one criterion, each choice once for the others.
    combinations = list(zip(ALLOCATIONS, ("pooled", "mlp", "network"), (5, 0, 5), strict=True))
    if criterion == "magnitude":
        combinations = list(itertools.product(ALLOCATIONS, ("mlp", "network", "pooled"), (0, 5)))
    earlier = [None, 0.4] if criterion in ("magnitude", "grasp") else [None]
    for before in earlier:
        if before is not None:
            state, _ = jp.prune_agent(agent, state, batch, jax.random.key(5), criterion="random", sparsity=before)
        masks = None if before is None else state.masks
        scores = score_agent(agent, state, batch, jax.random.fold_in(key, 0), criterion=criterion, masks=masks, **options)
        for allocation, budget, floor in combinations:
            shared = {"allocation": allocation, "budget": budget, "floor": floor, "criterion": criterion, **options}
            ranking = jp.rank_agent(agent, state, batch, key, **shared)
            for sparsity in (0, 0.5, 0.8, 0.93):
                got = ranking.masks(sparsity)
                expected = chosen_by_hand(scores, allocation, budget, floor, sparsity, masks)
                for name, mask in prunable_leaves(got).items():
                    np.testing.assert_array_equal(mask, expected[name], err_msg=f"{name} {shared} {sparsity}")
            pruned, info = ranking.prune(0.8)
            alone, told = jp.prune_agent(agent, state, batch, key, sparsity=0.8, **shared)
            assert info == told
            jax.tree.map(np.testing.assert_array_equal, pruned, alone)
            for leaf, mask in zip(jax.tree.leaves(pruned.params), jax.tree.leaves(pruned.masks), strict=True):
                assert not np.asarray(leaf)[~np.asarray(mask)].any()


def test_a_ranking_scores_once_and_only_what_it_is_asked_for(spec, transitions):
    agent, calls = small_agent("bcq", spec), []
    state = agent.init(jax.random.key(0), statistics_of(transitions))

    def counted(objective, params, rows, key=None, *, masks=None):
        jax.debug.callback(lambda: calls.append(1))
        return jax.tree.map(abs, params)

    ranking = jp.rank_agent(agent, state, lambda i: transitions, jax.random.key(1), criterion=counted, networks=("actor", "vae"))
    assert ranking.networks == ("vae", "actor")
    kept = [ranking.prune(sparsity)[1].kept for sparsity in (0, 0.25, 0.5, 0.9, 1)]
    jax.effects_barrier()
    assert len(calls) == 2
    assert kept == sorted(kept, reverse=True)
    assert kept[0] == int(state.total["vae"]) + int(state.total["actor"])
    assert kept[-1] == 0
    assert set(ranking.masks(0.5)) == {"vae", "actor"}


def test_a_ranking_refuses_what_pruning_refuses(spec, transitions):
    agent = small_agent("bc", spec)
    state = agent.init(jax.random.key(0), statistics_of(transitions))
    ranking = jp.rank_agent(agent, state, transitions, jax.random.key(1), floor=20)
    with pytest.raises(ValueError, match="floor=20 needs 60 weights in 3 layers but the budget keeps 14"):
        ranking.masks(0.95)
    assert sum(int(leaf.sum()) for leaf in prunable_leaves(ranking.masks(0.7)).values()) == jp.kept_count(0.7, int(state.total["policy"]))
    with pytest.raises(ValueError, match="expected a sparsity in"):
        ranking.masks(95)
    with pytest.raises(ValueError, match="allocation='all' is unknown"):
        jp.rank_agent(agent, state, transitions, jax.random.key(1), allocation="all")
    bcq = small_agent("bcq", spec)
    alive = bcq.init(jax.random.key(0), statistics_of(transitions))
    dead = jax.tree.map(lambda leaf: leaf * 0, alive.params["actor"])
    ranking = jp.rank_agent(bcq, alive.replace(params={**alive.params, "actor": dead}), transitions, jax.random.key(1))
    assert not any(leaf.any() for leaf in prunable_leaves(ranking.masks(1)).values())
    with pytest.raises(ValueError, match="every score of actor is zero"):
        ranking.masks(0.9)
