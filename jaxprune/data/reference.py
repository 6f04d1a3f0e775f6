"""D4RL's reference returns: the mean return of a random and of an expert policy, which make a normalised score 0 and 100."""

from __future__ import annotations

import re

import numpy as np

REFERENCE_RETURNS: dict[str, tuple[float, float]] = {
    "hopper": (-20.272305, 3234.3),
    "halfcheetah": (-280.178953, 12135.0),
    "walker2d": (1.629008, 4592.3),
    "ant": (-325.6, 3879.7),
}

_FAMILY = re.compile(
    r"(?:.*/)?(hopper|halfcheetah|walker2d|ant)(?:-(?:random|medium|expert|medium-replay|medium-expert|full-replay))?-v\d+", re.IGNORECASE
)


def reference_returns(env_id: str | None) -> tuple[float, float] | None:
    """(random, expert) returns of an environment's family, whatever its version (``Hopper-v4``, ``Hopper-v5``); None if unknown."""
    match = _FAMILY.fullmatch(env_id or "")
    return REFERENCE_RETURNS[match[1].lower()] if match else None


def normalized_score(reference: str | tuple[float, float] | None, returns) -> np.ndarray | None:
    """Returns on the scale where a random policy scores 0 and D4RL's expert 100.

    Args:
      reference: an environment id, or (random, expert) returns as in `Dataset.reference`.
      returns: undiscounted episode returns, any shape.

    Returns:
      Scores of the shape of `returns`, or None where the reference is not known.

    Examples:
      >>> import jaxprune as jp
      >>> jp.data.normalized_score((100.0, 300.0), [100.0, 200.0, 300.0]).tolist()
      [0.0, 50.0, 100.0]
    """
    if isinstance(reference, str):
        reference = reference_returns(reference)
    if reference is None:
        return None
    low, high = reference
    return 100.0 * (np.asarray(returns, np.float64) - low) / (high - low)
