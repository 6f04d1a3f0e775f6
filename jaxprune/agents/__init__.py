"""Offline-RL algorithms: losses, and the constructors that make agents of them."""

from jaxprune.agents.bc import BCConfig, bc
from jaxprune.agents.bcq import BCQConfig, bcq
from jaxprune.agents.discrete_bc import DiscreteBCConfig, discrete_bc
from jaxprune.agents.discrete_bcq import DiscreteBCQConfig, discrete_bcq
from jaxprune.agents.iql import IQLConfig, iql
from jaxprune.agents.registry import AGENTS, make
from jaxprune.agents.td3_bc import TD3BCConfig, td3_bc

__all__ = [
    "AGENTS",
    "BCConfig",
    "BCQConfig",
    "DiscreteBCConfig",
    "DiscreteBCQConfig",
    "IQLConfig",
    "TD3BCConfig",
    "bc",
    "bcq",
    "discrete_bc",
    "discrete_bcq",
    "iql",
    "make",
    "td3_bc",
]
