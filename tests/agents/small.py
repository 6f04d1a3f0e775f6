"""Every registered agent at a size that compiles fast."""

from typing import Any

from jaxprune.agents import AGENTS, make

SETTINGS: dict[str, dict[str, Any]] = {
    "bc": {"hidden": (16, 12), "batch_size": 32},
    "bcq": {"hidden": (16, 12), "vae_hidden": (20, 14), "batch_size": 20, "evaluation_candidates": 7},
}

NAMES = sorted(AGENTS)


def small_agent(name, spec, **settings):
    return make(name, spec, **{**SETTINGS[name], **settings})
