"""Runs of a sweep that are pruned in the middle of training: one dense run a seed, from which each leaves at its own time."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxprune.agents.base import Agent, AgentState
from jaxprune.agents.scoring import chosen_networks
from jaxprune.training.arms import split
from jaxprune.training.early import Waiting
from jaxprune.training.grid import Run
from jaxprune.training.loop import add_metrics, advance_in_pieces, mean_metrics
from jaxprune.training.session import Session, all_finite
from jaxprune.training.start import Origin, RunKeys, Start, curvature_of, prune_run, tell
from jaxprune.training.stopping import StopRequest

Report = Callable[[int], Any]
Rows = list[dict[str, Any]]


@dataclasses.dataclass
class _Branch:
    """A dense state on its way, and the runs that still follow it: all of a seed at first, one that was pruned in part later."""

    agent: Agent
    state: AgentState
    runs: dict[Run, Waiting]
    totals: dict[str, Any] = dataclasses.field(default_factory=dict)
    trained: float = 0.0


class DenseTrunk:
    """The dense training that runs of one algorithm and seed share until they are pruned.

    Alone or with others, a run sees the same updates: the trunk is trained by itself, in no stack.

    Args:
      agent: dense.
      runs: of one algorithm and seed, to be pruned later.
      session: the sweep.
      stop: looked at between two pieces of training.
      report: called with the number of updates made, for every run that they count for.

    Attributes:
      failures: the runs that cannot be pruned, and why.
    """

    def __init__(self, agent: Agent, runs: Sequence[Run], session: Session, stop: StopRequest, report: Report = lambda updates: None):
        self.session, self.stop, self.report = session, stop, report
        self.seed = runs[0].seed
        self.rule = session.config.when_rule
        state = agent.init(RunKeys.of(self.seed).init, session.dataset.statistics)
        self.branches = [_Branch(agent, state, {run: self._waiting(agent, state, run) for run in runs})]
        self.start_s = dict.fromkeys(runs, 0.0)
        self.earlier: dict[Run, Rows] = {run: [] for run in runs}
        self.evaluated = 0.0
        self.failures: dict[Run, ValueError] = {}

    def _waiting(self, agent: Agent, state: AgentState, run: Run) -> Waiting:
        session, config = self.session, self.session.config

        def prune(agent, state, networks):
            return prune_run(agent, state, run, config, session.transitions, session.dataset.statistics, networks=networks)

        names = chosen_networks(agent, config.networks)
        return Waiting(
            self.rule,
            state,
            names,
            sparsity=run.sparsity,
            structure=config.structure,
            steps=config.steps,
            prune=prune,
            compact=config.compact,
        )

    def starts(self) -> Iterator[Start]:
        """The runs as they are pruned, ready to go on.

        Raises:
          Stopped: it was asked to; nothing of the trunk is kept, for it will come out the same again.
        """
        done = 0
        while self.branches:
            looks = [waiting.next_look(done) for branch in self.branches for waiting in branch.runs.values()]
            boundary = done - done % self.session.config.eval_every + self.session.config.eval_every
            now = min(*looks, boundary)
            for branch in self.branches:
                self.stop.leave_if_asked()
                self._train(branch, done, now)
            done = now
            for branch in list(self.branches):
                for run in [run for run, waiting in branch.runs.items() if waiting.next_look(done - 1) == done]:
                    yield from self._look(branch, run, done)
            self.branches = [branch for branch in self.branches if branch.runs]
            if done == boundary:
                for branch in self.branches:
                    self._evaluate(branch, done)

    def _train(self, branch: _Branch, done: int, now: int) -> None:
        if now == done:
            return
        began, agent, session = time.perf_counter(), branch.agent, self.session
        branch.state, metrics = advance_in_pieces(
            agent,
            branch.state,
            RunKeys.of(self.seed).train,
            session.transitions,
            now - done,
            batch_size=session.batch_size(agent),
            phase=done % agent.period,
            report=lambda updates: self.report(updates * len(branch.runs)),
        )
        add_metrics(branch.totals, metrics, now - done)
        branch.trained += time.perf_counter() - began

    def _look(self, branch: _Branch, run: Run, done: int) -> Iterator[Start]:
        """Prune a run whose time has come, and take it off the branch."""
        began, waiting, config = time.perf_counter(), branch.runs[run], self.session.config
        try:
            agent, state = waiting.look(branch.agent, branch.state, done)
        except ValueError as error:
            self.failures[run] = error
            del branch.runs[run]
            return
        jax.block_until_ready(state.params)
        self.start_s[run] += time.perf_counter() - began
        if state is branch.state:
            return
        # The branch's state is donated to its next update: what leaves shares no array with it.
        state = jax.tree.map(jnp.copy, state)
        del branch.runs[run]
        if waiting.pending:
            self.branches.append(_Branch(agent, state, {run: waiting}, dict(branch.totals), branch.trained))
            return
        info = waiting.info(state)
        tell(run, info, config)
        origin = Origin(
            run,
            info,
            self.rule.end(done, config.steps),
            curvature_of(branch.agent, split(run.criterion)[0], config),
            start_s=self.start_s[run],
            dense_s=branch.trained,
            pruned_at=waiting.pruned_at,
            checks=waiting.checks,
            earlier=self.earlier[run],
        )
        yield Start(origin, agent, state)

    def _evaluate(self, branch: _Branch, done: int) -> None:
        """Add the rows of the runs that are not pruned yet, or not wholly."""
        one = jax.tree.map(lambda leaf: leaf[None], branch.state)
        runs = list(branch.runs)
        returns, seconds = self.session.evaluate(branch.agent, branch.agent.policy(one), runs[:1], done)
        self.evaluated += seconds
        metrics = {name: jnp.asarray(value)[None] for name, value in mean_metrics(branch.totals).items()}
        branch.totals, finite = {}, all_finite(one)
        for run in runs:
            info = branch.runs[run].info(branch.state)
            origin = Origin(run, info, done, start_s=self.start_s[run], dense_s=branch.trained)
            self.earlier[run] += self.session.rows(
                branch.agent, finite, [origin], done, returns, metrics, wall_s=0.0, eval_s=self.evaluated
            )
