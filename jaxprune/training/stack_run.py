"""Training one stack of runs: pieces of updates, evaluations, checkpoints."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp

from jaxprune.training.checkpoint import save_run
from jaxprune.training.journal import Carry, Journal
from jaxprune.training.loop import add_metrics, advance, mean_metrics, place_runs
from jaxprune.training.session import Session, all_finite
from jaxprune.training.start import RunKeys
from jaxprune.training.stopping import StopRequest

log = logging.getLogger("jaxprune")

Report = Callable[[int], Any]

PIECE = 1000


def run_stack(carry: Carry, session: Session, journal: Journal, stop: StopRequest, report: Report) -> None:
    """Train a stack to its end: rows go to the records, states to runs/ at the end and to checkpoints on the way.

    Args:
      carry: where it stands; its state is donated.
      session: the sweep.
      journal: of the sweep.
      stop: looked at after every piece of about 1,000 updates.
      report: called with the updates made, counted once a run.

    Raises:
      Stopped: it was asked to stop and has written a checkpoint.
    """
    config, agent, origins = session.config, carry.stack.agent, carry.stack.origins
    end, strategy = origins[0].end, session.strategy
    piece = max(1, PIECE // agent.period) * agent.period
    keys = jnp.stack([RunKeys.of(origin.run.seed).train for origin in origins])
    state, keys = place_runs((carry.stack.state, keys), strategy)
    if carry.totals:
        # A checkpoint holds those of its runs, without the copies that fill up the devices.
        carry.totals = {name: (place_runs(total, strategy), weight) for name, (total, weight) in carry.totals.items()}
    if carry.recorded < 0:
        earlier = [row for origin in origins for row in origin.earlier]
        journal.folder.append(earlier)
        session.tell(earlier)
        carry.recorded = 0
    with ThreadPoolExecutor(1) as beside:
        evaluation, evaluations = None, 0
        while True:
            on_grid = carry.step > 0 and (carry.step % config.eval_every == 0 or carry.step >= end)
            if on_grid and carry.recorded < carry.step:
                if evaluation is not None:
                    evaluation.record()
                evaluations += 1
                due = carry.step < end and evaluations % config.checkpoint_every == 0
                if due and session.overlap:
                    # Of before this evaluation: who goes on from here makes it again.
                    _save(carry, state, journal)
                evaluation = _Evaluation(carry, state, session, journal, beside if session.overlap else None)
                if not session.overlap or carry.step >= end:
                    evaluation.record()
                    evaluation = None
                if due and not session.overlap:
                    _save(carry, state, journal)
            if carry.step >= end:
                break
            if stop:
                if evaluation is not None:
                    evaluation.record()
                _save(carry, state, journal)
                stop.leave_if_asked()
            now = min(piece, config.eval_every - carry.step % config.eval_every, end - carry.step)
            began = time.perf_counter()
            state, metrics = advance(
                agent,
                state,
                keys,
                session.transitions,
                now,
                batch_size=session.batch_size(agent),
                phase=carry.step % agent.period,
                stacked=strategy,
            )
            jax.block_until_ready(state.step)
            carry.trained += time.perf_counter() - began
            add_metrics(carry.totals, metrics, now)
            carry.step += now
            report(now * len(origins))
    _finish(carry, state, session, journal)


class _Evaluation:
    """Of a stack as it is now: at once, or `beside` what it does next.

    Args:
      carry: of the stack; its means of metrics begin anew.
      state: of the stack, which may be donated afterwards.
      session: the sweep.
      journal: of the sweep.
      beside: where to run it; None to run it here.
    """

    def __init__(self, carry: Carry, state: Any, session: Session, journal: Journal, beside: Executor | None):
        self.carry, self.session, self.journal = carry, session, journal
        self.step, self.trained, self.finite = carry.step, carry.trained, all_finite(state)
        self.metrics, carry.totals = mean_metrics(carry.totals), {}
        agent, runs = carry.stack.agent, [origin.run for origin in carry.stack.origins]
        policies = agent.policy(state)
        if beside is None:
            self.found = session.evaluate(agent, policies, runs, self.step)
            return
        # A copy outlives the state; on one device, it waits for no other.
        copied = jax.device_put(jax.tree.map(jnp.copy, policies), jax.local_devices()[0])
        self.coming = beside.submit(session.evaluate, agent, copied, runs, self.step)

    def record(self) -> None:
        """Add its rows, once it is done."""
        carry, session = self.carry, self.session
        returns, seconds = self.coming.result() if hasattr(self, "coming") else self.found
        carry.evaluated += seconds
        times = {"wall_s": self.trained, "eval_s": carry.evaluated}
        rows = session.rows(carry.stack.agent, self.finite, carry.stack.origins, self.step, returns, self.metrics, **times)
        self.journal.folder.append(rows)
        session.tell(rows)
        _log_line(rows, (self.step - carry.began) * len(rows))
        carry.recorded = self.step


def _log_line(rows: list[dict[str, Any]], updates: int) -> None:
    """One line an evaluation: what the runs of the stack returned, and how fast they made their updates, counted once a run."""
    last = rows[-1]
    returns = [row["return_mean"] for row in rows if row["return_mean"] is not None]
    told = f"return {sum(returns) / len(returns):,.1f}" if returns else "not evaluated"
    speed = f"{updates / last['wall_s']:,.0f} updates/s" if last["wall_s"] else "not trained yet"
    names = last["run_id"] if len(rows) == 1 else f"{len(rows)} runs, {rows[0]['run_id']} to {last['run_id']}"
    log.info("%s: update %d, %s, %s, %.0f s of evaluation so far", names, last["step"], told, speed, last["eval_s"])


def _save(carry: Carry, state: Any, journal: Journal) -> None:
    carry.stack.state = state
    journal.save(carry)


def _finish(carry: Carry, state: Any, session: Session, journal: Journal) -> None:
    for i, origin in enumerate(carry.stack.origins):
        description = {**session.about(origin.run), "step": carry.step, "layers": origin.info.layers}
        for name in ("curvature", "pruned_at", "checks"):
            if value := getattr(origin, name):
                description[name] = value
        single = jax.tree.map(lambda leaf, i=i: leaf[i], state)
        save_run(journal.folder.fresh_run(origin.run.id), carry.stack.agent, single, description)
    journal.finish([origin.run.id for origin in carry.stack.origins])
