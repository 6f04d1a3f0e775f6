"""A trained stochastic policy in NumPy."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxprune.errors import DataError


@dataclasses.dataclass(frozen=True)
class Policy:
    """tanh layers on normalised observations, Gaussian noise of a fixed scale.

    Attributes:
      kernels: [in, out] each.
      biases: [out] each.
      mean, std: [S] of the observations.
      log_std: [A] of the exploration noise.
      metadata: how it was trained and what it earned.
    """

    kernels: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    mean: np.ndarray
    std: np.ndarray
    log_std: np.ndarray
    metadata: Mapping[str, Any]

    def __call__(self, observations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Actions [E, A] float32 for observations [E, S]; not clipped to any bounds."""
        hidden = np.clip((observations - self.mean) / self.std, -10.0, 10.0).astype(np.float32)
        for kernel, bias in zip(self.kernels[:-1], self.biases[:-1], strict=True):
            hidden = np.tanh(hidden @ kernel + bias)
        actions = hidden @ self.kernels[-1] + self.biases[-1]
        return actions + np.exp(self.log_std) * rng.standard_normal(actions.shape, np.float32)

    def digest(self) -> str:
        """SHA-256 of the weights, so that data can be told from data of other weights."""
        arrays = (*self.kernels, *self.biases, self.mean, self.std, self.log_std)
        return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()


def load_policy(path: str | pathlib.Path) -> Policy:
    """Reads a snapshot of ``experiments/train_behaviour.py``.

    Raises:
      FileNotFoundError: no such file.
      DataError: not such a snapshot.
    """
    path = pathlib.Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such policy file")
    try:
        with np.load(path) as arrays:
            return policy_from_arrays(arrays, json.loads(str(arrays["metadata"])))
    except (KeyError, ValueError, OSError) as error:
        raise DataError(f"{path}: expected a snapshot with kernel_0, bias_0, …, mean, std, log_std and metadata, got {error}") from error


def policy_from_arrays(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any], prefix: str = "") -> Policy:
    """The policy whose arrays stand under `prefix`; KeyError if one is missing."""
    layers = sum(1 for key in arrays if key.startswith(f"{prefix}kernel_"))
    if not layers:
        raise KeyError(f"{prefix}kernel_0")
    return Policy(
        kernels=tuple(arrays[f"{prefix}kernel_{index}"] for index in range(layers)),
        biases=tuple(arrays[f"{prefix}bias_{index}"] for index in range(layers)),
        mean=arrays[f"{prefix}mean"],
        std=arrays[f"{prefix}std"],
        log_std=arrays[f"{prefix}log_std"],
        metadata=metadata,
    )
