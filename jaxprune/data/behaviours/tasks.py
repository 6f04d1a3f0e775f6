"""Which policies make which level of which task."""

from __future__ import annotations

import json
import pathlib

import numpy as np

from jaxprune.data.behaviours.policy import Policy, policy_from_arrays
from jaxprune.errors import DataError

TASKS: dict[str, str] = {
    "hopper": "Hopper-v5",
    "walker2d": "Walker2d-v5",
    "halfcheetah": "HalfCheetah-v5",
    "cartpole": "CartPole-v1",
}
LEVELS = ("random", "medium", "medium-replay", "medium-expert", "expert")

_FOLDER = pathlib.Path(__file__).parent


def load_behaviour(task: str, level: str) -> tuple[Policy, ...]:
    """The policies that share a level's transitions equally, in the order of the data; none for ``random``, which acts uniformly.

    ``medium-replay`` is the snapshots of training up to ``medium``, ``medium-expert`` half one and half the other.

    Raises:
      DataError: an unknown task or level, or one without weights in this package.
    """
    if task not in TASKS or level not in LEVELS:
        raise DataError(f"jaxprune/{task}/{level}-v0: expected a task of {', '.join(TASKS)} and a level of {', '.join(LEVELS)}")
    if level == "random":
        return ()
    path = _path(task)
    if not path.is_file():
        raise DataError(
            f"jaxprune/{task}/{level}-v0: this package holds no behaviour policies for {task}; only its random level can be made"
        )
    with np.load(path) as file:
        arrays = {key: file[key] for key in file.files if key != "metadata"}
        metadata = json.loads(str(file["metadata"]))
    policies = metadata["policies"]
    if level == "medium-replay":
        names = sorted((name for name in policies if name.startswith("replay_")), key=lambda name: int(name.removeprefix("replay_")))
    else:
        names = level.split("-")
    missing = [name for name in names if name not in policies]
    if missing or not names:
        raise DataError(
            f"jaxprune/{task}/{level}-v0: the weights of {task} hold {', '.join(policies)}, not {', '.join(missing) or 'replay_0'}"
        )
    return tuple(policy_from_arrays(arrays, policies[name], prefix=f"{name}/") for name in names)


def _path(task: str) -> pathlib.Path:
    return _FOLDER / f"{task}.npz"
