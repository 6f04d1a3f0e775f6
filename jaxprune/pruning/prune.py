"""From scores to masks, in one round or several."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from jaxprune.criteria.registry import find_criterion, registered_name, revives, takes_prunable, traced_options
from jaxprune.objective import Objective, in_chunks
from jaxprune.parameters import Prunable, is_kernel, prunable_leaves
from jaxprune.pruning.masks import apply_masks
from jaxprune.pruning.ranking import below, left_in, rank_scores
from jaxprune.pruning.schedules import kept_after


@functools.partial(jax.jit, static_argnames=("criterion", "prunable", "options"))
def _score(objective, params, rows, key, masks, numbers, *, criterion, prunable, options):
    function = find_criterion(criterion) if isinstance(criterion, str) else criterion
    keywords = dict(options, **numbers, **({"prunable": prunable} if takes_prunable(function) else {}))
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
    # Traced, so that a grid of λ compiles once. Other options, and those of a criterion of one's own, may decide what is computed.
    numbers = {name: options.pop(name) for name in traced_options(criterion) & set(options)}
    with jax.default_matmul_precision("highest"):
        return _score(
            objective, params, rows, key, masks, numbers, criterion=criterion, prunable=prunable, options=tuple(sorted(options.items()))
        )


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
    ranking = rank_scores(scores, tuple(keep), allocation=allocation, prunable=prunable, stacked=stacked, floor=floor, within=within)
    return ranking.masks(keep)


def blank_budgets(scores: Any, chains: Sequence[str], *, prunable: Prunable = is_kernel) -> frozenset[str]:
    """Those of the path prefixes whose scores are all zero; none where they are traced. A budget over everything is `check_scores`'s."""
    leaves = prunable_leaves(scores, prunable)
    if any(isinstance(leaf, Tracer) for leaf in leaves.values()):
        return frozenset()
    own = {prefix: [leaf for name, leaf in leaves.items() if below(prefix, name)] for prefix in chains if prefix}
    return frozenset(prefix for prefix, chain in own.items() if chain and not any(np.asarray(leaf).any() for leaf in chain))


def check_budgets(blank: frozenset[str], keep: dict[str, int], *, criterion: Any, first: bool = True) -> None:
    """Refuse to rank a budget whose scores are all zero; in later rounds, when pruning itself has cut it off, warn.

    Args:
      blank: path prefixes, from `blank_budgets`.
      keep: {path prefix: number of weights to keep}; where it is 0 nothing has to be ranked.
      criterion: its name.
      first: whether this is the first round.

    Raises:
      ValueError: in the first round.
    """
    for prefix, count in keep.items():
        if prefix not in blank or not count:
            continue
        message = f"criterion {criterion!r}: every score of {prefix} is zero, so its {count} weights to keep cannot be ranked"
        if first:
            raise ValueError(f"{message}; expected a loss whose gradient reaches it (is every unit dead?)")
        logging.getLogger("jaxprune").warning("%s; the first ones are kept: use fewer rounds, a lower sparsity or a floor", message)


@functools.partial(jax.jit, static_argnames=("chains", "prunable", "stacked"))
def _best(scores, keep, within, *, chains, prunable, stacked):
    """The masks of a round without floors: one program for all rounds of a network, for they differ in how many weights they keep alone."""
    return rank_scores(scores, chains, prunable=prunable, stacked=stacked, within=within).masks(keep)


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

    Raises:
      ValueError: as `prune`, or a sparsity that is traced.
    """
    if isinstance(sparsity, Tracer):
        raise ValueError(
            "sparsity is traced, but the numbers of weights it keeps are worked out on the host: pass a Python number (a static argument "
            "under jit), or score once and give jaxprune.select the number to keep as an int32, which may be traced"
        )
    leaves = prunable_leaves(params, prunable)
    sizes = {prefix: sum(int(np.size(leaf)) for name, leaf in leaves.items() if below(prefix, name)) for prefix in chains}
    counts = {prefix: kept_after(sparsity, n, rounds=rounds, schedule=schedule) for prefix, n in sizes.items()}
    earlier = masks
    available = None if earlier is None else left_in(earlier, prunable)
    if earlier is None:
        available = tuple((name, int(np.size(leaf))) for name, leaf in leaves.items())
    for i in range(rounds):
        scores = score_round(i, masks)
        check_scores(scores, criterion=criterion, prunable=prunable)
        keep = {prefix: counts[prefix][i] for prefix in chains}
        check_budgets(blank_budgets(scores, chains, prunable=prunable), keep, criterion=criterion, first=i == 0)
        within = earlier if revives(criterion) else masks
        if allocation == "global" and not floor:
            masks = _best(scores, keep, within, chains=tuple(chains), prunable=prunable, stacked=stacked)
            continue
        ranking = rank_scores(
            scores,
            tuple(chains),
            allocation=allocation,
            prunable=prunable,
            stacked=stacked,
            floor=floor,
            within=within,
            available=available,
        )
        masks = ranking.masks(keep)
        if allocation != "global" and not revives(criterion):
            # What a layer has left is known without a look at the masks, which may be traced.
            available = tuple(ranking.counts(keep).items())
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

    It may be called inside `jax.jit` and `jax.vmap`, with parameters, rows, key and masks traced: counts are worked out while tracing, so
    `sparsity` and the other numbers are to be Python's. What depends on the values of scores (that they are finite and not all zero) is not
    checked there.

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
      ValueError: nothing is prunable, an unknown name, a sparsity outside [0, 1] or traced, scores that are NaN or all zero, a floor that
        does not fit, or masks that are traced where the division of a budget between layers depends on them (`uniform`, `erk`, and a floor
        that may not fit).

    Examples:
      The outputs are 4 and −1.5, so the gradient is 8 in the first column and −3 in the second, and |θ ⊙ g| is 8, 6, 24 and 1.5:

      >>> import jax.numpy as jnp
      >>> import jaxprune as jp
      >>> params = {"w": jnp.array([[1.0, -2.0], [3.0, 0.5]]), "b": jnp.zeros(2)}
      >>> def loss(params, rows):
      ...     return jnp.sum((rows @ params["w"] + params["b"]) ** 2)
      >>> masks = jp.prune(loss, params, jnp.ones((1, 2)), criterion="snip", sparsity=0.5)
      >>> masks["w"].tolist(), masks["b"].tolist()
      ([[True, False], [True, False]], [True, True])
    """
    criterion = registered_name(criterion)
    if not prunable_leaves(params, prunable):
        raise ValueError("no leaf of params is prunable; pass prunable=(path, leaf) -> bool that is True for your weight matrices")
    reviving = revives(criterion)

    def score_round(i, masks):
        current = params if masks is None or reviving else apply_masks(params, masks)
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
