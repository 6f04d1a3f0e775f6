"""Scores of single weights and of whole units."""

from jaxprune.criteria.registry import CRITERIA

__all__ = ["CRITERIA"]
