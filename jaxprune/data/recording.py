"""Data sets of a user's own policy."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxprune.data.behaviours import load_policy
from jaxprune.data.builtin import is_builtin
from jaxprune.data.collection import Act, collect
from jaxprune.data.storing import recorded_recipe, store
from jaxprune.errors import DataError


def record(
    dataset_id: str, act: Act | None, *, env_id: str, size: int, seed: int = 0, algorithm: str = "unknown", replace: bool = False
) -> str:
    """Plays a policy for `size` transitions and keeps them as a Minari data set.

    Args:
      dataset_id: Minari id, such as ``mine/hopper/first-v0``; not under ``jaxprune/``, which is for the built-in sets.
      act: (observations [E, S], rng) -> actions [E, A], or [E] integers where the environment's are discrete; None acts uniformly.
      env_id: Gymnasium id.
      size: transitions.
      seed: of environments and noise.
      algorithm: for Minari's metadata.
      replace: replace a set that is there under this id.

    Returns:
      `dataset_id`, ready for `load`.

    Raises:
      DataError: the id is taken or not one of Minari's, or the policy does not fit the environment.
    """
    from minari.dataset.minari_dataset import parse_dataset_id

    try:
        parse_dataset_id(dataset_id)
    except (ValueError, TypeError) as error:
        raise DataError(f"{dataset_id!r}: expected a Minari id such as mine/hopper/first-v0") from error
    if is_builtin(dataset_id):
        raise DataError(f"{dataset_id}: expected an id outside jaxprune/, which is for the built-in sets; choose another one")
    if recorded_recipe(dataset_id) is not None and not replace:
        raise DataError(f"{dataset_id}: a set of this id is there already; choose another one, or ask for it to be replaced")
    episodes = collect(env_id, act, steps=size, seed=seed)
    description = f"{size} transitions of a policy given by its user in {env_id}, seed {seed}."
    store(dataset_id, episodes, env_id=env_id, recipe="recorded", algorithm=algorithm, description=description)
    return dataset_id


def find_policy(name: str) -> Act:
    """The policy that a name stands for: a snapshot file ``….npz``, or ``module:callable``.

    The callable takes observations [E, S] and, if it has a second parameter, a NumPy generator, and returns actions [E, A].

    Raises:
      FileNotFoundError: no such file.
      DataError: no such module or callable, or a file that is no snapshot.
    """
    if name.endswith(".npz"):
        return load_policy(name)
    module, _, attribute = name.partition(":")
    if not attribute:
        raise DataError(f"policy: expected the path of a snapshot (….npz) or module:callable, got {name!r}")
    try:
        policy = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise DataError(f"policy: expected module:callable that Python can import, got {name!r} ({error}); is it on PYTHONPATH?") from error
    if not callable(policy):
        raise DataError(f"policy: expected a callable, got {type(policy).__name__} under {name!r}")
    takes_generator = _takes_generator(policy)

    def act(observations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(policy(observations, rng) if takes_generator else policy(observations))

    return act


def _takes_generator(policy: Callable[..., Any]) -> bool:
    try:
        inspect.signature(policy).bind(None, None)
    except TypeError:
        return False
    return True
