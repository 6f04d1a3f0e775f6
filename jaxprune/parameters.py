"""Parameter trees: which leaves are prunable, what they are called, what of them belongs together."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Prunable = Callable[[tuple, Any], bool]

_KERNELS = {"kernel", "w", "weight", "embedding"}
_NOT_KERNELS = {"bias", "b", "scale", "offset", "gamma", "beta", "mean", "var"}


def path_name(path: Sequence[Any]) -> str:
    """The keys of a leaf joined by slashes, as in ``encoder/Dense_0/kernel``."""
    return jax.tree_util.keystr(tuple(path), simple=True, separator="/")


def is_kernel(path: Sequence[Any], leaf: Any) -> bool:
    """Whether a leaf holds multiplicative weights: told by its name, and for unnamed leaves by having at least two axes.

    Biases and normalisation parameters are not prunable; a stack of networks gives a bias a second axis, so names come first.
    """
    name = path_name(path[-1:])
    if name in _KERNELS:
        return True
    if name in _NOT_KERNELS:
        return False
    return np.ndim(leaf) >= 2


def prunable_tree(params: Any, prunable: Prunable = is_kernel) -> Any:
    """A tree of Python bools, True at prunable leaves."""
    return jax.tree_util.tree_map_with_path(lambda path, leaf: bool(prunable(path, leaf)), params)


def _named(params: Any) -> list[tuple[str, tuple, Any]]:
    """(path name, path, leaf) of every leaf.

    Raises:
      ValueError: two leaves of one name.
    """
    leaves = [(path_name(path), path, leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(params)]
    if len({name for name, *_ in leaves}) < len(leaves):
        paths: dict[str, Any] = {}
        for name, path, _ in leaves:
            if name in paths:
                first, second = (jax.tree_util.keystr(p) for p in (paths[name], path))
                raise ValueError(
                    f"two parameters are called {name!r}, {first} and {second}; rename one: a slash in a key stands for nesting"
                )
            paths[name] = path
    return leaves


def named_leaves(tree: Any) -> dict[str, Any]:
    """{path name: leaf}, in the order of `jax.tree.leaves`.

    Raises:
      ValueError: two leaves of one name.
    """
    return {name: leaf for name, _, leaf in _named(tree)}


def prunable_leaves(params: Any, prunable: Prunable = is_kernel) -> dict[str, Any]:
    """{path name: leaf} of the prunable leaves, in the order of `jax.tree.leaves`.

    Raises:
      ValueError: two leaves of one name.
    """
    return {name: leaf for name, path, leaf in _named(params) if prunable(path, leaf)}


def replace_leaves(params: Any, leaves: dict[str, Any]) -> Any:
    """`params` with the leaves named in `leaves` replaced; a name that is not in `params` is a KeyError."""
    names = set(named_leaves(params))
    if unknown := set(leaves) - names:
        raise KeyError(f"no parameter is called {sorted(unknown)[0]!r}; there are {', '.join(sorted(names))}")
    return jax.tree_util.tree_map_with_path(lambda path, leaf: leaves.get(path_name(path), leaf), params)


def prunable_size(params: Any, prunable: Prunable = is_kernel) -> int:
    """Number of prunable weights: the denominator of every sparsity."""
    return sum(int(np.size(leaf)) for leaf in prunable_leaves(params, prunable).values())


def apply_masks(tree: Any, masks: Any) -> Any:
    """`tree` with exactly 0.0 wherever the mask is False.

    Examples:
      >>> import jax.numpy as jnp
      >>> import jaxprune as jp
      >>> jp.apply_masks({"w": jnp.array([1.0, jnp.nan, 3.0])}, {"w": jnp.array([True, False, True])})["w"].tolist()
      [1.0, 0.0, 3.0]
    """
    return jax.tree.map(lambda leaf, mask: jnp.where(mask, leaf, jnp.zeros((), leaf.dtype)), tree, masks)


@dataclasses.dataclass(frozen=True)
class UnitGroup:
    """One layer of hidden units that can be removed one at a time.

    Attributes:
      name: unique in its network.
      size: number of units.
      activation: what follows the pre-activation, elementwise; a removed unit still outputs `activation(bias)`.
      producers: (leaf path, axis) of the arrays that make the units, biases included.
      consumers: (leaf path, axis, offset) of the arrays that read them; unit j is at index offset + j of the axis.
      members: 0 for a plain network; M for a stack of M networks whose leaves carry a leading axis of M. Axes count that axis, which is
        never a fan.

    Examples:
      The hidden layer of {first: {kernel: [3, 8], bias: [8]}, second: {kernel: [8, 1], bias: [1]}}:

      >>> import jax
      >>> import jaxprune as jp
      >>> made, read = (("first/kernel", 1), ("first/bias", 0)), (("second/kernel", 0, 0),)
      >>> hidden = jp.UnitGroup("hidden", size=8, activation=jax.nn.relu, producers=made, consumers=read)
      >>> hidden.consumers
      (('second/kernel', 0, 0),)
    """

    name: str
    size: int
    activation: Callable[[jax.Array], jax.Array]
    producers: tuple[tuple[str, int], ...]
    consumers: tuple[tuple[str, int, int], ...]
    members: int = 0

    def __post_init__(self):
        object.__setattr__(self, "producers", tuple((path, axis) for path, axis in self.producers))
        object.__setattr__(self, "consumers", tuple((path, axis, offset) for path, axis, offset in self.consumers))
