"""One run that is pruned before, early in, or at a given step of its training, and goes on in smaller arrays."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax

from jaxprune.agents.base import Agent, AgentState
from jaxprune.agents.compact import compact as compacted
from jaxprune.agents.scoring import chosen_networks
from jaxprune.agents.sparse import PruneInfo, prune_agent
from jaxprune.data.transitions import Transitions
from jaxprune.pruning.early import Detector, check, watch
from jaxprune.training.loop import train

TOTALS = ("same", "full-after")


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
      when: `init`, `early` or `step:N`.
      check_every: updates between two checks.
      threshold: of the `Detector`.
      reference: of the `Detector`.
      cap: updates after which `early` prunes in any case; half of `steps` by default.
      scope: `together`, one detector over the kernels of all pruned networks; `network`, one each, and each is pruned when its own fires.
      total: `same`, `steps` updates in all; `full-after`, `steps` updates after pruning.
      restart_optimizer: whether pruned networks start with a fresh optimizer state, in place of the cut one.
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
    names, at = chosen_networks(agent, networks), parse_when(when)
    if scope not in ("together", "network"):
        raise ValueError(f"scope={scope!r} is unknown; expected together or network")
    if total not in TOTALS:
        raise ValueError(f"total={total!r} is unknown; expected one of {', '.join(TOTALS)}")
    if check_every < 1:
        raise ValueError(f"expected check_every of at least one update, got {check_every}")
    last = (max(1, steps // 2) if cap is None else cap) if at is None else at
    if last > steps and total == "same":
        raise ValueError(f"pruning after {last} updates is beyond the {steps} of the run; use fewer, or total='full-after'")
    pending: list[tuple[str, ...]] = [names] if scope == "together" else [(name,) for name in names]
    watched = {}
    detector = None
    if at is None:
        detector = Detector(sparsity, structure, threshold, reference, last)
        watched = {own: watch({name: state.params[name] for name in own}) for own in pending}
    run = functools.partial(train, transitions=transitions, key=key, batch_size=batch_size, compact=False)
    report = EarlyReport({}, [], {}, {}, {})
    done = 0
    while pending:
        now = min(check_every if at is None else last, last - done)
        if now:
            state, _ = run(agent, state, steps=now)
            done += now
        fired = list(pending)
        if detector is not None:
            fired = []
            for own in pending:
                watched[own], due = _check(detector, watched[own], {name: state.params[name] for name in own}, done)
                values = {field: float(getattr(watched[own], field)) for field in ("movement", "change", "bound")}
                report.checks.append({"step": done, "networks": own, **values, "fired": bool(due)})
                fired += [own] if due else []
        for own in fired:
            state, info = prune_agent(agent, state, prune_rows, prune_key, sparsity=sparsity, networks=own, structure=structure, **pruning)
            report.kept[own] = info
            report.pruned_at.update(dict.fromkeys(own, done))
            if restart_optimizer:
                state = agent.restart_optimizers(state, own)
            watched.pop(own, None)
            pending.remove(own)
        if fired and compact:
            agent, state = compacted(agent, state)
    state, metrics = run(agent, state, steps=steps if total == "full-after" else steps - done)
    return agent, state, dataclasses.replace(report, widths=dict(agent.widths), metrics=metrics)
