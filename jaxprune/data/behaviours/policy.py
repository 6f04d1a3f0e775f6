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

# Of the squashed head's log standard deviation, as in Soft Actor-Critic.
LOG_STD_RANGE = (-20.0, 2.0)


@dataclasses.dataclass(frozen=True)
class Policy:
    """A perceptron on normalised observations, and noise: Gaussian of a fixed scale, squashed, or of discrete actions.

    The plain head (PPO's) has tanh layers and returns mean + exp(log_std)·ε. The squashed head (SAC's) has ReLU layers, reads
    its log standard deviation from the last of them, and returns centre + scale·tanh(mean + exp(log_std)·ε).
    The categorical head (PPO's for discrete actions), which has tanh layers and no `log_std`, draws an index by the softmax of its outputs.

    Attributes:
      kernels: [in, out] each.
      biases: [out] each.
      mean, std: [S] of the observations.
      log_std: [A] of the exploration noise; the bias of its head where that is squashed; None for discrete actions.
      metadata: how it was trained and what it earned.
      log_std_kernel: [H, A] of the squashed head.
      bounds: [2, A] lowest and highest actions of the squashed head.
    """

    kernels: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    mean: np.ndarray
    std: np.ndarray
    log_std: np.ndarray | None
    metadata: Mapping[str, Any]
    log_std_kernel: np.ndarray | None = None
    bounds: np.ndarray | None = None

    def __call__(self, observations: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Actions [E, A] float32 for observations [E, S], or [E] int32; those of the plain head are not clipped to any bounds."""
        hidden = np.clip((observations - self.mean) / self.std, -10.0, 10.0).astype(np.float32)
        squashed = self.log_std_kernel is not None
        for kernel, bias in zip(self.kernels[:-1], self.biases[:-1], strict=True):
            hidden = hidden @ kernel + bias
            hidden = np.maximum(hidden, 0.0) if squashed else np.tanh(hidden)
        actions = hidden @ self.kernels[-1] + self.biases[-1]
        if self.log_std is None:
            return np.argmax(actions + rng.gumbel(size=actions.shape), axis=-1).astype(np.int32)
        noise = rng.standard_normal(actions.shape, np.float32)
        if self.log_std_kernel is None or self.bounds is None:
            return actions + np.exp(self.log_std) * noise
        log_std = np.clip(hidden @ self.log_std_kernel + self.log_std, *LOG_STD_RANGE)
        low, high = self.bounds
        return (low + high) / 2 + (high - low) / 2 * np.tanh(actions + np.exp(log_std) * noise)

    def digest(self) -> str:
        """SHA-256 of the weights, so that data can be told from data of other weights."""
        arrays = [*self.kernels, *self.biases, self.mean, self.std]
        arrays += [array for array in (self.log_std, self.log_std_kernel, self.bounds) if array is not None]
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
        raise DataError(f"{path}: expected a snapshot with kernel_0, bias_0, …, mean, std and metadata, got {error}") from error


def policy_from_arrays(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any], prefix: str = "") -> Policy:
    """The policy whose arrays stand under `prefix`; KeyError if one is missing."""
    layers = sum(1 for key in arrays if key.startswith(f"{prefix}kernel_"))
    if not layers:
        raise KeyError(f"{prefix}kernel_0")
    squashed = f"{prefix}log_std_kernel" in arrays
    return Policy(
        kernels=tuple(arrays[f"{prefix}kernel_{index}"] for index in range(layers)),
        biases=tuple(arrays[f"{prefix}bias_{index}"] for index in range(layers)),
        mean=arrays[f"{prefix}mean"],
        std=arrays[f"{prefix}std"],
        log_std=arrays.get(f"{prefix}log_std"),
        metadata=metadata,
        log_std_kernel=arrays[f"{prefix}log_std_kernel"] if squashed else None,
        bounds=arrays[f"{prefix}bounds"] if squashed else None,
    )
