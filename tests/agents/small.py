"""Every registered agent at a size that compiles fast, and logs for it."""

from typing import Any

import numpy as np

from jaxprune.agents import AGENTS, make
from jaxprune.data.transitions import Spec
from tests.conftest import make_transitions

SETTINGS: dict[str, dict[str, Any]] = {
    "bc": {"hidden": (16, 12), "batch_size": 32},
    "bcq": {"hidden": (16, 12), "vae_hidden": (20, 14), "batch_size": 20, "evaluation_candidates": 7},
    "td3_bc": {"hidden": (16, 12), "batch_size": 20},
    "iql": {"hidden": (16, 12), "batch_size": 20, "max_steps": 1000},
    "discrete_bc": {"hidden": (16, 12), "batch_size": 32},
    "discrete_bcq": {"hidden": (16, 12), "batch_size": 20},
}

NAMES = sorted(AGENTS)
DISCRETE = frozenset(name for name in NAMES if name.startswith("discrete_"))
ACTIONS = 3


def small_agent(name, spec, **settings):
    return make(name, spec, **{**SETTINGS[name], **settings})


def small_spec(name):
    """Four observation features; two action features, or three actions."""
    return Spec(4, ACTIONS, (), (), discrete=True) if name in DISCRETE else Spec(4, 2, [-1, -1], [1, 1])


def small_log(name, rows=600, **kwargs):
    """`make_transitions`, with the first action feature cut into three for the discrete algorithms."""
    transitions = make_transitions(rows, **kwargs)
    if name not in DISCRETE:
        return transitions
    return transitions.replace(actions=np.digitize(transitions.actions[:, 0], [-0.3, 0.5]).astype(np.int32))
