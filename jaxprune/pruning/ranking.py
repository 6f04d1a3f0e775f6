"""One ranking of a tree's weights, from which the masks of any sparsity follow."""

from __future__ import annotations

from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxprune.parameters import Prunable, is_kernel, named_leaves, prunable_leaves, replace_leaves
from jaxprune.pruning.allocation import ALLOCATIONS, allocate
from jaxprune.pruning.masks import check_count, kept_count, ranks

Sizes = tuple[tuple[str, int], ...]
Shapes = tuple[tuple[str, tuple[int, ...]], ...]


class Ranking(flax.struct.PyTreeNode):
    """The place of every weight in what it is ranked among. It may leave a `jax.jit`, and `masks` may be called inside one.

    Attributes:
      places: int32 arrays with the structure of the scores, 0 first: among the leaves of a budget for `global`, else in its own leaf; zeros
        where not prunable.
      within: masks of an earlier round, or None.
      chains: ((path prefix, ((leaf path, shape), …)), …) of the budgets.
      available: ((leaf path, weights that `within` leaves), …); None where `within` is traced.
      allocation, stacked, floor: as given to `rank_scores`.
    """

    places: Any
    within: Any
    chains: tuple[tuple[str, Shapes], ...] = flax.struct.field(pytree_node=False)
    available: Sizes | None = flax.struct.field(pytree_node=False)
    allocation: str = flax.struct.field(pytree_node=False)
    stacked: frozenset[str] = flax.struct.field(pytree_node=False)
    floor: int = flax.struct.field(pytree_node=False)

    def kept(self, sparsity: Any) -> dict[str, int]:
        """{path prefix: number of weights a sparsity keeps}, of each budget's prunable weights before any pruning.

        Raises:
          ValueError: sparsity is outside [0, 1].
        """
        return {prefix: kept_count(sparsity, sum(int(np.prod(shape)) for _, shape in shapes)) for prefix, shapes in self.chains}

    def counts(self, keep: dict[str, Any]) -> dict[str, Any]:
        """{leaf path: how many weights, from the first place on, are kept}; with `global`, places and count are those of the budget.

        Args:
          keep: {path prefix: number of weights to keep} of every budget.

        Raises:
          TypeError: a number that is not an integer.
          ValueError: a number out of range, a floor that does not fit, or one that only the values of traced masks could tell.
        """
        counts: dict[str, Any] = {}
        for prefix, shapes in self.chains:
            sizes = {name: int(np.prod(shape)) for name, shape in shapes}
            count = keep[prefix]
            check_count(count, sum(sizes.values()))
            if self.allocation == "global" and not self.floor:
                counts |= dict.fromkeys(sizes, count)
                continue
            if isinstance(count, Tracer):
                raise ValueError(
                    f"allocation={self.allocation!r} with floor={self.floor} divides a budget between layers on the host, but its size is "
                    "traced; give an int, or use allocation='global' and floor=0"
                )
            count = int(count)
            if self.available is None:
                self._check_without_values(count, sizes)
            available = None if self.available is None else {name: left for name, left in self.available if name in sizes}
            if available is not None:
                count = min(count, sum(available.values()))
            shared = allocate(self.allocation, dict(shapes), count, stacked=self.stacked, floor=self.floor, available=available)
            counts |= dict.fromkeys(sizes, count) if shared is None else shared
        return counts

    def _check_without_values(self, count: int, sizes: dict[str, int]) -> None:
        """Refuse what depends on how many weights traced masks leave in each layer."""
        if self.allocation != "global":
            raise ValueError(
                f"allocation={self.allocation!r} divides a budget by what the earlier masks leave in each layer, and they are "
                "traced: give concrete masks, or use allocation='global'"
            )
        if sum(min(self.floor, size) for size in sizes.values()) > count:
            raise ValueError(
                f"whether floor={self.floor} fits into a budget of {count} weights depends on what the earlier masks leave in "
                "each layer, and they are traced: give concrete masks, or a smaller floor"
            )

    def masks(self, keep: dict[str, Any]) -> Any:
        """Boolean masks with the structure of the scores: exactly so many weights of each budget, or all that `within` leaves of it.

        Args:
          keep: {path prefix: number of weights to keep} of every budget; an int, or with `global` and no floor an int32 scalar that may be
            traced.

        Raises:
          TypeError, ValueError: as for `counts`.
        """
        counts = self.counts(keep)
        chosen = {name: leaf < counts[name] for name, leaf in named_leaves(self.places).items() if name in counts}
        if self.within is not None:
            left = named_leaves(self.within)
            chosen = {name: jnp.logical_and(mask, left[name]) for name, mask in chosen.items()}
        everything = jax.tree.map(lambda leaf: jnp.ones(jnp.shape(leaf), bool), self.places)
        return replace_leaves(everything, chosen)


def below(prefix: str, name: str) -> bool:
    """Whether the leaf `name` lies below the path `prefix`."""
    return not prefix or name == prefix or name.startswith(f"{prefix}/")


def left_in(masks: Any, prunable: Prunable = is_kernel) -> Sizes | None:
    """((leaf path, number of weights kept), …) of the prunable leaves, on the host; None where they are traced."""
    leaves = prunable_leaves(masks, prunable)
    if any(isinstance(leaf, Tracer) for leaf in leaves.values()):
        return None
    return tuple((name, int(np.asarray(leaf).sum())) for name, leaf in leaves.items())


def rank_scores(
    scores: Any,
    chains: tuple[str, ...] = ("",),
    *,
    allocation: str = "global",
    prunable: Prunable = is_kernel,
    stacked: frozenset[str] = frozenset(),
    floor: int = 0,
    within: Any = None,
    available: Sizes | None = None,
) -> Ranking:
    """Rank once what `Ranking.masks` then cuts at any number of weights.

    Ties go to the earlier leaf, in the order of `jax.tree.leaves`, then to the earlier index.

    Args:
      scores: scores of every leaf; larger means keep.
      chains: path prefixes of what shares a budget; "" is the whole tree.
      allocation: `global` ranks the leaves of a budget together; `uniform` and `erk` divide it between them first.
      prunable: which leaves are ranked; the others get masks of True.
      stacked: paths of leaves with a leading member axis.
      floor: at least this many weights in every leaf.
      within: masks of an earlier round, whose removed weights stay removed; a budget larger than what is left keeps all of that.
      available: ((leaf path, number of weights that `within` leaves), …) where the caller knows it, as for masks that are traced. For
        `global`, which reads it for the floor alone, what an earlier round left will do.

    Raises:
      ValueError: an unknown allocation.
    """
    if allocation not in ALLOCATIONS:
        raise ValueError(f"allocation={allocation!r} is unknown; expected one of {', '.join(ALLOCATIONS)}")
    leaves = prunable_leaves(scores, prunable)
    removed = None if within is None else {name: ~jnp.asarray(mask) for name, mask in prunable_leaves(within, prunable).items()}
    if available is None:
        whole = tuple((name, int(np.size(leaf))) for name, leaf in leaves.items())
        available = whole if within is None else left_in(within, prunable)
    places: dict[str, Any] = {}
    shapes = []
    for prefix in chains:
        chain = {name: leaf for name, leaf in leaves.items() if below(prefix, name)}
        shapes.append((prefix, tuple((name, tuple(np.shape(leaf))) for name, leaf in chain.items())))
        last = None if removed is None else {name: removed[name].astype(jnp.int32) * 2 for name in chain}
        if allocation == "global":
            places |= _places(chain, _floor_first(chain, last, floor) if floor else last)
        else:
            for name in chain:
                places |= _places({name: chain[name]}, None if last is None else {name: last[name]})
    nowhere = jax.tree.map(lambda leaf: jnp.zeros(jnp.shape(leaf), jnp.int32), scores)
    return Ranking(replace_leaves(nowhere, places), within, tuple(shapes), available, allocation, stacked, floor)


def _places(chain: dict[str, Any], classes: dict[str, Any] | None) -> dict[str, Any]:
    """Places of the leaves ranked together, in their order in the tree (that of a dict would be alphabetical)."""
    ranked = ranks(list(chain.values()), None if classes is None else [classes[name] for name in chain])
    return dict(zip(chain, ranked, strict=True))


def _floor_first(chain: dict[str, Any], last: dict[str, Any] | None, floor: int) -> dict[str, Any]:
    """Classes: 0 for the best `floor` weights of every leaf, 1 for the rest, 2 for what is removed."""
    classes = {}
    for name, leaf in chain.items():
        place = _places({name: leaf}, None if last is None else {name: last[name]})[name]
        classes[name] = jnp.where(place < floor, jnp.int32(0), jnp.int32(1))
        if last is not None:
            classes[name] = jnp.maximum(classes[name], last[name])
    return classes
