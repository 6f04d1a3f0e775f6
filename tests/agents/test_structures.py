"""Whole units, weights inside fewer units, and what both leave."""

from typing import Any

import jax
import numpy as np
import pytest

import jaxprune as jp
from jaxprune.agents.units import prune_units, score_agent_units
from jaxprune.criteria import UNIT_CRITERIA
from jaxprune.parameters import prunable_leaves
from tests.agents.small import NAMES, small_agent
from tests.agents.states import agree, filled, fresh_state, same
from tests.conftest import statistics_of


def cases(criteria, first):
    """Every criterion for BC and BCQ, the first one for the other algorithms."""
    return [(name, criterion) for name in NAMES for criterion in (criteria if name in ("bc", "bcq") else (first,))]


@pytest.fixture(params=NAMES)
def started(request, spec, transitions):
    agent = small_agent(request.param, spec)
    return agent, fresh_state(agent, statistics_of(transitions))


def budgets(agent, masks):
    """{perceptron: (kept, total)}."""
    out = {}
    for name, network in agent.networks.items():
        for chain in network.chains:
            leaves = prunable_leaves(masks[name][chain] if chain else masks[name]).values()
            out[f"{name}/{chain}"] = sum(int(np.asarray(leaf).sum()) for leaf in leaves), sum(leaf.size for leaf in leaves)
    return out


def live(agent, state, name, group):
    """Units whose bias is kept, [members, units]."""
    (path,) = [path for path, _ in group.producers if path.endswith("bias")]
    leaf = state.masks[name]
    for part in path.split("/"):
        leaf = leaf[part]
    return np.asarray(leaf).reshape(max(1, group.members), group.size)


@pytest.mark.parametrize("criterion", sorted(UNIT_CRITERIA))
def test_units_removed_before_stay_removed_and_count_so(criterion, spec, transitions):
    agent = small_agent("bc", spec, hidden=(32, 32))
    state = fresh_state(agent, statistics_of(transitions))
    for seed, sparsity in enumerate((0.5, 0.75)):
        how = {"structure": "units", "unit_criterion": criterion, "target": "units", "sparsity": sparsity}
        before, (state, info) = state, jp.prune_agent(agent, state, transitions, jax.random.key(seed), **how)
        assert info.units_kept == jp.kept_count(sparsity, 64)
        assert info.units_kept == sum(int(live(agent, state, "policy", group).sum()) for group in agent.groups("policy"))
        assert not any((new & ~old).any() for new, old in zip(*map(jax.tree.leaves, (state.masks, before.masks)), strict=True))


@pytest.mark.parametrize("started", ["bc", "bcq"], indirect=True)
def test_units_after_weights_fill_the_budget_with_what_is_left(started, transitions):
    agent, state = started
    pruned, _ = jp.prune_agent(agent, state, transitions, jax.random.key(1), sparsity=0.5)
    before = {name: kept for name, (kept, _) in budgets(agent, pruned.masks).items()}
    whole, _ = jp.prune_agent(agent, pruned, transitions, jax.random.key(1), structure="units", sparsity=0.5)
    assert {name: kept for name, (kept, _) in budgets(agent, whole.masks).items()} == before, "at the budget already: no unit need go"
    fewer, _ = jp.prune_agent(agent, pruned, transitions, jax.random.key(1), structure="units", sparsity=0.7)
    for kept, total in budgets(agent, fewer.masks).values():
        assert 0.7 * jp.kept_count(0.7, total) <= kept <= jp.kept_count(0.7, total)
    inside, _ = jp.prune_agent(agent, pruned, transitions, jax.random.key(1), structure="hybrid", sparsity=0.7, inner_density=0.5)
    for kept, total in budgets(agent, inside.masks).values():
        assert kept == jp.kept_count(0.7, total)


@pytest.mark.parametrize(("started", "criterion"), cases(sorted(UNIT_CRITERIA), "crop"), indirect=["started"])
def test_units_are_removed_whole_within_the_budget_and_the_arrays_shrink(started, criterion, transitions):
    agent, state = started
    pruned, info = jp.prune_agent(agent, state, transitions, jax.random.key(1), structure="units", unit_criterion=criterion, sparsity=0.8)
    for kept, total in budgets(agent, pruned.masks).values():
        assert 0 < kept <= jp.kept_count(0.8, total)
    assert info.kept == sum(kept for kept, _ in budgets(agent, pruned.masks).values())
    for name in agent.order:
        for group in agent.groups(name):
            units = live(agent, pruned, name, group)
            assert (units.sum(axis=1) >= 1).all()
            assert info.units[f"{name}/{group.name}"] == (units.sum(), units.size)
    assert str(info).endswith(f" weights and {info.units_kept:,} of {info.units_total:,} hidden units")
    masked = filled(agent, pruned)
    small, compacted = jp.compact(agent, masked, widths=None, multiple=1)
    agree(agent, masked, small, compacted, 2e-6)
    for name in agent.order:
        for group in small.groups(name):
            assert group.size <= live(agent, pruned, name, next(g for g in agent.groups(name) if g.name == group.name)).sum(axis=1).max()


def test_one_more_unit_would_be_too_many(spec, transitions):
    agent = small_agent("bc", spec)
    state = fresh_state(agent, statistics_of(transitions))
    key = jax.random.key(1)
    for sparsity in (0.3, 0.6, 0.9):
        pruned, info = jp.prune_agent(agent, state, transitions, key, structure="units", sparsity=sparsity)
        scores = score_agent_units(agent, state, transitions, jax.random.fold_in(key, 0), networks=("policy",))
        groups = agent.groups("policy")
        kept = [live(agent, pruned, "policy", g)[0] for g in groups]
        own = [scores[f"policy/{g.name}"] for g in groups]
        first, second = (units.sum() for units in kept)
        sizes = [4 * first + first * second + second * 2]
        best = max((own[i][~kept[i]].max(), i) for i in range(2) if not kept[i].all())[1]
        first, second = first + (best == 0), second + (best == 1)
        sizes.append(4 * first + first * second + second * 2)
        assert sizes[0] == info.kept <= jp.kept_count(sparsity, info.total) < sizes[1]
        for i in range(2):
            assert kept[i].sum() == 1 or own[i][kept[i]].min() >= max(o[~k].max() for o, k in zip(own, kept, strict=True) if not k.all())


def test_a_fraction_of_units(started, transitions):
    agent, state = started
    _, info = jp.prune_agent(agent, state, transitions, jax.random.key(1), structure="units", target="units", sparsity=0.75)
    for name, network in agent.networks.items():
        for chain in network.chains:
            prefix = f"{name}/{chain}" if chain else f"{name}/"
            kept, total = (sum(v[i] for k, v in info.units.items() if k.startswith(prefix)) for i in range(2))
            assert kept == jp.kept_count(0.75, total)


@pytest.mark.parametrize(("started", "criterion"), cases(["snip", "magnitude", "force"], "snip"), indirect=["started"])
def test_hybrid_keeps_exactly_the_weights_budget_inside_fewer_units(started, criterion, transitions):
    agent, state = started
    key, n = jax.random.key(1), {}
    for inner_density in (0.1, 0.4, 0.7, 1.0):
        pruned, info = jp.prune_agent(
            agent, state, transitions, key, criterion=criterion, structure="hybrid", inner_density=inner_density, sparsity=0.8
        )
        for kept, total in budgets(agent, pruned.masks).values():
            assert kept == jp.kept_count(0.8, total)
        n[inner_density] = info.units_kept
        if inner_density == 0.1:
            assert info.units_kept == info.units_total
            weights, _ = jp.prune_agent(agent, state, transitions, key, criterion=criterion, sparsity=0.8)
            same(pruned.masks, weights.masks)
        for name in agent.order:
            for group in agent.groups(name):
                units = live(agent, pruned, name, group)
                for path, axis in group.producers:
                    leaf = prunable_leaves(pruned.masks[name]).get(path)
                    if leaf is not None:
                        other = 0 if group.members else None
                        crossing = np.any(np.asarray(leaf), axis=tuple(a for a in range(leaf.ndim) if a not in (axis, other)))
                        assert not np.reshape(crossing, units.shape)[~units].any()
    assert n[0.1] > n[0.4] > n[0.7] > n[1.0]


def test_rounds_are_nested_and_repeatable(spec, transitions):
    agent = small_agent("bcq", spec)
    state = fresh_state(agent, statistics_of(transitions))
    seen = []

    def criterion(objective, params, groups, rows, key=None, *, masks=None):
        return UNIT_CRITERIA["random"](objective, params, groups, rows, key)

    def batch(i):
        seen.append(i)
        return transitions

    kwargs = {"structure": "units", "unit_criterion": criterion, "sparsity": 0.9, "networks": "critic"}
    three, info = jp.prune_agent(agent, state, batch, jax.random.key(1), rounds=3, **kwargs)
    assert seen == [0, 1, 2]
    again, _ = jp.prune_agent(agent, state, batch, jax.random.key(1), rounds=3, **kwargs)
    same(three, again)
    assert set(info.units) == {"critic/Dense_0", "critic/Dense_1"}
    assert info.kept <= jp.kept_count(0.9, info.total)
    same(three.masks["vae"], state.masks["vae"])
    # pruned once more, what was removed stays removed, biases too
    harder, _ = jp.prune_agent(agent, three, transitions, jax.random.key(2), criterion="magnitude", sparsity=0.95)
    for before, now in zip(jax.tree.leaves(three.masks), jax.tree.leaves(harder.masks), strict=True):
        assert not (np.asarray(now) & ~np.asarray(before)).any()


def test_refusals(spec, transitions):
    agent = small_agent("bc", spec)
    state = fresh_state(agent, statistics_of(transitions))
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"structure": "blocks"}, "structure='blocks' is unknown; expected one of weights, units, hybrid"),
        ({"structure": "hybrid", "target": "units"}, "target='units' goes with structure='units'"),
        ({"structure": "units", "target": "bytes"}, "target='bytes' is unknown; expected one of params, units"),
        ({"structure": "hybrid", "inner_density": 0}, r"inner_density in \(0, 1\]"),
        ({"structure": "units", "unit_criterion": "snip"}, "unit_criterion='snip' is unknown; expected one of crop, l1, random, snap"),
        ({"structure": "units", "sparsity": 0.99}, "policy: at least one unit in every layer takes 7 weights, but the sparsity leaves 3"),
        ({"structure": "units", "unit_floor": 0}, "floor of at least one"),
        ({"structure": "units", "sparsity": 1.5}, r"sparsity in \[0, 1\]"),
        ({"structure": "units", "rounds": 0}, "expected at least one round, got rounds=0"),
        ({"structure": "hybrid", "rounds": 0}, "expected at least one round, got rounds=0"),
        ({"structure": "weights", "rounds": 0}, "expected at least one round, got rounds=0"),
        ({"structure": "units", "schedule": "cosine"}, "schedule='cosine' is unknown"),
    )
    for wrong, message in cases:
        with pytest.raises(ValueError, match=message):
            jp.prune_agent(agent, state, transitions, jax.random.key(1), **wrong)
    with pytest.raises(ValueError, match="expected at least one round, got rounds=0"):
        prune_units(agent, state, transitions, jax.random.key(1), networks=("policy",), rounds=0)
