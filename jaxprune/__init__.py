"""Prune the networks of offline-RL agents before training."""

from jaxprune.criteria import CRITERIA
from jaxprune.objective import Objective
