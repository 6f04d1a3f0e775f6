"""Small logs whose rows name themselves, for tests.

Step t of episode e observes (e, t), acts (e / 100, t / 100) and earns e + t / 16; so every row can be told from every other.
"""

import dataclasses
from typing import Any

import numpy as np

TERMINAL, TIMEOUT, BOTH, OPEN = "terminal", "timeout", "both", "open"


@dataclasses.dataclass
class Step:
    episode: int
    step: int
    last: bool
    ending: str


def steps_of(episodes: list[tuple[int, str]]) -> list[Step]:
    """(length, ending) of each episode -> its steps."""
    return [Step(e, t, t == length - 1, ending) for e, (length, ending) in enumerate(episodes) for t in range(length)]


def columns_of(episodes: list[tuple[int, str]]) -> dict[str, Any]:
    """The log as six float64 or bool arrays."""
    steps = steps_of(episodes)
    e, t = np.asarray([s.episode for s in steps], float), np.asarray([s.step for s in steps], float)
    return {
        "observations": np.stack([e, t], 1),
        "actions": np.stack([e / 100, t / 100], 1),
        "rewards": e + t / 16,
        "next_observations": np.stack([e, t + 1], 1),
        "terminals": np.asarray([s.last and s.ending in (TERMINAL, BOTH) for s in steps]),
        "timeouts": np.asarray([s.last and s.ending in (TIMEOUT, BOTH) for s in steps]),
    }
