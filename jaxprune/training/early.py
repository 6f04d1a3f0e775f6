"""Runs that are pruned before, early in, or at a given step of their training, and go on in smaller arrays."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxprune.agents.base import Agent, AgentState
from jaxprune.agents.compact import compact as compacted
from jaxprune.agents.scoring import chosen_networks
from jaxprune.agents.sparse import PruneInfo, describe_masks, merged, prune_agent
from jaxprune.data.transitions import Transitions
from jaxprune.pruning.early import REFERENCES, THRESHOLDS, Detector, check, watch
from jaxprune.training.loop import train

TOTALS = ("same", "full-after")
SCOPES = ("together", "network")


@dataclasses.dataclass(frozen=True)
class When:
    """When a run is pruned, and how many updates follow.

    Attributes:
      when: `init`, `early` or `step:N`.
      check_every: updates between two checks of `early`.
      threshold, reference: of the `Detector`.
      cap: updates after which `early` prunes in any case; half of the run's steps by default.
      scope: `together`, one detector over the kernels of all pruned networks; `network`, one each, and each is pruned when its own fires.
      total: `same`, the run's steps in all; `full-after`, as many after pruning.
      restart_optimizer: whether pruned networks start with a fresh optimizer state, in place of the cut one.

    Raises:
      ValueError: an unknown name.
    """

    when: str = "early"
    check_every: int = 1000
    threshold: str = "code"
    reference: str = "first"
    cap: int | None = None
    scope: str = "together"
    total: str = "same"
    restart_optimizer: bool = False

    def __post_init__(self):
        parse_when(self.when)
        for name, known in (("threshold", THRESHOLDS), ("reference", REFERENCES), ("scope", SCOPES), ("total", TOTALS)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name}={getattr(self, name)!r} is unknown; expected one of {', '.join(known)}")
        if self.check_every < 1:
            raise ValueError(f"expected check_every of at least one update, got {self.check_every}")

    def latest(self, steps: int) -> int:
        """Updates after which a run of `steps` is pruned whatever a detector says.

        Raises:
          ValueError: that is beyond the run.
        """
        at = parse_when(self.when)
        last = at if at is not None else (max(1, steps // 2) if self.cap is None else self.cap)
        if last > steps and self.total == "same":
            raise ValueError(f"pruning after {last} updates is beyond the {steps} of the run; use fewer, or total=full-after")
        return last

    def detector(self, sparsity: float, structure: str, steps: int) -> Detector | None:
        """The rule of `early` for a run; None where the step is given.

        Raises:
          ValueError: a threshold that can never fire.
        """
        if parse_when(self.when) is not None:
            return None
        return Detector(sparsity, structure, self.threshold, self.reference, self.latest(steps))

    def end(self, pruned_at: int, steps: int) -> int:
        """The update at which a run of `steps` that was pruned at one ends."""
        return pruned_at + steps if self.total == "full-after" else steps


def parse_when(when: str) -> int | None:
    """The step at which to prune: 0 for `init`, N for `step:N`, None for `early`.

    Raises:
      ValueError: anything else.
    """
    if when in ("init", "early"):
        return 0 if when == "init" else None
    kind, _, number = when.partition(":")
    if kind != "step" or not number.isdecimal():
        raise ValueError(f"when={when!r} is unknown; expected init, early or step:N, for example step:5000")
    return int(number)


@functools.partial(jax.jit, static_argnames=("detector",))
def _check(detector, state, params, step):
    return check(detector, state, params, step)


class Waiting:
    """A run that is yet to be pruned, wholly or in part.

    Args:
      rule: when.
      state: before the first update.
      names: networks to prune.
      sparsity, structure: of the pruning to come.
      steps: updates of the run.
      prune: (agent, state, networks) -> (state, what was kept).
      compact: whether to cut the arrays at once.

    Attributes:
      pending: the networks that wait, in groups that are pruned together.
      pruned_at: {network: updates made when it was pruned}.
      checks: one row a check: step, networks, movement, change, bound, fired.
      kept: {networks pruned together: what was left of them}.
    """

    def __init__(
        self,
        rule: When,
        state: AgentState,
        names: tuple[str, ...],
        *,
        sparsity: float,
        structure: str,
        steps: int,
        prune: Callable[[Agent, AgentState, tuple[str, ...]], tuple[AgentState, PruneInfo]],
        compact: bool = True,
    ):
        self.rule, self.prune, self.compact = rule, prune, compact
        self.last = rule.latest(steps)
        self.detector = rule.detector(sparsity, structure, steps)
        self.pending: list[tuple[str, ...]] = [names] if rule.scope == "together" else [(name,) for name in names]
        self.pruned_at: dict[str, int] = {}
        self.checks: list[dict[str, Any]] = []
        self.kept: dict[tuple[str, ...], PruneInfo] = {}
        # The reference is a copy: training donates the state it is of.
        started = {own: watch({name: state.params[name] for name in own}) for own in self.pending if self.detector is not None}
        self._watched = jax.tree.map(jnp.copy, started)

    def next_look(self, done: int) -> int:
        """The update after which it has to be looked at next, `done` being made."""
        return self.last if self.detector is None else min(done - done % self.rule.check_every + self.rule.check_every, self.last)

    def look(self, agent: Agent, state: AgentState, done: int) -> tuple[Agent, AgentState]:
        """Check, and prune what is due; the agent and the state to go on with, those given where nothing is due."""
        fired = [own for own in self.pending if self._due(own, state, done)]
        for own in fired:
            state, self.kept[own] = self.prune(agent, state, own)
            self.pruned_at.update(dict.fromkeys(own, done))
            if self.rule.restart_optimizer:
                state = agent.restart_optimizers(state, own)
            self._watched.pop(own, None)
            self.pending.remove(own)
        return compacted(agent, state) if fired and self.compact else (agent, state)

    def info(self, state: AgentState) -> PruneInfo:
        """What is left of its networks: of pruned ones as it was told then, of their original weights; of those that wait, now."""
        waiting = {name: state.masks[name] for own in self.pending for name in own}
        return merged([*self.kept.values(), describe_masks(waiting)])

    def _due(self, own: tuple[str, ...], state: AgentState, done: int) -> bool:
        if self.detector is None:
            return done >= self.last
        watched, due = _check(self.detector, self._watched[own], {name: state.params[name] for name in own}, done)
        self._watched[own] = watched
        values = {field: float(getattr(watched, field)) for field in ("movement", "change", "bound")}
        self.checks.append({"step": done, "networks": own, **values, "fired": bool(due)})
        return bool(due)


@dataclasses.dataclass(frozen=True)
class EarlyReport:
    """How a run was pruned.

    Attributes:
      pruned_at: {network: updates made when it was pruned}.
      checks: one row a check: step, networks, movement, change, bound, fired.
      kept: {networks pruned together: what was left of them}.
      widths: {"network/group": width} of the arrays trained on at the end, where it is not the original.
      metrics: means over the updates after the last pruning.
    """

    pruned_at: dict[str, int]
    checks: list[dict[str, Any]]
    kept: dict[tuple[str, ...], PruneInfo]
    widths: dict[str, int]
    metrics: dict[str, Any]


def train_early(
    agent: Agent,
    state: AgentState,
    transitions: Transitions,
    *,
    steps: int,
    key: jax.Array,
    prune_rows: Transitions | Callable[[int], Transitions],
    prune_key: jax.Array,
    sparsity: float = 0.95,
    when: str = "early",
    check_every: int = 1000,
    threshold: str = "code",
    reference: str = "first",
    cap: int | None = None,
    scope: str = "together",
    total: str = "same",
    restart_optimizer: bool = False,
    compact: bool = True,
    batch_size: int | None = None,
    networks: Any = None,
    structure: str = "weights",
    **pruning: Any,
) -> tuple[Agent, AgentState, EarlyReport]:
    """Train, prune when the detector fires or at a given step, compact, and train on. Nothing is rewound.

    Args:
      agent: the algorithm.
      state: dense; it stays usable.
      transitions: raw transitions.
      steps: number of updates.
      key: of the run; update t draws from fold_in(key, t), pruned or not.
      prune_rows: raw transitions to score on, or a function round -> transitions.
      prune_key: for scoring.
      sparsity: as in `prune_agent`.
      when: as in `When`, like the seven that follow.
      check_every: updates between two checks.
      threshold: of the `Detector`.
      reference: of the `Detector`.
      cap: updates after which `early` prunes in any case.
      scope: `together` or `network`.
      total: `same` or `full-after`.
      restart_optimizer: whether pruned networks start with a fresh optimizer state.
      compact: whether training goes on in smaller arrays.
      batch_size: rows an update; the config's by default.
      networks: which ones to prune; all by default.
      structure: as in `prune_agent`.
      **pruning: more of `prune_agent`'s arguments.

    Returns:
      The agent and the state, compacted (`jaxprune.expand` gives full size), and a report.

    Raises:
      ValueError: an unknown name, a step beyond the budget, or a threshold that can never fire.
    """

    def prune(agent, state, own):
        return prune_agent(agent, state, prune_rows, prune_key, sparsity=sparsity, networks=own, structure=structure, **pruning)

    rule = When(when, check_every, threshold, reference, cap, scope, total, restart_optimizer)
    names = chosen_networks(agent, networks)
    run = Waiting(rule, state, names, sparsity=sparsity, structure=structure, steps=steps, prune=prune, compact=compact)
    go_on = functools.partial(train, transitions=transitions, key=key, batch_size=batch_size, compact=False)
    done = 0
    while run.pending:
        now = run.next_look(done)
        if now > done:
            state, _ = go_on(agent, state, steps=now - done)
        done = now
        agent, state = run.look(agent, state, done)
    state, metrics = go_on(agent, state, steps=rule.end(done, steps) - done)
    return agent, state, EarlyReport(run.pruned_at, run.checks, run.kept, dict(agent.widths), metrics)
