"""Connection sensitivity."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxprune.parameters import apply_masks


def snip(objective: Any, params: Any, rows: Any, key: jax.Array | None = None, *, masks: Any = None) -> Any:
    """|θ ⊙ g|, the loss's sensitivity to each connection (Lee et al. 2019, equation 4 before its normalisation, which changes no ranking).

    In rounds, on the masked network, this is iterative SNIP (de Jorge et al. 2021).
    """
    del key
    if masks is not None:
        params = apply_masks(params, masks)
    gradient = jax.grad(objective)(params, rows)
    return jax.tree.map(lambda w, g: jnp.abs(w * g), params, gradient)


def force(objective: Any, params: Any, rows: Any, key: jax.Array | None = None, *, masks: Any = None) -> Any:
    """|θ ⊙ g(θ ⊙ mask)|: dense weights, the masked network's gradient, so that a removed weight may come back (de Jorge et al. 2021).

    `params` are the dense ones in every round. In one round this is SNIP.
    """
    del key
    sparse = params if masks is None else apply_masks(params, masks)
    gradient = jax.grad(objective)(sparse, rows)
    return jax.tree.map(lambda w, g: jnp.abs(w * g), params, gradient)
