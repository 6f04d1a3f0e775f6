"""Scores to masks to smaller arrays."""
