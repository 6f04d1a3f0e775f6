"""Prune the networks of offline-RL agents before training, and train the sparse agents fast.

`jaxprune.prune` works on any JAX model; `jaxprune.agents`, `jaxprune.train` and `jaxprune.sweep` are the offline-RL part.
"""

from jaxprune import agents, data, export
from jaxprune.agents.base import Agent, AgentState, Policy
from jaxprune.agents.compact import compact, compact_runs, expand
from jaxprune.agents.small import small_dense
from jaxprune.agents.sparse import AgentRanking, PruneInfo, prune_agent, rank_agent
from jaxprune.criteria import CRITERIA, UNIT_CRITERIA
from jaxprune.criteria.obs import obs_prune
from jaxprune.data.transitions import Spec
from jaxprune.export.loaded import load_policy
from jaxprune.objective import Objective
from jaxprune.parameters import UnitGroup, is_kernel
from jaxprune.pruning.compaction import compact_tree
from jaxprune.pruning.inspection import effective_density, jaccard
from jaxprune.pruning.masks import apply_masks, density, invert_scores, kept_count, select, shuffle_masks
from jaxprune.pruning.prune import prune
from jaxprune.pruning.prune_units import prune_units
from jaxprune.training.baselines import gradual, lottery_ticket
from jaxprune.training.checkpoint import save_run
from jaxprune.training.evaluation import evaluate
from jaxprune.training.finding import best, load_run
from jaxprune.training.grid import SweepConfig
from jaxprune.training.loop import train
from jaxprune.training.sweep import sweep

__version__ = "0.1.0"

__all__ = [
    "CRITERIA",
    "UNIT_CRITERIA",
    "Agent",
    "AgentRanking",
    "AgentState",
    "Objective",
    "Policy",
    "PruneInfo",
    "Spec",
    "SweepConfig",
    "UnitGroup",
    "agents",
    "apply_masks",
    "best",
    "compact",
    "compact_runs",
    "compact_tree",
    "data",
    "density",
    "effective_density",
    "evaluate",
    "expand",
    "export",
    "gradual",
    "invert_scores",
    "is_kernel",
    "jaccard",
    "kept_count",
    "load_policy",
    "load_run",
    "lottery_ticket",
    "obs_prune",
    "prune",
    "prune_agent",
    "prune_units",
    "rank_agent",
    "save_run",
    "select",
    "shuffle_masks",
    "small_dense",
    "sweep",
    "train",
]
