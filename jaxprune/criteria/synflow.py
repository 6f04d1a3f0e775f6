"""Synaptic flow: no data."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxprune.parameters import apply_masks


def synflow(objective: Any, params: Any, rows: Any, key: jax.Array | None = None, *, masks: Any = None) -> Any:
    """|θ ⊙ ∂R/∂θ|, R the output of the linearised |θ| network for an all-ones input (Tanaka et al. 2020, equation 6).

    The paper's 100 rounds with an exponential schedule are `prune(..., rounds=100)`. `networks.linear_signal` is an R that stays within
    float32 for many layers.

    Raises:
      ValueError: the objective has no `signal`.
    """
    del rows, key
    signal = getattr(objective, "signal", None)
    if signal is None:
        raise ValueError(
            "criterion 'synflow' needs the objective's field 'signal', a function (params, context) -> scalar: the summed output for an "
            "all-ones input, with |θ| and no activations; see jaxprune.networks.linear_signal"
        )
    if masks is not None:
        params = apply_masks(params, masks)
    gradient = jax.grad(signal)(params, objective.context)
    return jax.tree.map(lambda w, g: jnp.abs(w * g), params, gradient)
