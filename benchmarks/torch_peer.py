"""The PyTorch peer, in an interpreter of its own."""

from __future__ import annotations

import dataclasses
import pathlib
import subprocess

import numpy as np

import jaxprune as jp

SERVER = pathlib.Path(__file__).parent / "peers" / "torch_server.py"


def save_log(dataset: jp.data.Dataset, path: str) -> str:
    """The transitions as the file that a peer reads; its path."""
    np.savez(path, **{field.name: getattr(dataset.transitions, field.name) for field in dataclasses.fields(dataset.transitions)})
    return path


class TorchPeer:
    """A dense agent that trains when asked.

    Args:
      python: an interpreter with torch and numpy.
      algo: `bc` or `bcq`.
      log: from `save_log`.
      rows: of a batch.
      threads: PyTorch's.
    """

    def __init__(self, python: str, algo: str, log: str, rows: int, threads: int):
        command = [python, str(SERVER), algo, log, str(rows), str(threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._read()

    def _read(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the PyTorch process ended; does its interpreter have torch and numpy?")
        return line

    def run(self, steps: int) -> float:
        """Seconds of so many updates."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return float(self._read())

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
