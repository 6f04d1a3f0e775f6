"""Optimizer states leaf by leaf: which array belongs to which parameter, for any optax optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax

from jaxprune.parameters import named_leaves
from jaxprune.pruning.unit_layout import map_named

_NOT_A_PARAMETER = ""


def owners(optimizer: optax.GradientTransformation, opt_state: Any, params: Any) -> Any:
    """The structure of `opt_state` with, at every leaf, the path name of the parameter that it belongs to, or "" for counts and keys."""
    names = map_named(lambda name, _: name, params)
    return optax.tree_utils.tree_map_params(
        optimizer,
        lambda leaf, name: leaf if _absent(leaf) else name,
        opt_state,
        names,
        transform_non_params=lambda _: _NOT_A_PARAMETER,
        is_leaf=_absent,
    )


def _absent(leaf: Any) -> bool:
    return isinstance(leaf, optax.MaskedNode)


def moments_of(optimizer: optax.GradientTransformation, opt_state: Any, params: Any) -> list[tuple[str, Any]]:
    """(path name of the parameter, array) for every array of the state that belongs to a parameter."""
    pairs = zip(jax.tree.leaves(owners(optimizer, opt_state, params)), jax.tree.leaves(opt_state), strict=True)
    return [(owner, leaf) for owner, leaf in pairs if owner != _NOT_A_PARAMETER]


def elementwise(optimizer: optax.GradientTransformation, opt_state: Any, params: Any) -> bool:
    """Whether every array that belongs to a parameter has its shape, so that it can be cut and put back with it."""
    shapes = {name: np.shape(leaf) for name, leaf in named_leaves(params).items()}
    return all(np.shape(leaf) == shapes[owner] for owner, leaf in moments_of(optimizer, opt_state, params))


def map_moments(
    optimizer: optax.GradientTransformation, function: Callable[[str, Any], Any], opt_state: Any, params: Any, *, otherwise: Any = None
) -> Any:
    """`function(parameter's path name, moment)` over every array of the state that has its parameter's shape.

    Args:
      optimizer: whose state it is.
      function: gives the new moment.
      opt_state: the state.
      params: parameters of the shapes that the state was made for.
      otherwise: a state of the same structure to take a parameter's array from where it has another shape than the parameter (factored
        second moments, for example); they stay as they are without it.
    """
    shapes = {name: np.shape(leaf) for name, leaf in named_leaves(params).items()}

    def moved(owner, leaf, other):
        if owner == _NOT_A_PARAMETER:
            return leaf
        return function(owner, leaf) if np.shape(leaf) == shapes[owner] else other

    return jax.tree.map(moved, owners(optimizer, opt_state, params), opt_state, opt_state if otherwise is None else otherwise)
