"""What a file says about itself, and the checks every loader makes."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import numpy as np

from jaxprune.export.policy import ExportedPolicy
from jaxprune.export.sparse import is_sparse

FORMAT = 1


def describe(policy: ExportedPolicy) -> dict[str, Any]:
    """JSON values: sizes, bounds, and for every layer its shape and how it is stored."""
    described: dict[str, Any] = {
        "format": FORMAT,
        "algorithm": policy.algorithm,
        "observation_size": policy.spec.observation_size,
        "action_size": policy.spec.action_size,
        "discrete": policy.spec.discrete,
        "low": list(policy.spec.low),
        "high": list(policy.spec.high),
        "head": policy.head,
        "perceptrons": {
            name: {
                "activation": net.activation,
                "original_sizes": list(net.sizes),
                "layers": [
                    {
                        "inputs": layer.weight.shape[0],
                        "outputs": layer.weight.shape[1],
                        "kept": int(layer.kept.sum()),
                        "original_weights": net.sizes[i] * net.sizes[i + 1],
                        "stored": "sparse" if is_sparse(layer) else "dense",
                    }
                    for i, layer in enumerate(net.layers)
                ],
            }
            for name, net in policy.perceptrons.items()
        },
    }
    if policy.head == "likely":
        described["threshold"] = policy.threshold
    if policy.latents is not None:
        described |= {"candidates": policy.latents.shape[0], "latent_size": policy.latents.shape[1], "phi": policy.phi, "seed": policy.seed}
    return described


def check_format(found: Any, path: str | os.PathLike) -> dict[str, Any]:
    """The description, if this version reads it.

    Raises:
      ValueError: no description of ours, or one of another version.
    """
    if not isinstance(found, dict) or "format" not in found:
        raise ValueError(f"{path}: expected a policy exported by jaxprune, got a file without its description; export the run again")
    if found["format"] != FORMAT:
        raise ValueError(f"{path}: has format {found['format']!r}, this version reads {FORMAT}; use the version that wrote it")
    for name in ("observation_size", "action_size"):
        if type(found.get(name)) is not int or found[name] < 1:
            raise ValueError(f"{path}: expected {name} to be a positive integer, got {found.get(name)!r}; the file is damaged")
    for name in ("low", "high"):
        bounds = found.get(name)
        if not isinstance(bounds, list) or not all(isinstance(bound, (int, float)) for bound in bounds):
            raise ValueError(f"{path}: expected {name} to be a list of numbers, got {bounds!r}; the file is damaged")
    if type(found.get("discrete")) is not bool:
        raise ValueError(f"{path}: expected discrete to be true or false, got {found.get('discrete')!r}; the file is damaged")
    return found


def check_sizes(found: Any, described: dict[str, Any], path: str | os.PathLike) -> None:
    """A ValueError where a program's (input, output) shapes without the batch are not the described ones."""
    expected = ((described["observation_size"],), () if described.get("discrete") else (described["action_size"],))
    if found != expected:
        raise ValueError(f"{path}: expected observations and actions of shapes {expected}, got {found}; the file is damaged")


def check_finite(name: str, array: np.ndarray, path: str | os.PathLike) -> None:
    """A ValueError where a weight is NaN or infinite."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{path}: {name}: expected finite numbers, got NaN or infinity; the file is damaged")


def check_suffix(path: str | os.PathLike, suffix: str) -> pathlib.Path:
    """The path, if it ends as files of its format do and lies in a folder."""
    path = pathlib.Path(path)
    if path.suffix != suffix:
        raise ValueError(f"{path}: expected a file name that ends in {suffix}, got {path.suffix or 'no ending'!r}")
    if not path.parent.is_dir():
        raise ValueError(f"{path}: {path.parent} is not a folder; make it first")
    return path
