"""The built-in data sets, ``jaxprune/<task>/<level>-v0``: made on this machine and kept as Minari data sets."""

from __future__ import annotations

import dataclasses
import hashlib
import re

from absl import logging

from jaxprune.data.behaviours import LEVELS, TASKS, Policy, load_behaviour
from jaxprune.data.collection import Episode, collect
from jaxprune.data.storing import recorded_recipe, store
from jaxprune.errors import DataError

SIZE = 200_000

# Raised when the way of collecting changes, so that older sets are made anew.
_RECIPE = 1

_ID = re.compile(r"jaxprune/(?P<task>[^/]+)/(?P<level>.+?)(?:-n(?P<size>\d+))?(?:-s(?P<seed>\d+))?-v0")


@dataclasses.dataclass(frozen=True)
class Builtin:
    """Which set: `size` transitions of `level` play in `task`, by `seed`."""

    task: str
    level: str
    size: int = SIZE
    seed: int = 0

    @property
    def dataset_id(self) -> str:
        """Minari id; size and seed stand in it where they are not the usual ones (``jaxprune/hopper/medium-n50000-s1-v0``)."""
        size = f"-n{self.size}" if self.size != SIZE else ""
        return f"jaxprune/{self.task}/{self.level}{size}{f'-s{self.seed}' if self.seed else ''}-v0"


def is_builtin(name: str) -> bool:
    """Whether a name is one of ours, well-formed or not."""
    return name.startswith("jaxprune/")


def parse(name: str, size: int | None = None, seed: int | None = None) -> Builtin:
    """The set a name stands for; `size` and `seed` replace those in it.

    Raises:
      DataError: not a built-in set.
    """
    match = _ID.fullmatch(name)
    if not match or match["task"] not in TASKS or match["level"] not in LEVELS:
        raise DataError(f"{name}: expected jaxprune/<task>/<level>-v0 with a task of {', '.join(TASKS)} and a level of {', '.join(LEVELS)}")
    size = int(match["size"] or SIZE) if size is None else size
    seed = int(match["seed"] or 0) if seed is None else seed
    if size < 1 or seed < 0:
        raise DataError(f"{name}: expected size of at least 1 and seed of at least 0, got {size} and {seed}")
    return Builtin(match["task"], match["level"], size, seed)


def ensure(builtin: Builtin) -> str:
    """Makes the set unless Minari's folder has it, and returns its Minari id. A set made with other weights is made anew."""
    policies = load_behaviour(builtin.task, builtin.level)
    recipe = _recipe(builtin, policies)
    recorded = recorded_recipe(builtin.dataset_id)
    if recorded == recipe:
        return builtin.dataset_id
    if recorded is not None:
        logging.warning("%s was made with other behaviour policies than this version's; it is made anew", builtin.dataset_id)
    logging.info("making %s: %s transitions", builtin.dataset_id, f"{builtin.size:,}")
    store(
        builtin.dataset_id,
        play(builtin, policies),
        env_id=TASKS[builtin.task],
        recipe=recipe,
        algorithm=_algorithm(policies),
        description=_description(builtin, policies),
    )
    return builtin.dataset_id


def play(builtin: Builtin, policies: tuple[Policy, ...]) -> list[Episode]:
    """The episodes of a set: equal shares of its transitions to each policy, one after the other."""
    env_id, shares = TASKS[builtin.task], max(len(policies), 1)
    episodes = []
    for index, policy in enumerate(policies or (None,)):
        steps = builtin.size * (index + 1) // shares - builtin.size * index // shares
        if steps:
            episodes += collect(env_id, policy, steps=steps, seed=builtin.seed * 1_000 + index)
    return episodes


def _recipe(builtin: Builtin, policies: tuple[Policy, ...]) -> str:
    """Names everything that a set's contents hang on, but for the simulator."""
    weights = "".join(policy.digest() for policy in policies)
    return hashlib.sha256(repr((_RECIPE, dataclasses.astuple(builtin), TASKS[builtin.task], weights)).encode()).hexdigest()


def _algorithm(policies: tuple[Policy, ...]) -> str:
    return ", ".join(sorted({str(policy.metadata.get("algorithm", "unknown")) for policy in policies})) or "uniform random"


def _description(builtin: Builtin, policies: tuple[Policy, ...]) -> str:
    sources = [f"{policy.metadata['steps']} training steps, mean return {policy.metadata['return_mean']:.0f}" for policy in policies]
    return (
        f"{builtin.size} transitions of {builtin.level} play in {TASKS[builtin.task]}, seed {builtin.seed}; "
        f"policies, with exploration noise: {'; '.join(sources) or 'uniform random'}."
    )
