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
from jaxprune.agents.sparse import AgentRanking, PruneInfo, chosen_networks, describe_masks, mask_agent, prune_agent, rank_agent
from jaxprune.criteria.curvature import resolve_curvature
from jaxprune.data.transitions import Dataset, Statistics, Transitions
from jaxprune.pruning.masks import shuffle_masks
from jaxprune.training.arms import BASELINES, DENSE, inverted, split
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
class Origin:
    """Where a run comes from: what there is to tell about it beside its state.

    Attributes:
      run: which one.
      info: what pruning kept.
      end: the update at which it ends.
      curvature: {network: the diagonal that a loss model used}; empty for other arms.
      start_s: seconds that starting it took, compilation included and dense training left out.
      dense_s: seconds of its dense training before it was pruned; alone it would take as long.
      pruned_at: {network: updates made when it was pruned}, where that was not before the first.
      checks: of the detector of early pruning.
      earlier: rows for the records, of evaluations before it was pruned.
    """

    run: Run
    info: PruneInfo
    end: int
    curvature: dict[str, str] = dataclasses.field(default_factory=dict)
    start_s: float = 0.0
    dense_s: float = 0.0
    pruned_at: dict[str, int] = dataclasses.field(default_factory=dict)
    checks: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    earlier: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(values: dict[str, Any]) -> Origin:
        """What `to_json` gave."""
        info = values["info"]
        kept = PruneInfo(info["kept"], info["total"], _pairs(info["layers"]), _pairs(info["units"]))
        return Origin(**{**values, "run": Run(**values["run"]), "info": kept})


def _pairs(counts: dict[str, Any]) -> dict[str, tuple[int, int]]:
    return {name: (kept, total) for name, (kept, total) in counts.items()}


@dataclasses.dataclass(frozen=True)
class Start:
    """A run ready to be trained.

    Attributes:
      origin: where it comes from.
      agent: at the widths of `state`.
      state: after pruning and compaction; its `step` is above 0 where the run trained before.
    """

    origin: Origin
    agent: Agent
    state: AgentState

    @property
    def run(self) -> Run:
        """Which one."""
        return self.origin.run


class Rankings(dict[Any, AgentRanking]):
    """One ranking for each arm and seed of an algorithm: all sparsities of a criterion come from it."""


def is_pruned_later(run: Run, config: SweepConfig) -> bool:
    """Whether a run trains densely before it is pruned by a criterion."""
    return config.when not in ("init", "step:0") and split(run.criterion)[0] not in (DENSE, *BASELINES)


def start_run(
    agent: Agent, run: Run, config: SweepConfig, dataset: Dataset, transitions: Transitions, rankings: Rankings | None = None
) -> Start:
    """Initialise one run and prune it as its arm and the config say.

    Args:
      agent: dense.
      run: which one.
      config: the sweep's.
      dataset: of the sweep.
      transitions: the same, on the device.
      rankings: of the agent's algorithm; what is missing is added.

    Raises:
      ValueError: as `prune_agent`.
    """
    began = time.perf_counter()
    curvature: dict[str, str] = {}
    keys = RunKeys.of(run.seed)
    name, _ = split(run.criterion)
    if name == "small_dense":
        agent = small_dense(agent, run.sparsity, networks=config.networks)
    # A criterion needs no optimizer state: that of what it keeps is made below, at its size.
    prunes = name not in (DENSE, *BASELINES)
    state = agent.init(keys.init, dataset.statistics, optimizers=not prunes)
    trained: dict[str, Any] = {"batch_size": config.batch_size or agent.config.batch_size, **_budgets(run, config)}
    if name in (DENSE, "small_dense"):
        info = describe_masks(state.masks)
    elif name == "lottery_ticket":
        state, info = lottery_ticket(agent, state, transitions, keys.train, steps=config.steps, rounds=config.lottery_rounds, **trained)
    elif name == "gradual":
        last = _gradual_end(config)
        state, info = gradual(agent, state, transitions, keys.train, steps=last, end=last, **{**trained, "schedule": "cubic"})
    else:
        curvature = curvature_of(agent, name, config)
        state, info = prune_run(agent, state, run, config, transitions, dataset.statistics, rankings=rankings)
    if config.compact and name not in (DENSE, "small_dense"):
        agent, state = compact(agent, state)
    if prunes:
        state = agent.restart_optimizers(state)
    jax.block_until_ready(state.params)
    tell(run, info, config)
    return Start(Origin(run, info, config.steps, curvature, start_s=time.perf_counter() - began), agent, state)


def prune_run(
    agent: Agent,
    state: AgentState,
    run: Run,
    config: SweepConfig,
    transitions: Transitions,
    statistics: Statistics,
    *,
    networks: Any = None,
    rankings: Rankings | None = None,
) -> tuple[AgentState, PruneInfo]:
    """Prune the state of a run by its arm's criterion, sanity checks included; the same whenever in training that happens.

    Args:
      agent: of the state.
      state: before pruning.
      run: which one.
      config: the sweep's.
      transitions: raw, on the device.
      statistics: of the data, for weights drawn anew.
      networks: which ones; those of the config by default.
      rankings: of this very state at other sparsities; what is missing is added.

    Raises:
      ValueError: as `prune_agent`.
    """
    keys = RunKeys.of(run.seed)
    name, check = split(run.criterion)

    def fresh(i: int) -> Transitions:
        return sample(transitions, jax.random.fold_in(jax.random.fold_in(keys.prune, 0), i), config.prune_rows)

    units = config.structure == "units"
    options: dict[str, Any] = {"lambda_": config.lambda_} if name in ("lm", *SECOND_ORDER) else {}
    if name in SECOND_ORDER:
        options["curvature"] = config.curvature
    criterion = inverted(name) if check == "inverted" else name
    shared = {**_budgets(run, config), "networks": config.networks if networks is None else networks}
    key = jax.random.fold_in(keys.prune, 1)
    if config.rounds == 1 and config.structure == "weights":
        rankings, one_shot = Rankings() if rankings is None else rankings, {**shared}
        del one_shot["sparsity"], one_shot["schedule"]
        place = (name, check == "inverted", run.seed)
        if place not in rankings:
            rankings[place] = rank_agent(agent, state, fresh, key, criterion=criterion, **one_shot, **options)
        pruned, info = rankings[place].prune(run.sparsity)
    else:
        pruned, info = prune_agent(
            agent,
            state,
            fresh,
            key,
            criterion="snip" if units else criterion,
            rounds=config.rounds,
            structure=config.structure,
            unit_criterion=name if units else config.unit_criterion,
            target=config.target,
            inner_density=config.inner_density,
            **shared,
            **options,
        )
    # Only what was pruned now: another network may have been pruned, compacted and trained before.
    own = chosen_networks(agent, shared["networks"])
    if check == "shuffled":
        shuffling = jax.random.fold_in(keys.prune, 2)
        masks = {
            net: shuffle_masks(jax.random.fold_in(shuffling, i), pruned.masks[net], members=bool(agent.networks[net].members))
            for i, net in enumerate(agent.order)
            if net in own
        }
        pruned = mask_agent(agent, state, masks)
    elif check == "reinit":
        anew = agent.init(jax.random.fold_in(keys.init, 1), statistics, optimizers=bool(state.opt_state))
        fields = {field: dict(getattr(state, field)) for field in ("params", "targets", "opt_state")}
        for field, trees in fields.items():
            trees.update({net: tree for net, tree in getattr(anew, field).items() if net in own})
        pruned = mask_agent(agent, dataclasses.replace(state, **fields), {net: pruned.masks[net] for net in own})
    return pruned, info


def tell(run: Run, info: PruneInfo, config: SweepConfig) -> None:
    """Log what pruning kept, and warn of layers that keep nothing."""
    if run.seed == config.seeds[0]:
        log.info("%s %s %g: %s", run.algo, run.criterion, run.sparsity, info)
    for layer in info.empty:
        log.warning("%s: %s keeps no weight: nothing passes this layer; use a lower sparsity or floor=1", run.id, layer)


def curvature_of(agent: Agent, criterion: str, config: SweepConfig) -> dict[str, str]:
    """{network: the curvature that a second-order criterion will use}; empty for other criteria.

    Raises:
      ValueError: an unknown network, or "ggn" for a loss that is not convex.
    """
    if criterion not in SECOND_ORDER:
        return {}
    return {name: resolve_curvature(agent.networks[name].objective, config.curvature) for name in chosen_networks(agent, config.networks)}


def _budgets(run: Run, config: SweepConfig) -> dict[str, Any]:
    return {
        "sparsity": run.sparsity,
        "networks": config.networks,
        "schedule": config.schedule,
        "allocation": config.allocation,
        "budget": config.budget,
        "floor": config.floor,
    }


def _gradual_end(config: SweepConfig) -> int:
    """The update at which gradual pruning ends: three quarters of the way, on the grid of evaluations, so that the rest is evaluated."""
    return max(1, int(0.75 * config.steps) // config.eval_every * config.eval_every or config.steps // 2)
