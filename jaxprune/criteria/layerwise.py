"""Pruning a layer by what it does to its inputs: |W|·‖x‖ and the exact optimal brain surgeon of its outputs.

Both read `inputs`, {kernel path: [B, in]}, the activations that enter each kernel [in, out]; `perceptron_inputs` gives them for an MLP.
A stack of layers has kernels [members, in, out] and inputs [members, B, in], or [B, in] where the members share them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxprune.criteria.surgeon import check_keep, damped_inverse, remove_over_blocks
from jaxprune.parameters import Prunable, is_kernel, prunable_leaves, replace_leaves


def perceptron_inputs(params: Any, x: jax.Array, *, activation: Callable[[jax.Array], jax.Array], prefix: str = "") -> dict[str, jax.Array]:
    """The inputs of every layer of an MLP's parameters {Dense_0: {kernel, bias}, …} for x [B, in]; `prefix` goes before each path."""
    inputs = {}
    for index in range(len(params)):
        layer = params[f"Dense_{index}"]
        inputs["/".join(filter(None, (prefix, f"Dense_{index}", "kernel")))] = x
        x = activation(x @ layer["kernel"] + layer["bias"])
    return inputs


def _with_inputs(params: Any, inputs: dict[str, jax.Array], prunable: Prunable) -> dict[str, tuple[jax.Array, jax.Array]]:
    """{path: (kernel, inputs)}.

    Raises:
      ValueError: a kernel without inputs, inputs of no kernel, or shapes that do not fit.
    """
    leaves = prunable_leaves(params, prunable)
    if wrong := sorted(set(leaves) ^ set(inputs)):
        raise ValueError(f"expected inputs for exactly the kernels {', '.join(leaves)}; {wrong[0]!r} is in only one of the two")
    for name, leaf in leaves.items():
        x = inputs[name]
        if leaf.ndim not in (2, 3) or x.ndim not in (2, leaf.ndim) or x.shape[-1] != leaf.shape[-2]:
            raise ValueError(f"expected inputs [B, {leaf.shape[-2]}] of the kernel {name} {leaf.shape}, got {x.shape}")
    return {name: (leaf, inputs[name]) for name, leaf in leaves.items()}


def wanda(params: Any, inputs: dict[str, jax.Array], *, prunable: Prunable = is_kernel) -> Any:
    """|W|·‖x‖₂ with ‖x‖₂ the norm of each input feature over the rows (Sun et al. 2024, equation 1); larger means keep.

    The paper ranks the weights of each output by themselves.

    Returns:
      Scores with the structure of `params`; |θ| where not prunable.

    Raises:
      ValueError: `inputs` does not fit the kernels.
    """
    scores = {
        name: jnp.abs(kernel) * jnp.linalg.norm(x, axis=-2)[..., :, None]
        for name, (kernel, x) in _with_inputs(params, inputs, prunable).items()
    }
    return replace_leaves(jax.tree.map(jnp.abs, params), scores)


def exact_obs(
    params: Any, inputs: dict[str, jax.Array], *, keep: dict[str, Any], damping: float = 1e-2, prunable: Prunable = is_kernel
) -> tuple[Any, Any]:
    """Remove a layer's weights one at a time so that its outputs change least (ExactOBS; Frantar and Alistarh 2022, section 4).

    Every output has its own problem ½‖X(w − w′)‖²/B with the same H = XᵀX/B; the cheapest weight over all outputs of the layer goes first,
    and the others of its output make up for it.

    Args:
      params: parameters of one network.
      inputs: {kernel path: [B, in]}.
      keep: {kernel path: number of weights to keep}.
      damping: added to H's diagonal, as a fraction of its mean.
      prunable: which leaves are kernels.

    Returns:
      New parameters, exactly 0.0 where removed, and masks, True where not prunable.

    Raises:
      TypeError: a count that is not an integer.
      ValueError: `inputs` or `keep` does not fit the kernels.
    """
    pairs = _with_inputs(params, inputs, prunable)
    if wrong := sorted(set(pairs) ^ set(keep)):
        raise ValueError(f"expected a number to keep for exactly the kernels {', '.join(pairs)}; {wrong[0]!r} is in only one of the two")
    pruned, left = {}, {}
    for name, (kernel, x) in pairs.items():
        removals = kernel.size - check_keep(keep[name], kernel.size, name)
        with jax.default_matmul_precision("highest"):
            pruned[name], left[name] = _prune_layer(kernel, x, jnp.int32(removals), jnp.asarray(damping, kernel.dtype))
    everything = jax.tree.map(lambda leaf: jnp.ones(jnp.shape(leaf), bool), params)
    return replace_leaves(params, pruned), replace_leaves(everything, left)


@jax.jit
def _prune_layer(kernel, x, removals, damping):
    size = kernel.shape[-2]

    def inverse(inputs):
        matrix = inputs.T @ inputs / inputs.shape[0]
        smallest = jnp.asarray(jnp.finfo(matrix.dtype).tiny, matrix.dtype)
        return damped_inverse(matrix, jnp.maximum(damping * jnp.trace(matrix) / size, smallest))

    inverses = jax.vmap(inverse)(x) if x.ndim == 3 else inverse(x)
    outputs = jnp.swapaxes(kernel, -1, -2)
    if x.ndim == 3:
        inverses = jnp.repeat(inverses, kernel.shape[-1], axis=0)
    pruned, left = remove_over_blocks(inverses, outputs.reshape(-1, size), jnp.ones((outputs.size // size, size), bool), removals)
    return tuple(jnp.swapaxes(leaf.reshape(outputs.shape), -1, -2) for leaf in (pruned, left))
