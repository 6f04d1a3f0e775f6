"""The algorithms by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from jaxprune.agents.base import Agent
from jaxprune.agents.bc import BCConfig, bc
from jaxprune.agents.bcq import BCQConfig, bcq
from jaxprune.agents.discrete_bc import DiscreteBCConfig, discrete_bc
from jaxprune.agents.discrete_bcq import DiscreteBCQConfig, discrete_bcq
from jaxprune.agents.iql import IQLConfig, iql
from jaxprune.agents.td3_bc import TD3BCConfig, td3_bc
from jaxprune.data.transitions import Spec

AGENTS: dict[str, tuple[Callable[..., Agent], Any]] = {
    "bc": (bc, BCConfig),
    "bcq": (bcq, BCQConfig),
    "td3_bc": (td3_bc, TD3BCConfig),
    "iql": (iql, IQLConfig),
    "discrete_bc": (discrete_bc, DiscreteBCConfig),
    "discrete_bcq": (discrete_bcq, DiscreteBCQConfig),
}


def make(name: str, spec: Spec, **settings: Any) -> Agent:
    """The agent called `name`, with `settings` in place of its config's defaults.

    Raises:
      ValueError: an unknown algorithm, or a setting its config lacks.
    """
    if name not in AGENTS:
        raise ValueError(f"algo={name!r} is unknown; expected one of {', '.join(sorted(AGENTS))}")
    constructor, config = AGENTS[name]
    known = {field.name for field in dataclasses.fields(config)}
    if unknown := sorted(set(settings) - known):
        raise ValueError(f"{name} has no setting {unknown[0]!r}; expected one of {', '.join(sorted(known))}")
    return constructor(spec, config(**{key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}))
