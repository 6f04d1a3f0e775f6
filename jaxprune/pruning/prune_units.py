"""From scores of whole hidden units to masks, in one round or several."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxprune.criteria.units import UNIT_CRITERIA
from jaxprune.objective import Objective
from jaxprune.parameters import UnitGroup, is_kernel, named_leaves, prunable_leaves
from jaxprune.pruning.ranking import below
from jaxprune.pruning.schedules import kept_after
from jaxprune.pruning.unit_layout import UnitLayout, as_declared
from jaxprune.pruning.units import (
    Kept,
    check_unit_scores,
    count_around,
    count_within,
    kept_units,
    kernel_shapes,
    unit_masks,
    unit_order,
    units_left,
    weights_left,
)

TARGETS = ("params", "units")

# An L1 norm grows with a layer's fan-in and says nothing across layers.
_RANKED_BY_LAYER = frozenset({"l1"})


@functools.partial(jax.jit, static_argnames=("criterion", "groups"))
def _score_units(objective, params, rows, key, masks, *, criterion, groups):
    function = UNIT_CRITERIA[criterion] if isinstance(criterion, str) else criterion
    return function(objective, params, groups, rows, key, masks=masks)


def score_units(
    objective: Any,
    params: Any,
    groups: Sequence[UnitGroup],
    rows: Any,
    key: jax.Array | None = None,
    *,
    criterion: Any = "crop",
    masks: Any = None,
) -> dict[str, Any]:
    """The scores a unit criterion gives, {group: [units] or [members, units]}.

    One jitted program, at the highest matrix-product precision.

    Raises:
      ValueError: an unknown criterion, or scores that are NaN or all zero.
    """
    check_unit_criterion(criterion)
    if not isinstance(objective, Objective):
        objective = jax.tree_util.Partial(objective)
    with jax.default_matmul_precision("highest"):
        scores = _score_units(objective, params, rows, key, masks, criterion=criterion, groups=tuple(groups))
    check_unit_scores(scores, criterion=criterion)
    return scores


def check_unit_criterion(criterion: Any) -> None:
    """Refuse a name that is not in `UNIT_CRITERIA`, with a ValueError."""
    if isinstance(criterion, str) and criterion not in UNIT_CRITERIA:
        raise ValueError(f"unit_criterion={criterion!r} is unknown; expected one of {', '.join(sorted(UNIT_CRITERIA))}")


def prune_units_in_rounds(
    score_round: Callable[[int, Any], Mapping[str, Any]],
    params: Any,
    groups: Sequence[UnitGroup],
    *,
    sparsity: float = 0.95,
    target: str = "params",
    inner_density: float | None = None,
    rounds: int = 1,
    schedule: str = "exponential",
    allocation: str | None = None,
    floor: int = 1,
    chains: Sequence[str] = ("",),
    criterion: Any = "crop",
    masks: Any = None,
) -> tuple[Any, Kept]:
    """Masks after the last round, and the units that stay.

    Args:
      score_round: (round, masks so far) -> {group: scores}; the masks are None in round 0 where nothing was removed before.
      params: only the structure and shapes are read.
      groups: the hidden layers, by their paths in `params`.
      sparsity: as in `prune_units`, like the six that follow.
      target: `params` or `units`.
      inner_density: None, or the density to which a weight budget fills the arrays.
      rounds: how often scores are computed.
      schedule: see `schedules`.
      allocation: `global`, `uniform`, or the criterion's own.
      floor: at least this many units in every layer.
      chains: path prefixes of what shares a budget; "" is the whole tree.
      criterion: what scores, for what it is ranked across.
      masks: what was removed before, or None. It stays removed, and a budget counts it so.

    Raises:
      ValueError: an unknown name, a number out of range, groups that do not fit, or a budget below what the floor takes.
    """
    if target not in TARGETS:
        raise ValueError(f"target={target!r} is unknown; expected one of {', '.join(TARGETS)}")
    if inner_density is not None and not 0 < inner_density <= 1:
        raise ValueError(f"expected an inner_density in (0, 1], the fraction of the live arrays that is filled; got {inner_density}")
    kept_after(sparsity, 1, rounds=rounds, schedule=schedule)
    UnitLayout(groups).check(named_leaves(params))
    if allocation is None:
        allocation = "uniform" if criterion in _RANKED_BY_LAYER else "global"
    earlier, gone = masks, None
    if earlier is None:
        kept: Kept = {group.name: as_declared(group, np.ones((max(1, group.members), group.size), bool)) for group in groups}
    else:
        gone = {name: np.asarray(leaf) for name, leaf in prunable_leaves(earlier, is_kernel).items()}
        kept = units_left(gone, groups)
    for i in range(rounds):
        scores = score_round(i, masks)
        for prefix in chains:
            own = [group for group in groups if below(prefix, group.name)]
            shapes = {name: shape for name, shape in kernel_shapes(params).items() if below(prefix, name)}
            if not own:
                continue
            order, least = unit_order(scores, own, allocation=allocation, floor=floor, kept=kept)
            total = sum(int(np.prod(shape)) for shape in shapes.values())
            there = sum(int(kept[group.name].sum()) for group in own)

            def weights(count: int, order: Any = order, own: Any = own, shapes: Any = shapes) -> int:
                return weights_left(shapes, own, kept_units(order, count, own), gone)

            if inner_density is not None:
                ready = kept_after(sparsity, total, rounds=rounds, schedule=schedule)[-1]
                room = min(1.0, ready / inner_density / total)
                wanted = total * room ** ((i + 1) / rounds)
                count = count_around(weights, least, there, wanted, ready)
            elif target == "units":
                count = max(least, min(there, kept_after(sparsity, len(order), rounds=rounds, schedule=schedule)[i]))
            else:
                leaves = kept_after(sparsity, total, rounds=rounds, schedule=schedule)[i]
                count = count_within(weights, least, there, leaves, prefix or "all kernels")
            kept |= kept_units(order, count, own)
        masks = unit_masks(params, groups, kept)
        if earlier is not None:
            masks = jax.tree.map(jnp.logical_and, masks, earlier)
    assert masks is not None
    return masks, kept


def prune_units(
    objective: Any,
    params: Any,
    groups: Sequence[UnitGroup],
    rows: Any,
    key: jax.Array | None = None,
    *,
    criterion: Any = "crop",
    sparsity: float = 0.95,
    target: str = "params",
    inner_density: float | None = None,
    rounds: int = 1,
    schedule: str = "exponential",
    allocation: str | None = None,
    floor: int = 1,
    masks: Any = None,
) -> Any:
    """Masks that remove whole hidden units of one network: perceptrons' units, convolutions' channels. Inputs and outputs always stay.

    Works on any JAX model whose hidden layers are declared as `UnitGroup`s; `compact_tree` then cuts the arrays. A convolution makes its
    channels along the last axis of its kernel and reads them along the last but one; a dense layer behind a flattened image of C channels
    reads channel j at j, C + j, 2C + j, …, so it is a consumer at each of the offsets 0, C, 2C, …

    Args:
      objective: the loss that will train the network.
      params: its parameters, usually as initialised; not changed.
      groups: its hidden layers.
      rows: one batch, or a function round -> rows.
      key: for criteria that draw.
      criterion: a name in `UNIT_CRITERIA`, or a function of the same signature.
      sparsity: the fraction of the weights, or with target="units" of the hidden units, to remove.
      target: `params` keeps as many units as leave at most (1 − sparsity) of the weights; `units` keeps (1 − sparsity) of the units.
      inner_density: with a number, keep instead the units whose arrays that weight budget would fill to this density: as near as units
        allow, never with less room than the budget.
      rounds: units are scored again under the masks of each round; what was removed stays removed.
      schedule: see `schedules`.
      allocation: `global` ranks across layers, `uniform` within each; by default what the criterion is made for.
      floor: at least this many units in every layer, and in every member of a stack.
      masks: what was removed before, weights or units; it stays removed, and counts as removed.

    Returns:
      Boolean masks with the structure of `params`: False at all that makes a removed unit, biases included, and at all that reads it, and
      wherever `masks` is.

    Raises:
      ValueError: an unknown name, a number out of range, groups that do not fit, a budget below what the floor takes, or scores that are
        NaN or all zero.
    """

    def score_round(i, masks):
        now = rows(i) if callable(rows) else rows
        noise = None if key is None else jax.random.fold_in(key, i)
        return score_units(objective, params, groups, now, noise, criterion=criterion, masks=masks)

    return prune_units_in_rounds(
        score_round,
        params,
        tuple(groups),
        sparsity=sparsity,
        target=target,
        inner_density=inner_density,
        rounds=rounds,
        schedule=schedule,
        allocation=allocation,
        floor=floor,
        criterion=criterion,
        masks=masks,
    )[0]
