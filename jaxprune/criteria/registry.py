"""The criteria by name. A new one is a function and a line here; the contract test then covers it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol

import jax

from jaxprune.criteria.gradient_flow import crop, grasp
from jaxprune.criteria.loss_models import lm, obd, qm
from jaxprune.criteria.magnitude import magnitude
from jaxprune.criteria.random import random
from jaxprune.criteria.snip import force, snip
from jaxprune.criteria.synflow import synflow
from jaxprune.criteria.units import UNIT_CRITERIA

__all__ = [
    "CRITERIA",
    "REVIVING",
    "UNIT_CRITERIA",
    "Criterion",
    "find_criterion",
    "registered_name",
    "revives",
    "takes_prunable",
    "traced_options",
]


class Criterion(Protocol):
    """Scores of every weight; larger means keep."""

    def __call__(self, objective: Any, params: Any, rows: Any, key: jax.Array | None = None, *, masks: Any = None) -> Any:
        """Scores with the structure of `params`.

        Args:
          objective: an `Objective`, or for first-order criteria any callable (params, rows) -> scalar.
          params: parameters of one network.
          rows: what the objective reads, with a leading row axis.
          key: for criteria that draw.
          masks: where given, the network scored is the masked one.

        More keywords are the criterion's own options; `prunable` is passed where it is one of them.
        """
        ...


CRITERIA: dict[str, Callable[..., Any]] = {
    "random": random,
    "magnitude": magnitude,
    "snip": snip,
    "grasp": grasp,
    "crop": crop,
    "synflow": synflow,
    "force": force,
    "lm": lm,
    "obd": obd,
    "qm": qm,
}

# Criteria that score removed weights too, so that they may come back: they are given dense parameters, and their masks are not nested.
REVIVING = frozenset({"force"})


# Their options that are numbers in a formula, so that the values may be traced.
_TRACED_OPTIONS = {lm: frozenset({"lambda_"}), obd: frozenset({"lambda_"}), qm: frozenset({"lambda_"})}


def find_criterion(name: str) -> Callable[..., Any]:
    """The criterion called `name`, or a ValueError that lists those there are."""
    if name not in CRITERIA:
        raise ValueError(f"criterion={name!r} is unknown; expected one of {', '.join(sorted(CRITERIA))}")
    return CRITERIA[name]


def registered_name(criterion: Any) -> Any:
    """The name of a registered criterion given as a function, so that both forms mean the same; anything else as it is."""
    return next((name for name, function in CRITERIA.items() if function is criterion), criterion)


def revives(criterion: Any) -> bool:
    """Whether a criterion, by name, as a function, or wrapped by `functools.wraps`, is one of `REVIVING`."""
    return registered_name(criterion if isinstance(criterion, str) else inspect.unwrap(criterion)) in REVIVING


def takes_prunable(criterion: Callable[..., Any]) -> bool:
    """Whether the criterion wants to know which leaves are prunable."""
    return "prunable" in inspect.signature(criterion).parameters


def traced_options(criterion: Any) -> frozenset[str]:
    """Names of the options that may be traced: of registered criteria, given by name, as functions, or wrapped by `functools.wraps`."""
    function = find_criterion(criterion) if isinstance(criterion, str) else inspect.unwrap(criterion)
    return _TRACED_OPTIONS.get(function, frozenset())
