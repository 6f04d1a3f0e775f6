"""The control: scores that know nothing."""

from __future__ import annotations

from typing import Any

import jax


def random(objective: Any, params: Any, rows: Any, key: jax.Array | None = None, *, masks: Any = None) -> Any:
    """Uniform scores in [0, 1), independent for every weight.

    With `masks`, removed weights keep the same scores: rounds of random pruning are nested.

    Raises:
      ValueError: no key.
    """
    del objective, rows, masks
    if key is None:
        raise ValueError("the criterion 'random' draws its scores: pass key=jax.random.key(seed)")
    leaves, structure = jax.tree.flatten(params)
    drawn = [jax.random.uniform(jax.random.fold_in(key, i), leaf.shape, leaf.dtype) for i, leaf in enumerate(leaves)]
    return structure.unflatten(drawn)
