"""Scores of single weights and of whole units."""

from jaxprune.criteria.registry import CRITERIA
from jaxprune.criteria.units import UNIT_CRITERIA

__all__ = ["CRITERIA", "UNIT_CRITERIA"]
