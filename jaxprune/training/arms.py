"""The arms of a comparison: criteria, their sanity checks, and the baselines that a pruned agent has to beat."""

from __future__ import annotations

import functools
from typing import Any

from jaxprune.criteria.registry import CRITERIA, find_criterion
from jaxprune.criteria.units import UNIT_CRITERIA
from jaxprune.pruning.masks import invert_scores

DENSE = "dense"
# Frankle et al. 2021: the same counts at random places; the same masks with fresh weights; what the criterion would remove first is kept.
CHECKS = ("shuffled", "reinit", "inverted")
BASELINES = ("small_dense", "lottery_ticket", "gradual")


def split(arm: str) -> tuple[str, str | None]:
    """(criterion or baseline, sanity check or None): `snip_shuffled` is SNIP with its masks shuffled."""
    name, _, check = arm.rpartition("_")
    return (name, check) if check in CHECKS and name in CRITERIA else (arm, None)


def check_arm(arm: str, *, structure: str = "weights") -> None:
    """Refuse what is no arm; with whole units, the arms are the unit criteria and the small dense network.

    Raises:
      ValueError: lists what there is.
    """
    if structure == "units":
        if arm not in UNIT_CRITERIA and arm != "small_dense":
            raise ValueError(f"criteria: {arm!r} does not rank units; with structure=units expected one of {', '.join(UNIT_CRITERIA)}")
        return
    name, _ = split(arm)
    if name not in CRITERIA and name not in BASELINES:
        raise ValueError(
            f"criteria: {arm!r} is unknown; expected one of {', '.join(sorted(CRITERIA))}, each also with _{', _'.join(CHECKS)}; or "
            f"{', '.join(BASELINES)}" + (" (it ranks units: add --structure=units)" if arm in UNIT_CRITERIA else "")
        )


def with_checks(criteria: tuple[str, ...]) -> tuple[str, ...]:
    """The criteria, each followed by its sanity checks; a random criterion needs none."""
    arms = [arm for name in criteria for arm in (name, *(f"{name}_{check}" for check in CHECKS if name in CRITERIA and name != "random"))]
    return tuple(dict.fromkeys(arms))


@functools.cache
def inverted(name: str) -> Any:
    """The criterion that keeps what `name` would remove; one function object a name, so that it compiles once."""
    criterion = find_criterion(name)

    @functools.wraps(criterion)
    def scores(*args: Any, **keywords: Any) -> Any:
        return invert_scores(criterion(*args, **keywords))

    return scores
