"""Logs of transitions: where they come from, what is wrong with them, and the one shape that training sees."""

from jaxprune.data.arrays import from_arrays, from_episodes
from jaxprune.data.loading import load
from jaxprune.data.reference import normalized_score, reference_returns
from jaxprune.data.report import LoadReport
from jaxprune.data.transitions import Dataset, Spec, Statistics, Transitions
from jaxprune.errors import DataError

__all__ = [
    "DataError",
    "Dataset",
    "LoadReport",
    "Spec",
    "Statistics",
    "Transitions",
    "from_arrays",
    "from_episodes",
    "load",
    "normalized_score",
    "reference_returns",
]
