"""One door for every kind of log."""

from __future__ import annotations

import os
import pathlib
from typing import Any

from jaxprune.data.builtin import ensure, is_builtin, parse
from jaxprune.data.d4rl import load_hdf5
from jaxprune.data.minari_format import load_minari
from jaxprune.data.transitions import Dataset
from jaxprune.errors import DataError

_SUFFIXES = (".hdf5", ".h5", ".hdf")


def load(
    name_or_path: str | os.PathLike,
    *,
    env_id: str | None = None,
    low: Any = None,
    high: Any = None,
    clip_actions: bool = False,
    max_episode_steps: int | None = None,
    size: int | None = None,
    seed: int | None = None,
    download: bool = True,
) -> Dataset:
    """Loads and validates a log.

    Args:
      name_or_path: the path of an HDF5 file in D4RL's layout; a Minari id; or ``jaxprune/<task>/<level>-v0``, a built-in set, made on
        this machine the first time (tasks hopper, walker2d, halfcheetah, cartpole; levels random, medium, medium-replay, medium-expert,
        expert).
      env_id: Gymnasium id to evaluate in; by default what the source says, if anything.
      low: lower bounds of the actions; by default the source's or the environment's, and −1 for an HDF5 file of no known environment.
      high: upper bounds, likewise; 1 for an HDF5 file of no known environment.
      clip_actions: move actions outside the bounds to the bound; without it they are counted and reported.
      max_episode_steps: the time limit of an HDF5 file that holds neither timeouts nor next_observations.
      size: transitions of a built-in set; 200,000 by default.
      seed: of a built-in set; 0 by default.
      download: ask Minari's server for a set that is not on this machine.

    Returns:
      The data set, float32 NumPy arrays; ``print(dataset.report)`` says what was found and dropped.

    Raises:
      FileNotFoundError: no such file, or a Minari set that is neither here nor to be had.
      DataError: a ValueError; whatever would poison a mask or a value. The message says what was expected, what came, where, and what
        to do.
    """
    name = os.fspath(name_or_path)
    is_file = isinstance(name_or_path, pathlib.Path) or name.endswith(_SUFFIXES) or os.path.isfile(name)
    made = not is_file and is_builtin(name)
    if not made and (size is not None or seed is not None):
        raise DataError(f"size, seed: expected only with a built-in set jaxprune/<task>/<level>-v0, got them with {name}; leave them out")
    if not is_file and max_episode_steps is not None:
        raise DataError(
            f"max_episode_steps: expected only with an HDF5 file, got it with {name}, which marks its own time limits; leave it out"
        )
    if is_file:
        return load_hdf5(name, env_id=env_id, low=low, high=high, clip_actions=clip_actions, max_episode_steps=max_episode_steps)
    if made:
        name = ensure(parse(name, size, seed))
    return load_minari(name, env_id=env_id, low=low, high=high, clip_actions=clip_actions, download=download)
