"""A policy read from a file: one call, whatever the format."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

# Bounds the memory of a large batch of observations.
CANDIDATES_AT_ONCE = 16_384


@dataclasses.dataclass(frozen=True)
class LoadedPolicy:
    """A function from raw observations to actions in environment units.

    Attributes:
      description: what the file says of itself: sizes, bounds, layers.
      function: [n, S] float32 -> [n, A] float32, or [n] int32 for discrete actions.
    """

    description: dict[str, Any]
    function: Callable[[np.ndarray], np.ndarray] = dataclasses.field(repr=False)

    def __call__(self, observations: Any) -> np.ndarray:
        """Actions [n, A] (or [n] int32) for observations [n, S]; of one observation [S], its action alone.

        Raises:
          ValueError: another number of features.
        """
        batch = np.asarray(observations, np.float32)
        size = self.description["observation_size"]
        if batch.ndim not in (1, 2) or batch.shape[-1] != size:
            raise ValueError(f"expected observations of shape [n, {size}] or [{size}], got {list(batch.shape)}")
        rows = np.atleast_2d(batch)
        if not len(rows):
            return np.empty(0, np.int32) if self.description["discrete"] else np.empty((0, self.description["action_size"]), np.float32)
        step = max(1, CANDIDATES_AT_ONCE // self.description.get("candidates", 1))
        parts = [self.function(rows[start : start + step]) for start in range(0, len(rows), step)]
        actions = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return actions[0] if batch.ndim == 1 else actions


def load_policy(path: str | os.PathLike) -> LoadedPolicy:
    """A policy from a `.safetensors`, `.onnx` or `.stablehlo` file that `jaxprune.export` wrote. Nothing is unpickled.

    Raises:
      FileNotFoundError: no such file.
      ValueError: another ending, another version, or a damaged file.
      ImportError: the format's package is not installed.
    """
    from jaxprune.export import onnx, safetensors, stablehlo

    loaders = {".safetensors": safetensors.load, ".onnx": onnx.load, ".stablehlo": stablehlo.load}
    path = pathlib.Path(path)
    if path.suffix not in loaders:
        hint = "; compile C with jaxprune.export.load_c" if path.suffix in (".c", ".h") else ""
        raise ValueError(f"{path}: expected a file that ends in {', '.join(loaders)}, got {path.suffix or 'no ending'!r}{hint}")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    return loaders[path.suffix](path)
