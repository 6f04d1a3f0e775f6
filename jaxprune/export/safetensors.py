"""safetensors: sparse arrays and the description, in one file that any language reads.

Of a layer `NET.i` the file holds `bias` and `weight` [in, out], or, where that takes fewer bytes, `values`, `inputs` and `counts` (see
`Rows`); of hidden layers `units`, the original index of every unit (-1 is none). With the `original_sizes` of the description these are the
masks at full size. The header's metadata has the description as JSON under `jaxprune`; the same is written beside it, as `NAME.json`.
"""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import numpy as np

from jaxprune.agents.base import Agent, AgentState
from jaxprune.data.transitions import Spec
from jaxprune.export.description import check_finite, check_format, check_suffix, describe
from jaxprune.export.loaded import LoadedPolicy
from jaxprune.export.policy import ACTIVATIONS, ExportedPolicy, Layer, Perceptron, read_policy
from jaxprune.export.sparse import Rows, dense_layer, index_type, is_sparse, sparse_rows
from jaxprune.export.verification import Verification, verify
from jaxprune.files import write_whole
from jaxprune.optional import require

HEADS = ("tanh", "clip", "argmax", "likely", "candidates")


def to_safetensors(agent: Agent, state: AgentState, path: str | os.PathLike, *, seed: int = 0) -> Verification:
    """Write `path` (NAME.safetensors) and NAME.json beside it.

    Args:
      agent: the algorithm.
      state: of one run.
      path: of the file.
      seed: see `read_policy`.

    Raises:
      ValueError: what cannot be exported (see `read_policy`), or a file that does not act as the agent does; nothing is written then.
      ImportError: safetensors is not installed.
    """
    library = require("safetensors.numpy", extra="export")
    path, policy = check_suffix(path, ".safetensors"), read_policy(agent, state, seed=seed)
    described = describe(policy)
    content = library.save(arrays(policy), metadata={"jaxprune": json.dumps(described)})
    found = verify(policy_of(library.load(content), described, path).act, agent, state, policy, what=str(path))
    write_whole(path.with_suffix(".json"), json.dumps(described, indent=2) + "\n")
    write_whole(path, content)
    return found


def arrays(policy: ExportedPolicy) -> dict[str, np.ndarray]:
    """Every array of the file, by name."""
    out = {"mean": policy.mean, "std": policy.std}
    if policy.latents is not None:
        out["latents"] = policy.latents
    for name, net in policy.perceptrons.items():
        for index, layer in enumerate(net.layers):
            where = f"{name}.{index}"
            out |= (
                {f"{where}.{k}": v for k, v in sparse_rows(layer)._asdict().items()}
                if is_sparse(layer)
                else {f"{where}.weight": layer.weight}
            )
            out[f"{where}.bias"] = layer.bias
            if index < len(net.units):
                kind = np.int16 if net.sizes[index + 1] <= np.iinfo(np.int16).max else np.int32
                out[f"{where}.units"] = net.units[index].astype(kind)
    return {name: np.ascontiguousarray(array) for name, array in out.items()}


def load(path: pathlib.Path) -> LoadedPolicy:
    """A policy that NumPy computes.

    Raises:
      ValueError: a damaged file, or one of another version.
    """
    library = require("safetensors", extra="export")
    try:
        with library.safe_open(str(path), framework="numpy") as file:
            metadata = (file.metadata() or {}).get("jaxprune", "null")
            described = check_format(json.loads(metadata), path)
            found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (library.SafetensorError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: expected a whole safetensors file ({error}); copy it again or export the run again") from error
    return LoadedPolicy(described, policy_of(found, described, path).act)


def policy_of(found: dict[str, np.ndarray], described: dict[str, Any], path: str | os.PathLike) -> ExportedPolicy:
    """The policy of a file's arrays, checked.

    Raises:
      ValueError: an array that is missing, not finite, or of another shape or type than the description has.
    """
    reader = _Reader(found, path)
    try:
        size, actions = described["observation_size"], described["action_size"]
        spec = Spec(size, actions, described["low"], described["high"], described["discrete"])
        table = (described["candidates"], described["latent_size"]) if described["head"] == "candidates" else None
        expected = {"actor": (size + actions * bool(table), actions)}
        if table:
            expected |= {"decoder": (size + table[1], actions), "critic": (size + actions, 1)}
        if described["head"] == "likely":
            expected["imitation"] = (size, actions)
        ends = {name: (net["original_sizes"][0], net["original_sizes"][-1]) for name, net in described["perceptrons"].items()}
        if ends != expected or described["head"] not in HEADS:
            raise ValueError(f"expected head in {', '.join(HEADS)} and perceptrons with (inputs, outputs) {expected}, got {ends}")
        mean, std = (reader.floats(name, (size,)) for name in ("mean", "std"))
        nets = {name: _perceptron(reader, name, net) for name, net in described["perceptrons"].items()}
        threshold = float(described["threshold"]) if described["head"] == "likely" else 0.0
        extra = {"phi": float(described["phi"]), "seed": int(described["seed"])} if table else {}
        algorithm, head = str(described["algorithm"]), described["head"]
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"{path}: the description is damaged ({type(error).__name__}: {error}); export the run again") from error
    except ValueError as error:
        raise ValueError(str(error) if str(error).startswith(str(path)) else f"{path}: {error}; the file is damaged") from error
    if not (std > 0).all():
        raise ValueError(f"{path}: std: expected positive numbers, got {std.min()}; the file is damaged")
    latents = reader.floats("latents", table) if table else None
    return ExportedPolicy(algorithm, spec, mean, std, head, nets, latents, threshold=threshold, **extra)


def _perceptron(reader: _Reader, name: str, described: dict[str, Any]) -> Perceptron:
    sizes = tuple(described["original_sizes"])
    layers, units, before = [], [], sizes[0]
    if described["activation"] not in ACTIVATIONS:
        raise KeyError(described["activation"])
    for index, layer in enumerate(described["layers"]):
        where, shape = f"{name}.{index}", (layer["inputs"], layer["outputs"])
        if shape[0] != before:
            raise ValueError(f"{reader.path}: {where}: expected {before} inputs, got {shape[0]}; the file is damaged")
        before = shape[1]
        bias = reader.floats(f"{where}.bias", (shape[1],))
        if layer["stored"] == "sparse":
            layers.append(dense_layer(reader.rows(where, shape), bias, shape[0]))
        else:
            weight = reader.floats(f"{where}.weight", shape)
            layers.append(Layer(weight, weight != 0, bias))
        if index + 1 < len(described["layers"]):
            units.append(reader.integers(f"{where}.units", shape[1], -1, sizes[index + 1]).astype(np.int32))
    if before != sizes[-1]:
        raise ValueError(f"{reader.path}: {name}: expected {sizes[-1]} outputs, got {before}; the file is damaged")
    return Perceptron(tuple(layers), described["activation"], tuple(units), sizes)


class _Reader:
    """Arrays by name, each checked as it is taken."""

    def __init__(self, found: dict[str, np.ndarray], path: str | os.PathLike):
        self.found, self.path = found, path

    def floats(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        array = self._get(name)
        if array.dtype != np.float32 or array.shape != tuple(shape):
            raise ValueError(
                f"{self.path}: {name}: expected float32 of shape {list(shape)}, got {array.dtype} {list(array.shape)}; the file is damaged"
            )
        check_finite(name, array, self.path)
        return array

    def integers(self, name: str, size: int, low: int, high: int) -> np.ndarray:
        array = self._get(name)
        good = array.dtype.kind in "iu" and array.shape == (size,) and (size == 0 or (low <= array.min() and array.max() < high))
        if not good:
            raise ValueError(
                f"{self.path}: {name}: expected {size} integers in [{low}, {high}), got {array.dtype} {list(array.shape)} or others; "
                "the file is damaged"
            )
        return array

    def rows(self, where: str, shape: tuple[int, int]) -> Rows:
        counts = self.integers(f"{where}.counts", shape[1], 0, shape[0] + 1)
        total = int(counts.sum(dtype=np.int64))
        inputs = self.integers(f"{where}.inputs", total, 0, shape[0])
        steps = np.diff(inputs.astype(np.int64))
        starts = np.cumsum(counts.astype(np.int64))[:-1]
        starts = starts[(starts > 0) & (starts < total)]
        steps[starts - 1] = 1
        if (steps <= 0).any():
            raise ValueError(f"{self.path}: {where}.inputs: expected increasing inputs in every row; the file is damaged")
        return Rows(self.floats(f"{where}.values", (total,)), inputs.astype(index_type(shape[0])), counts)

    def _get(self, name: str) -> np.ndarray:
        if name not in self.found:
            raise ValueError(f"{self.path}: {name} is missing; the file is damaged")
        return self.found[name]
