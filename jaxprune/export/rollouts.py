"""Returns of any policy function in the environment, on the episodes that `jaxprune.evaluate` starts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from jaxprune.environments import make_batched
from jaxprune.training.evaluation import episode_seeds, play


def evaluate_policy(
    policy: Callable[[np.ndarray], np.ndarray], env_id: str, *, episodes: int, seed: int, backend: str = "auto"
) -> np.ndarray:
    """Undiscounted returns, [episodes] float64.

    Args:
      policy: raw observations [n, S] float32 -> actions [n, A] in environment units, or [n] int32: a `LoadedPolicy`, a `CompiledPolicy`, or
        a function of your own.
      env_id: Gymnasium id.
      episodes: each starts from its own seed, the same as `jaxprune.evaluate` gives it.
      seed: of the episodes.
      backend: see `make_batched`.

    Raises:
      ValueError: no episodes, or an unknown environment.
    """
    if episodes < 1:
        raise ValueError(f"expected at least one episode, got {episodes}")
    environment = make_batched(env_id, episode_seeds(seed, episodes).tolist(), backend=backend)
    try:
        return play(environment, environment.reset(), lambda observations, live, _: policy(observations[live]))
    finally:
        environment.close()
