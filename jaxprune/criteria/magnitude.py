"""|θ|."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxprune.parameters import apply_masks


def magnitude(objective: Any, params: Any, rows: Any, key: jax.Array | None = None, *, masks: Any = None) -> Any:
    """|θ|, the oldest criterion: what is small is removed."""
    del objective, rows, key
    if masks is not None:
        params = apply_masks(params, masks)
    return jax.tree.map(jnp.abs, params)
