"""What every part of a sweep shares: the config, the data, the environment, and how a row of the records is made."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxprune.agents.base import Agent, AgentState, Policy
from jaxprune.data.reference import normalized_score
from jaxprune.data.transitions import Dataset, Transitions
from jaxprune.training.evaluation import evaluate_stack
from jaxprune.training.grid import Run, SweepConfig
from jaxprune.training.logs import Log
from jaxprune.training.loop import one_device_strategy
from jaxprune.training.stacks import executed_weights
from jaxprune.training.start import Origin, is_pruned_later

log = logging.getLogger("jaxprune")


@dataclasses.dataclass(frozen=True)
class Session:
    """One sweep while it runs.

    Attributes:
      config: the grid.
      dataset: as loaded.
      transitions: the same, on the device.
      env_id: of the evaluation, None without one.
      logs: called with all rows as they are recorded.
    """

    config: SweepConfig
    dataset: Dataset
    transitions: Transitions
    env_id: str | None
    logs: tuple[Log, ...] = ()

    @property
    def strategy(self) -> str:
        """How stacks are stepped."""
        if self.config.strategy != "auto":
            return self.config.strategy
        return "sharded" if jax.local_device_count() > 1 else one_device_strategy()

    def batch_size(self, agent: Agent) -> int:
        """Rows an update."""
        return self.config.batch_size or agent.config.batch_size

    @property
    def overlap(self) -> bool:
        """Whether stacks are evaluated while they train on: where environments step on other hardware than updates are made on."""
        return jax.default_backend() != "cpu" if self.config.overlap is None else self.config.overlap

    def evaluate(self, agent: Agent, policies: Policy, runs: Sequence[Run], step: int) -> tuple[np.ndarray, float]:
        """Returns [runs, episodes] of a stack after `step` updates, NaN without an environment, and the seconds it took."""
        config, began = self.config, time.perf_counter()
        returns = np.full((len(runs), config.episodes), np.nan)
        if config.evaluate and self.env_id is not None:
            seeds = [(run.seed, step) for run in runs]
            policy = jax.tree.map(lambda leaf: leaf[: len(runs)], policies)
            returns = evaluate_stack(agent, policy, self.env_id, episodes=config.episodes, seeds=seeds, backend=config.backend)
        return returns, time.perf_counter() - began

    def about(self, run: Run) -> dict[str, Any]:
        """The columns that tell runs apart."""
        config = self.config
        when = config.when if is_pruned_later(run, config) else "init"
        shared = {"dataset": config.dataset, "env_id": self.env_id, "structure": config.structure, "when": when}
        return {"run_id": run.id, **dataclasses.asdict(run), **shared}

    def rows(
        self,
        agent: Agent,
        finite: np.ndarray,
        origins: Sequence[Origin],
        step: int,
        returns: np.ndarray,
        metrics: dict[str, Any],
        *,
        wall_s: float,
        eval_s: float,
    ) -> list[dict[str, Any]]:
        """One row a run of a stack, after `step` updates; `finite` is what `all_finite` says of its state."""
        metrics = {name: np.asarray(values) for name, values in metrics.items()}
        for origin, good in zip(origins, finite, strict=False):
            if not good:
                log.warning("%s: parameters are NaN or infinite at update %d; the run is marked failed", origin.run.id, step)
        return [
            {
                **self.about(origin.run),
                "kept": origin.info.kept,
                "total": origin.info.total,
                "executed": executed_weights(agent),
                "pruned_at": max(origin.pruned_at.values(), default=0),
                "step": step,
                "return_mean": number(returns[i].mean()),
                "return_std": number(returns[i].std()),
                "episodes": self.config.episodes,
                "score": number(normalized_score(self.dataset.reference, returns[i].mean())),
                "start_s": round(origin.start_s, 3),
                "dense_s": round(origin.dense_s, 3),
                "wall_s": round(wall_s, 3),
                "eval_s": round(eval_s, 3),
                "stack": len(origins),
                "status": "ok" if finite[i] else "failed",
                **{name: number(values[i]) for name, values in metrics.items()},
            }
            for i, origin in enumerate(origins)
        ]

    def tell(self, rows: list[dict[str, Any]]) -> None:
        """Pass rows to the logs."""
        for tell in self.logs:
            tell(rows)

    def failed_row(self, run: Run, error: Exception) -> dict[str, Any]:
        """The row of a run that could not be started."""
        return {**self.about(run), "step": 0, "return_mean": None, "score": None, "status": "failed", "reason": str(error)}


def all_finite(state: AgentState) -> np.ndarray:
    """Of every run of a stack, whether its parameters are numbers: [runs] bool."""

    def one(params: Any) -> jax.Array:
        return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(params)]).all()

    return np.asarray(jax.vmap(one)(state.params))


def number(value: Any) -> float | None:
    """A float, or None where there is no finite one."""
    return None if value is None or not np.isfinite(value) else float(value)
