"""Sentences on what is legal in a log and yet should be known before training on it."""

from __future__ import annotations

import numpy as np

from jaxprune.data.columns import SMALLEST_DEVIATION, Columns
from jaxprune.data.transitions import Spec

_IMPLAUSIBLE = 1e6
_OUTLIER = 100.0
_CONSTANT = {
    "observations": "carry nothing to learn from; their standard deviation is taken as 1",
    "actions": "never vary, so the data cannot tell what they do",
    "rewards": "never vary, so no action can be told from another by its value",
}


def outside_bounds(actions: np.ndarray, outside: np.ndarray, spec: Spec, clip: bool) -> str:
    """On actions [N, A] of which `outside` [A] lie beyond the bounds; they are not clipped yet, and will be if `clip`."""
    column = int(outside.argmax())
    seen, bounds = (actions[:, column].min(), actions[:, column].max()), (spec.low[column], spec.high[column])
    kept = "kept as they are, though an environment would clip them; clip_actions=True (--clip_actions) clips them"
    remedy = "they were clipped" if clip else kept
    return (
        f"actions: {outside.sum():,} of {actions.size:,} values lie outside the bounds, most in column {column} "
        f"({_range(*seen)}, bounds {bounds[0]:.4g} and {bounds[1]:.4g}); {remedy}"
    )


def constant_columns(constant: dict[str, tuple[int, ...]], summaries: dict[str, Columns]) -> list[str]:
    """On columns that never change, by key."""
    warnings = []
    for key, columns in constant.items():
        values = [f"{column} (always {summaries[key].low[column]:.4g})" for column in columns[:5]] + ["…"] * (len(columns) > 5)
        warnings.append(f"{key}: constant columns {', '.join(values)} {_CONSTANT[key]}")
    return warnings


def still_columns(columns: Columns) -> list[str]:
    """On observations that vary by next to nothing."""
    found = np.flatnonzero(columns.still)
    if not len(found):
        return []
    told = [f"{column} ({columns.std[column]:.1g})" for column in found[:5]] + ["…"] * (len(found) > 5)
    return [
        f"observations: columns {', '.join(told)} have standard deviations below {SMALLEST_DEVIATION:g}, and are divided by that; "
        "rescale them if they are in large units"
    ]


def magnitudes(key: str, columns: Columns) -> list[str]:
    """On values that are too large to be true, or far from all others in their column."""
    largest = np.maximum(np.abs(columns.low), np.abs(columns.high))
    if (largest > _IMPLAUSIBLE).any():
        column = int(largest.argmax())
        return [f"{key}: values up to {largest[column]:.3g} in column {column} look implausible; check units and corrupted rows"]
    if key not in ("observations", "rewards"):
        return []
    deviation = np.maximum(columns.high - columns.mean, columns.mean - columns.low) / np.where(columns.constant, np.inf, columns.std)
    column = int(deviation.argmax())
    if deviation[column] <= _OUTLIER:
        return []
    return [
        f"{key}: column {column} has a value {deviation[column]:.0f} standard deviations from its mean "
        f"({_range(columns.low[column], columns.high[column])}); one such row can decide a mask, so check for corrupted rows"
    ]


def _range(low: float, high: float) -> str:
    return f"from {low:.4g} to {high:.4g}"
