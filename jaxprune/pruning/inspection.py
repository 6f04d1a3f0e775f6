"""What a mask is worth: live paths, dead and constant units, overlap, and where the weights stayed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxprune.parameters import Prunable, UnitGroup, is_kernel, prunable_leaves


def _member(groups: Sequence[UnitGroup]) -> tuple[UnitGroup, ...]:
    """The groups of one member of a stack."""
    return tuple(
        dataclasses.replace(
            group,
            members=0,
            producers=tuple((path, axis - 1) for path, axis in group.producers),
            consumers=tuple((path, axis - 1, offset) for path, axis, offset in group.consumers),
        )
        for group in groups
    )


def live_units(masks: Any, groups: Sequence[UnitGroup], *, prunable: Prunable = is_kernel) -> dict[str, tuple[jax.Array, jax.Array]]:
    """{group: (fed, heard)}, booleans [size] or [members, size].

    A unit is fed when kept weights lead to it from the network's input, and heard when kept weights lead from it to the output. Masks alone
    decide: a kept weight is a connection whatever its value, and a bias is none. Fed and not heard is dead; heard and not fed is constant.

    Args:
      masks: of one network, or of a stack of them.
      groups: its hidden layers.
      prunable: which leaves are kernels.
    """
    if groups and groups[0].members:
        inner = _member(groups)
        kernels = prunable_leaves(masks, prunable)
        return jax.vmap(lambda k: _live_units(k, inner))(kernels)
    return _live_units(prunable_leaves(masks, prunable), groups)


def _ends(name: str, kernel: jax.Array, groups: Sequence[UnitGroup], fed: dict, heard: dict) -> tuple[jax.Array, jax.Array]:
    """Which entries of a kernel start at something fed, and which lead to something heard; both broadcast against it.

    What no group consumes is an input of the network, what no group produces an output.
    """
    starts, leads = jnp.ones([1] * kernel.ndim, bool), jnp.ones([1] * kernel.ndim, bool)
    for group in groups:
        for path, axis, offset in group.consumers:
            if path == name:
                along = [1] * kernel.ndim
                along[axis] = kernel.shape[axis]
                starts = starts & jnp.ones(kernel.shape[axis], bool).at[offset : offset + group.size].set(fed[group.name]).reshape(along)
        for path, axis in group.producers:
            if path == name:
                along = [1] * kernel.ndim
                along[axis] = kernel.shape[axis]
                leads = leads & heard[group.name].reshape(along)
    return starts, leads


def _live_units(kernels: dict[str, jax.Array], groups: Sequence[UnitGroup]) -> dict[str, tuple[jax.Array, jax.Array]]:
    fed = {group.name: jnp.zeros(group.size, bool) for group in groups}
    heard = {group.name: jnp.zeros(group.size, bool) for group in groups}
    for _ in groups:
        for group in groups:
            for path, axis in group.producers:
                if path in kernels:
                    starts, _ = _ends(path, kernels[path], groups, fed, heard)
                    others = tuple(i for i in range(kernels[path].ndim) if i != axis)
                    fed[group.name] = fed[group.name] | jnp.any(kernels[path] & starts, axis=others)
        for group in reversed(groups):
            for path, axis, offset in group.consumers:
                _, leads = _ends(path, kernels[path], groups, fed, heard)
                others = tuple(i for i in range(kernels[path].ndim) if i != axis)
                reached = jnp.any(kernels[path] & leads, axis=others)
                heard[group.name] = heard[group.name] | reached[offset : offset + group.size]
    return {name: (fed[name], heard[name]) for name in fed}


def effective_masks(masks: Any, groups: Sequence[UnitGroup], *, prunable: Prunable = is_kernel) -> dict[str, jax.Array]:
    """{kernel path: bool, True where a kept weight lies on a live path from an input to an output of the network}."""
    kernels = prunable_leaves(masks, prunable)
    units = live_units(masks, groups, prunable=prunable)

    def on_path(kernels, units, groups):
        fed, heard = ({name: pair[end] for name, pair in units.items()} for end in (0, 1))
        out = {}
        for name, kernel in kernels.items():
            starts, leads = _ends(name, kernel, groups, fed, heard)
            out[name] = kernel & starts & leads
        return out

    if groups and groups[0].members:
        inner = _member(groups)
        return jax.vmap(lambda k, u: on_path(k, u, inner))(kernels, units)
    return on_path(kernels, units, groups)


def effective_density(params: Any, masks: Any, groups: Sequence[UnitGroup], *, prunable: Prunable = is_kernel) -> jax.Array:
    """The fraction of prunable weights that lie on a live path from input to output, a float32 scalar; never above `density`.

    Args:
      params: parameters of one network, or one stack; their sizes are what the count is a fraction of.
      masks: its masks.
      groups: its hidden layers.
      prunable: which leaves are kernels.

    Examples:
      Half of the weights are kept, but the only fed unit is not heard, and the only heard one is not fed:

      >>> import jax
      >>> import jax.numpy as jnp
      >>> import jaxprune as jp
      >>> hidden = jp.UnitGroup("hidden", 2, jax.nn.relu, producers=(("first/kernel", 1),), consumers=(("second/kernel", 0, 0),))
      >>> masks = {"first": {"kernel": jnp.array([[True, False]])}, "second": {"kernel": jnp.array([[False], [True]])}}
      >>> float(jp.density(masks)), float(jp.effective_density(masks, masks, [hidden]))
      (0.5, 0.0)
    """
    total = sum(leaf.size for leaf in prunable_leaves(params, prunable).values())
    live = sum(jnp.sum(leaf, dtype=jnp.int32) for leaf in effective_masks(masks, groups, prunable=prunable).values())
    return jnp.asarray(live, jnp.float32) / max(1, total)


@dataclasses.dataclass(frozen=True)
class UnitCounts:
    """Units of one layer, over all members of a stack.

    Attributes:
      live: fed and heard.
      constant: heard but not fed: they output their activation of the bias.
      dead: not heard.
    """

    live: int
    constant: int
    dead: int


def count_units(masks: Any, groups: Sequence[UnitGroup], *, prunable: Prunable = is_kernel) -> dict[str, UnitCounts]:
    """{group: counts}, on the host."""
    return {
        name: UnitCounts(int(jnp.sum(fed & heard)), int(jnp.sum(heard & ~fed)), int(jnp.sum(~heard)))
        for name, (fed, heard) in live_units(masks, groups, prunable=prunable).items()
    }


def jaccard(a: Any, b: Any, *, prunable: Prunable = is_kernel) -> jax.Array:
    """|a ∧ b| / |a ∨ b| over the prunable weights of two masks, a float32 scalar; 1 where both keep nothing.

    Examples:
      >>> import jax.numpy as jnp
      >>> import jaxprune as jp
      >>> a, b = jnp.array([[True, True, True, False]]), jnp.array([[False, True, False, True]])
      >>> float(jp.jaccard({"w": a}, {"w": b}))  # one in common, four in either
      0.25
    """
    first, second = prunable_leaves(a, prunable), prunable_leaves(b, prunable)
    both = sum(jnp.sum(first[name] & second[name], dtype=jnp.int32) for name in first)
    either = sum(jnp.sum(first[name] | second[name], dtype=jnp.int32) for name in first)
    union = jnp.asarray(either, jnp.float32)
    return jnp.where(union > 0, jnp.asarray(both, jnp.float32) / jnp.maximum(union, 1), jnp.ones((), jnp.float32))


def layer_fractions(masks: Any, *, prunable: Prunable = is_kernel) -> dict[str, jax.Array]:
    """{kernel path: the fraction of its weights kept}, float32 scalars, members pooled."""
    return {name: jnp.mean(mask, dtype=jnp.float32) for name, mask in prunable_leaves(masks, prunable).items()}
