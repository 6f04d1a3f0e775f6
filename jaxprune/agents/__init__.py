"""Offline-RL algorithms: losses, and the constructors that make agents of them."""

from jaxprune.agents.bc import BCConfig, bc
from jaxprune.agents.bcq import BCQConfig, bcq
from jaxprune.agents.registry import AGENTS, make

__all__ = ["AGENTS", "BCConfig", "BCQConfig", "bc", "bcq", "make"]
