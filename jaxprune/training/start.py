"""How a run begins: initialised, pruned, and compacted to its live units."""

from __future__ import annotations

import dataclasses
import logging
import time
from typing import Any

import jax

from jaxprune.agents.base import Agent, AgentState
from jaxprune.agents.compact import compact
from jaxprune.agents.small import small_dense
from jaxprune.agents.sparse import PruneInfo, chosen_networks, describe_masks, mask_agent, prune_agent
from jaxprune.criteria.curvature import resolve_curvature
from jaxprune.data.transitions import Dataset, Transitions
from jaxprune.pruning.masks import shuffle_masks
from jaxprune.training.arms import DENSE, inverted, split
from jaxprune.training.baselines import gradual, lottery_ticket
from jaxprune.training.grid import Run, SweepConfig
from jaxprune.training.loop import sample

log = logging.getLogger("jaxprune")

SECOND_ORDER = ("obd", "qm")


@dataclasses.dataclass(frozen=True)
class RunKeys:
    """The independent keys of one run, all from its seed."""

    init: jax.Array
    train: jax.Array
    prune: jax.Array

    @staticmethod
    def of(seed: int) -> RunKeys:
        """Keys by name."""
        key = jax.random.key(seed)
        return RunKeys(*(jax.random.fold_in(key, i) for i in range(3)))


@dataclasses.dataclass(frozen=True)
class Start:
    """A run ready to be trained.

    Attributes:
      run: which one.
      agent: at the widths of `state`.
      state: after pruning and compaction; its `step` is above 0 where an arm trains first.
      info: what pruning kept.
      curvature: {network: the diagonal that a loss model used}; empty for other arms.
      seconds: what it took, compilation included.
    """

    run: Run
    agent: Agent
    state: AgentState
    info: PruneInfo
    curvature: dict[str, str]
    seconds: float


def start_run(agent: Agent, run: Run, config: SweepConfig, dataset: Dataset, transitions: Transitions) -> Start:
    """Initialise one run and prune it as its arm and the config say.

    Raises:
      ValueError: as `prune_agent`.
    """
    began = time.perf_counter()
    curvature: dict[str, str] = {}
    keys = RunKeys.of(run.seed)
    name, check = split(run.criterion)
    if name == "small_dense":
        agent = small_dense(agent, run.sparsity, networks=config.networks)
    state = agent.init(keys.init, dataset.statistics)
    shared: dict[str, Any] = {"networks": config.networks, "schedule": config.schedule, "allocation": config.allocation}
    shared |= {"budget": config.budget, "floor": config.floor, "sparsity": run.sparsity}
    trained: dict[str, Any] = {"batch_size": config.batch_size or agent.config.batch_size}
    if name in (DENSE, "small_dense"):
        info = describe_masks(state.masks)
    elif name == "lottery_ticket":
        state, info = lottery_ticket(
            agent, state, transitions, keys.train, steps=config.steps, rounds=config.lottery_rounds, **shared, **trained
        )
    elif name == "gradual":
        last = _gradual_end(config)
        cubic = {**shared, "schedule": "cubic"}
        state, info = gradual(agent, state, transitions, keys.train, steps=last, end=last, **cubic, **trained)
    else:
        curvature = curvature_of(agent, name, config)
        state, info = _prune(agent, state, config, transitions, keys, name, check, shared)
        if check == "shuffled":
            shuffling = jax.random.fold_in(keys.prune, 2)
            masks = {net: shuffle_masks(jax.random.fold_in(shuffling, i), state.masks[net]) for i, net in enumerate(agent.order)}
            state = mask_agent(agent, agent.init(keys.init, dataset.statistics), masks)
        elif check == "reinit":
            state = mask_agent(agent, agent.init(jax.random.fold_in(keys.init, 1), dataset.statistics), state.masks)
    if config.compact and name not in (DENSE, "small_dense"):
        agent, state = compact(agent, state)
    jax.block_until_ready(state.params)
    if run.seed == config.seeds[0]:
        log.info("%s %s %g: %s", run.algo, run.criterion, run.sparsity, info)
    for layer in info.empty:
        log.warning("%s: %s keeps no weight: nothing passes this layer; use a lower sparsity or floor=1", run.id, layer)
    return Start(run, agent, state, info, curvature, time.perf_counter() - began)


def curvature_of(agent: Agent, criterion: str, config: SweepConfig) -> dict[str, str]:
    """{network: the curvature that a second-order criterion will use}; empty for other criteria.

    Raises:
      ValueError: an unknown network, or "ggn" for a loss that is not convex.
    """
    if criterion not in SECOND_ORDER:
        return {}
    return {name: resolve_curvature(agent.networks[name].objective, config.curvature) for name in chosen_networks(agent, config.networks)}


def _prune(agent, state, config, transitions, keys, name, check, shared) -> tuple[AgentState, PruneInfo]:
    def fresh(i: int) -> Transitions:
        return sample(transitions, jax.random.fold_in(jax.random.fold_in(keys.prune, 0), i), config.prune_rows)

    units = config.structure == "units"
    options: dict[str, Any] = {"lambda_": config.lambda_} if name in ("lm", *SECOND_ORDER) else {}
    if name in SECOND_ORDER:
        options["curvature"] = config.curvature
    return prune_agent(
        agent,
        state,
        fresh,
        jax.random.fold_in(keys.prune, 1),
        criterion=inverted(name) if check == "inverted" else "snip" if units else name,
        rounds=config.rounds,
        structure=config.structure,
        unit_criterion=name if units else config.unit_criterion,
        target=config.target,
        inner_density=config.inner_density,
        **shared,
        **options,
    )


def _gradual_end(config: SweepConfig) -> int:
    """The update at which gradual pruning ends: three quarters of the way, on the grid of evaluations, so that the rest is evaluated."""
    return max(1, int(0.75 * config.steps) // config.eval_every * config.eval_every or config.steps // 2)
