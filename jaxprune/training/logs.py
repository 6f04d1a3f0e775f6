"""Copies of the records for those who watch elsewhere: TensorBoard event files, Weights & Biases."""

from __future__ import annotations

import pathlib
from typing import Any, Protocol

from jaxprune.optional import require

Row = dict[str, Any]

_KEYS = ("run_id", "algo", "criterion", "sparsity", "seed", "dataset", "env_id", "structure", "when", "step", "status", "reason")


class Log(Protocol):
    """Where rows of the records go as well."""

    def __call__(self, rows: list[Row]) -> None:
        """Take rows."""
        ...

    def close(self) -> None:
        """Have everything written."""
        ...


def require_packages(*, tensorboard: bool, wandb: str | None) -> None:
    """Refuse logs whose packages are absent.

    Raises:
      ImportError: with the way to get them.
    """
    if tensorboard:
        require("tensorboardX", extra="tensorboard")
    if wandb:
        require("wandb", extra="wandb")


def _numbers(row: Row) -> dict[str, float]:
    return {name: float(value) for name, value in row.items() if name not in _KEYS and isinstance(value, (int, float))}


class TensorBoard:
    """Writes folder/tensorboard/<run id>, event files of one run each.

    Args:
      folder: of the sweep.

    Raises:
      ImportError: tensorboardX is absent.
    """

    def __init__(self, folder: pathlib.Path):
        self._open, self._folder = require("tensorboardX", extra="tensorboard").SummaryWriter, folder / "tensorboard"
        self._writers: dict[str, Any] = {}

    def __call__(self, rows: list[Row]) -> None:
        """Take rows."""
        for row in rows:
            run = row["run_id"]
            if run not in self._writers:
                # What an interrupted process wrote from here on will be written again.
                self._writers[run] = self._open(str(self._folder / run), purge_step=row["step"])
            for name, value in _numbers(row).items():
                self._writers[run].add_scalar(name, value, row["step"])

    def close(self) -> None:
        """Have everything written."""
        for writer in self._writers.values():
            writer.close()


class WeightsAndBiases:
    """Logs every run to a project of Weights & Biases, in groups named after the folder.

    Args:
      project: name.
      folder: of the sweep.

    Raises:
      ImportError: wandb is absent.
    """

    def __init__(self, project: str, folder: pathlib.Path):
        self._init, self._project, self._group = require("wandb", extra="wandb").init, project, folder.resolve().name
        self._runs: dict[str, Any] = {}

    def __call__(self, rows: list[Row]) -> None:
        """Take rows."""
        for row in rows:
            run = row["run_id"]
            if run not in self._runs:
                about = {name: row[name] for name in _KEYS if name in row and name not in ("step", "status", "reason")}
                named = {"project": self._project, "group": self._group, "name": run, "id": f"{self._group}-{run}"}
                self._runs[run] = self._init(**named, resume="allow", config=about, reinit="create_new")
            self._runs[run].log(_numbers(row), step=row["step"])

    def close(self) -> None:
        """Have everything written."""
        for run in self._runs.values():
            run.finish()
