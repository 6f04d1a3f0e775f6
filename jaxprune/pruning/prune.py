"""From scores to masks, in one round or several."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxprune.criteria.registry import REVIVING, find_criterion, takes_prunable
from jaxprune.objective import Objective, in_chunks
from jaxprune.parameters import Prunable, is_kernel, prunable_leaves, replace_leaves
from jaxprune.pruning.allocation import allocate
from jaxprune.pruning.masks import apply_masks, dense_masks, select
from jaxprune.pruning.schedules import kept_after


@functools.partial(jax.jit, static_argnames=("criterion", "prunable", "options"))
def _score(objective, params, rows, key, masks, *, criterion, prunable, options):
    function = find_criterion(criterion) if isinstance(criterion, str) else criterion
    keywords = dict(options, **({"prunable": prunable} if takes_prunable(function) else {}))
    return function(objective, params, rows, key, masks=masks, **keywords)


def score(
    objective: Any,
    params: Any,
    rows: Any,
    key: jax.Array | None = None,
    *,
    criterion: Any = "snip",
    masks: Any = None,
    prunable: Prunable = is_kernel,
    chunk: int | None = None,
    **options: Any,
) -> Any:
    """The scores a criterion gives, computed in one jitted program at the highest matrix-product precision.

    One program per network, never a stack of networks: so a run's scores are the same bits whatever runs beside it. With `chunk`, the loss
    and its derivatives are accumulated over so many rows at a time.
    """
    if isinstance(criterion, str):
        find_criterion(criterion)
    if chunk is not None:
        objective = in_chunks(objective, chunk)
    if not isinstance(objective, Objective):
        objective = jax.tree_util.Partial(objective)
    with jax.default_matmul_precision("highest"):
        return _score(objective, params, rows, key, masks, criterion=criterion, prunable=prunable, options=tuple(sorted(options.items())))


def check_scores(scores: Any, *, criterion: Any, prunable: Prunable = is_kernel) -> None:
    """Refuse scores that rank nothing. Does nothing under a trace, where values are not known.

    Raises:
      ValueError: a NaN or infinite score (with the leaf's name), or every prunable score zero.
    """
    leaves = prunable_leaves(scores, prunable)
    if not leaves or any(isinstance(leaf, Tracer) for leaf in leaves.values()):
        return
    leaves = {name: np.asarray(leaf) for name, leaf in leaves.items()}
    for name, leaf in leaves.items():
        if not np.isfinite(leaf).all():
            bad = int((~np.isfinite(leaf)).sum())
            raise ValueError(
                f"criterion {criterion!r}: {bad} of {leaf.size} scores of {name} are NaN or infinite; look for NaN or huge values in the "
                "rows and parameters"
            )
    if not any(leaf.any() for leaf in leaves.values()):
        raise ValueError(
            f"criterion {criterion!r}: every score is zero, so nothing can be ranked; expected a loss whose gradient reaches the weights "
            "(is every unit dead, or the loss constant?)"
        )


def mask_from_scores(
    scores: Any,
    keep: dict[str, int],
    *,
    allocation: str = "global",
    prunable: Prunable = is_kernel,
    stacked: frozenset[str] = frozenset(),
    floor: int = 0,
    within: Any = None,
) -> Any:
    """Masks that keep the best of each budget.

    Args:
      scores: scores of every leaf; leaves that are not prunable get True.
      keep: {path prefix: number of weights kept among the prunable leaves below it}; "" is the whole tree.
      allocation: `global` ranks the leaves of a budget together; `uniform` and `erk` divide it between them first.
      prunable: which leaves are ranked.
      stacked: paths of leaves with a leading member axis.
      floor: at least this many weights in every leaf.
      within: masks of an earlier round, whose removed weights stay removed; a budget larger than what is left keeps all of that.
    """
    available = None
    if within is not None:
        scores = jax.tree.map(lambda s, mask: jnp.where(mask, s, -jnp.inf), scores, within)
        available = {name: int(jnp.sum(mask)) for name, mask in prunable_leaves(within, prunable).items()}
    leaves = prunable_leaves(scores, prunable)
    masks: dict[str, Any] = {}
    for prefix, count in keep.items():
        chain = {name: leaf for name, leaf in leaves.items() if below(prefix, name)}
        if available is not None:
            count = min(count, sum(available[name] for name in chain))
        shapes = {name: leaf.shape for name, leaf in chain.items()}
        counts = allocate(allocation, shapes, count, stacked=stacked, floor=floor, scores=chain, available=available)
        if counts is None:
            names = list(chain)
            masks |= dict(zip(names, select([chain[name] for name in names], count), strict=True))
        else:
            masks |= {name: select([leaf], counts[name])[0] for name, leaf in chain.items()}
    return replace_leaves(dense_masks(scores), masks)


def _check_chain(scores: Any, prefix: str, count: int, *, criterion: Any, prunable: Prunable, first: bool) -> None:
    """Refuse to rank a budget whose scores are all zero; in later rounds, when pruning itself has cut it off, warn."""
    leaves = [leaf for name, leaf in prunable_leaves(scores, prunable).items() if below(prefix, name)]
    if (
        not prefix
        or not count
        or not leaves
        or any(isinstance(leaf, Tracer) for leaf in leaves)
        or any(np.asarray(leaf).any() for leaf in leaves)
    ):
        return
    message = f"criterion {criterion!r}: every score of {prefix} is zero, so its {count} weights to keep cannot be ranked"
    if first:
        raise ValueError(f"{message}; expected a loss whose gradient reaches it (is every unit dead?)")
    logging.getLogger("jaxprune").warning("%s; the first ones are kept: use fewer rounds, a lower sparsity or a floor", message)


def below(prefix: str, name: str) -> bool:
    """Whether the leaf `name` lies below the path `prefix`."""
    return not prefix or name == prefix or name.startswith(f"{prefix}/")


def prune_in_rounds(
    score_round: Callable[[int, Any], Any],
    params: Any,
    *,
    sparsity: float,
    rounds: int = 1,
    schedule: str = "exponential",
    allocation: str = "global",
    chains: Sequence[str] = ("",),
    prunable: Prunable = is_kernel,
    stacked: frozenset[str] = frozenset(),
    floor: int = 0,
    criterion: Any = "snip",
    masks: Any = None,
) -> Any:
    """Masks after the last round.

    Args:
      score_round: (round, masks so far) -> scores; the masks are None in round 0 unless `masks` is given.
      params: tree of the prunable leaves and others.
      sparsity: fraction of each budget's prunable weights to remove.
      rounds: how often scores are computed.
      schedule: see `schedules`.
      allocation: see `allocation`.
      chains: path prefixes of what is ranked together.
      prunable: which leaves are ranked.
      stacked: paths of leaves with a leading member axis.
      floor: at least this many weights in every leaf.
      criterion: its name, for errors and for whether it revives weights.
      masks: of an earlier pruning; what it removed stays removed, and counts as removed.
    """
    leaves = prunable_leaves(params, prunable)
    sizes = {prefix: sum(int(np.size(leaf)) for name, leaf in leaves.items() if below(prefix, name)) for prefix in chains}
    counts = {prefix: kept_after(sparsity, n, rounds=rounds, schedule=schedule) for prefix, n in sizes.items()}
    earlier = masks
    for i in range(rounds):
        scores = score_round(i, masks)
        check_scores(scores, criterion=criterion, prunable=prunable)
        keep = {prefix: counts[prefix][i] for prefix in chains}
        for prefix in chains:
            _check_chain(scores, prefix, keep[prefix], criterion=criterion, prunable=prunable, first=i == 0)
        within = earlier if criterion in REVIVING else masks
        masks = mask_from_scores(scores, keep, allocation=allocation, prunable=prunable, stacked=stacked, floor=floor, within=within)
    return masks


def prune(
    objective: Any,
    params: Any,
    rows: Any,
    key: jax.Array | None = None,
    *,
    criterion: Any = "snip",
    sparsity: float = 0.95,
    rounds: int = 1,
    schedule: str = "exponential",
    allocation: str = "global",
    prunable: Prunable = is_kernel,
    floor: int = 0,
    masks: Any = None,
    chunk: int | None = None,
    **options: Any,
) -> Any:
    """Masks that keep exactly `kept_count(sparsity, n)` of the n prunable weights of one network.

    Works on any JAX model: `objective` is a loss (params, rows) -> scalar, or an `Objective`. Parameters are not changed.

    Args:
      objective: the loss that will train the network.
      params: its parameters, usually as initialised.
      rows: one batch, or a function round -> rows for fresh rows in every round.
      key: for criteria that draw (`random`, Hutchinson curvature).
      criterion: a name in `CRITERIA`, or a function of the same signature.
      sparsity: fraction of prunable weights to remove, in [0, 1].
      rounds: the masked network is scored again in each round; masks are nested, except for `force`.
      schedule: `exponential`, `linear` or `cubic`; see `schedules`.
      allocation: `global`, `uniform` or `erk`; see `allocation`.
      prunable: (path, leaf) -> bool; what is not prunable is held fixed and keeps a mask of True.
      floor: at least this many weights in every leaf; 0 lets a layer go empty.
      masks: of an earlier pruning; what it removed stays removed.
      chunk: rows whose loss is differentiated at a time, for more rows than fit into memory at once; all by default.
      **options: passed to the criterion.

    Returns:
      Boolean masks with the structure of `params`, True where not prunable.

    Raises:
      ValueError: nothing is prunable, an unknown name, a sparsity outside [0, 1], or scores that are NaN or all zero.
    """
    if not prunable_leaves(params, prunable):
        raise ValueError("no leaf of params is prunable; pass prunable=(path, leaf) -> bool that is True for your weight matrices")
    revives = criterion in REVIVING

    def score_round(i, masks):
        current = params if masks is None or revives else apply_masks(params, masks)
        now = rows(i) if callable(rows) else rows
        noise = None if key is None else jax.random.fold_in(key, i)
        return score(objective, current, now, noise, criterion=criterion, masks=masks, prunable=prunable, chunk=chunk, **options)

    return prune_in_rounds(
        score_round,
        params,
        sparsity=sparsity,
        rounds=rounds,
        schedule=schedule,
        allocation=allocation,
        prunable=prunable,
        floor=floor,
        criterion=criterion,
        masks=masks,
    )
