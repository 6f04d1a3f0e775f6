"""What of a sweep is done and safe: enough to go on after any stop, to the same bits."""

from __future__ import annotations

import dataclasses
import json
import logging
import pathlib
import shutil
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxprune.agents.base import AgentState
from jaxprune.files import read_json, write_whole
from jaxprune.training.checkpoint import agent_from_json, agent_to_json, read_tree, write_tree
from jaxprune.training.records import OutputFolder
from jaxprune.training.stacks import Stack
from jaxprune.training.start import Origin

log = logging.getLogger("jaxprune")

KEEP = 2


@dataclasses.dataclass
class Carry:
    """A stack in the middle of its training.

    Attributes:
      stack: its runs and their state.
      step: updates made.
      began: the update it began at, above 0 where its runs trained before.
      recorded: the update of the last evaluation, −1 before the first.
      trained, evaluated: seconds so far.
      totals: {metric: (sum over updates, number of updates)} since the last evaluation.
    """

    stack: Stack
    step: int
    began: int
    recorded: int = -1
    trained: float = 0.0
    evaluated: float = 0.0
    totals: dict[str, Any] = dataclasses.field(default_factory=dict)


class Journal:
    """OUT/progress.json, which tells what is done, and OUT/checkpoints, the last few of the stack in training.

    progress.json is replaced whole, after what it tells of is on disk: killed at any moment, a sweep goes on from its last entry. Rows
    of the records that came after that entry are cut off, for they will be made again.

    Args:
      folder: of the sweep.
    """

    def __init__(self, folder: OutputFolder):
        self.folder = folder
        self.file = folder.path / folder.named("progress.json")
        self.checkpoints = folder.path / folder.named("checkpoints")
        self.finished: list[str] = []
        self.saved: list[str] = []

    def open(self) -> Carry | None:
        """Read what an earlier process left, cut the records back to it, and give the stack that was in training, if any.

        Raises:
          ValueError: none of the checkpoints it names can be read.
        """
        if not self.file.exists():
            self.folder.cut_records(0)
            self._clear(keep=())
            return None
        entry = read_json(self.file)
        self.finished, self.saved = entry["finished"], entry["checkpoints"]
        self._clear(keep=self.saved)
        for name in self.saved:
            try:
                carry, records = self._read(self.checkpoints / name)
            except (OSError, ValueError, KeyError) as error:
                log.warning("%s cannot be read (%s); trying the one before", self.checkpoints / name, str(error).splitlines()[0])
                continue
            self.folder.cut_records(records)
            return carry
        if self.saved:
            raise ValueError(f"none of the checkpoints in {self.checkpoints} can be read; start anew with --overwrite")
        self.folder.cut_records(entry["records"])
        return None

    def save(self, carry: Carry) -> None:
        """Write a checkpoint of the stack in training, then the entry that names it; older ones but the last few go."""
        agent, stack = carry.stack.agent, carry.stack
        name = f"{int(self.saved[0]) + 1 if self.saved else 0:06d}"
        path = (self.checkpoints / name).resolve()
        shutil.rmtree(path, ignore_errors=True)
        records = self.folder.sync_records()
        write_tree(path, _padding_off(stack))
        described = {
            "agent": agent_to_json(agent),
            "origins": [origin.to_json() for origin in stack.origins],
            "step": carry.step,
            "began": carry.began,
            "recorded": carry.recorded,
            "trained": carry.trained,
            "evaluated": carry.evaluated,
            "totals": {name: (*_told_exactly(value, len(stack.origins)), weight) for name, (value, weight) in carry.totals.items()},
            "records": records,
        }
        write_whole(path.with_suffix(".json"), json.dumps(described))
        self._commit([name, *self.saved][:KEEP], records)

    def finish(self, run_ids: list[str]) -> None:
        """Enter runs that need nothing more: those of a stack once they are saved, or, between two stacks, one that failed to start."""
        self.finished += run_ids
        self._commit([], self.folder.sync_records())

    def done(self) -> None:
        """Nothing is left to go on with."""
        shutil.rmtree(self.checkpoints, ignore_errors=True)

    def _commit(self, saved: list[str], records: int) -> None:
        write_whole(self.file, json.dumps({"finished": self.finished, "checkpoints": saved, "records": records}))
        self.saved = saved
        self._clear(keep=saved)

    def _clear(self, keep) -> None:
        if self.checkpoints.is_dir():
            for item in self.checkpoints.iterdir():
                if item.name.removesuffix(".json").removesuffix(".npz") not in keep:
                    shutil.rmtree(item) if item.is_dir() else item.unlink()

    def _read(self, path: pathlib.Path) -> tuple[Carry, int]:
        described = json.loads(path.with_suffix(".json").read_text())
        agent = agent_from_json(described["agent"])
        origins = [Origin.from_json(values) for values in described["origins"]]
        shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((len(origins), *leaf.shape), leaf.dtype), agent.shapes())
        carry = Carry(
            Stack(agent, read_tree(path, shapes), origins),
            described["step"],
            described["began"],
            described["recorded"],
            described["trained"],
            described["evaluated"],
            {name: (jnp.asarray(value, dtype), weight) for name, (value, dtype, weight) in described["totals"].items()},
        )
        return carry, described["records"]


def _told_exactly(value: Any, runs: int) -> tuple[list[float], str]:
    """The numbers of the runs and their type; a float32 or float64 comes back from its decimal digits bit for bit."""
    array = np.asarray(value)[:runs]
    return array.tolist(), str(array.dtype)


def _padding_off(stack: Stack) -> AgentState:
    runs = len(stack.origins)
    return jax.tree.map(lambda leaf: np.asarray(leaf[:runs]), stack.state)
