"""What a network weighs: bytes in every representation, in memory and on disk, and multiply-adds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.sparse

from jaxprune.agents.base import Agent, AgentState
from jaxprune.agents.compact import compact, expand
from jaxprune.export.c_code import Weights
from jaxprune.export.policy import ExportedPolicy, Layer
from jaxprune.export.quantization import quantized
from jaxprune.export.sparse import dense_bytes, is_sparse, sparse_bytes, sparse_rows
from jaxprune.optional import require
from jaxprune.parameters import is_kernel, path_name, prunable_leaves
from jaxprune.pruning.inspection import effective_density

REPRESENTATIONS = ("dense", "coo int64", "csr int32", "csr int16", "compacted dense", "compacted sparse", "compacted int8")


class NetworkSize(NamedTuple):
    """One network of a run, every member of a stack counted.

    Attributes:
      parameters: kernels and biases at full size.
      weights: prunable weights at full size.
      kept: of them, by the masks.
      effective: of them, on a path from an input to an output.
      memory: {representation: bytes of the arrays}, biases included.
      disk: {representation: bytes as a safetensors file}.
      macs_dense: multiply-adds of one example at full size.
      macs_sparse: theoretical: one for every effective weight.
      macs_executed: of the arrays that are multiplied after compaction, rounded up as the backend's training does.
    """

    parameters: int
    weights: int
    kept: int
    effective: int
    memory: dict[str, int]
    disk: dict[str, int]
    macs_dense: int
    macs_sparse: int
    macs_executed: int


# Bytes that one more weight takes where weights off live paths are stored too.
_PER_WEIGHT = {"coo int64": 20, "csr int32": 8, "csr int16": 6}


def network_sizes(agent: Agent, state: AgentState, *, kept: Mapping[str, int] | None = None) -> dict[str, NetworkSize]:
    """{network: size}, for a run at full size or compacted.

    Args:
      agent: the algorithm.
      state: of one run.
      kept: {network: weights that pruning kept}, where those off live paths have left the arrays since; the sparse representations at full
        size count them as if they had stayed.

    Raises:
      ImportError: safetensors is not installed.
    """
    full, whole = expand(agent, state)
    _, small = compact(full, whole, multiple=1)
    _, executed = compact(full, whole)
    save = require("safetensors.numpy", extra="export").save
    out = {}
    for name in full.order:
        arrays = _representations(whole.params[name], whole.masks[name], small.params[name], small.masks[name])
        weights = _weights(whole.params[name])
        density = float(effective_density(whole.params[name], whole.masks[name], full.groups(name)))
        stored = sum(int(np.sum(mask)) for mask in prunable_leaves(whole.masks[name]).values())
        known = max(stored, (kept or {}).get(name, 0))
        gone = {kind: (known - stored) * _PER_WEIGHT.get(kind, 0) for kind in REPRESENTATIONS}
        out[name] = NetworkSize(
            parameters=sum(int(np.size(leaf)) for leaf in jax.tree.leaves(whole.params[name])),
            weights=weights,
            kept=known,
            effective=round(density * weights),
            memory={kind: sum(array.nbytes for array in found.values()) + gone[kind] for kind, found in arrays.items()},
            disk={kind: len(save(_contiguous(found))) + gone[kind] for kind, found in arrays.items()},
            macs_dense=weights,
            macs_sparse=round(density * weights),
            macs_executed=_weights(executed.params[name]),
        )
    return out


def policy_bytes(policy: ExportedPolicy, weights: Weights = "float32") -> int:
    """Bytes of a policy's weights and biases as the exports store them: each layer sparse where that is smaller, int8 with its scales.

    Args:
      policy: from `read_policy`.
      weights: `float32` or `int8`.
    """
    width = 4 if weights == "float32" else 1
    layers = [layer for net in policy.perceptrons.values() for layer in net.layers]
    scales = sum(4 * layer.bias.size for layer in layers) if weights == "int8" else 0
    return scales + sum(min(sparse_bytes(layer, width), dense_bytes(layer, width)) + layer.bias.nbytes for layer in layers)


def _contiguous(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _weights(params: Any) -> int:
    return sum(int(np.size(leaf)) for leaf in prunable_leaves(params).values())


def _representations(params: Any, masks: Any, small: Any, small_masks: Any) -> dict[str, dict[str, np.ndarray]]:
    """{representation: {array name: array}}; biases are dense in all."""
    out: dict[str, dict[str, np.ndarray]] = {kind: {} for kind in REPRESENTATIONS}
    for name, kernel, kept in _layers(params, masks):
        if kept is None:
            for kind in ("dense", "coo int64", "csr int32", "csr int16"):
                out[kind][name] = kernel
            continue
        rows, columns = np.nonzero(kept.T)
        values = kernel.T[rows, columns]
        csr = scipy.sparse.csr_matrix((values, (rows, columns)), shape=kernel.T.shape)
        short = np.uint16 if kernel.shape[0] <= 2**16 else np.uint32
        out["dense"][name] = kernel
        out["coo int64"] |= {f"{name}.indices": np.stack([rows, columns]).astype(np.int64), f"{name}.values": values}
        pointers = {np.int32: csr.indptr.astype(np.int32), short: csr.indptr.astype(np.uint16 if values.size < 2**16 else np.uint32)}
        for kind, integer in (("csr int32", np.int32), ("csr int16", short)):
            out[kind] |= {f"{name}.values": values, f"{name}.columns": columns.astype(integer), f"{name}.pointers": pointers[integer]}
    for name, kernel, kept in _layers(small, small_masks):
        if kept is None:
            for kind in ("compacted dense", "compacted sparse", "compacted int8"):
                out[kind][name] = kernel
            continue
        out["compacted dense"][name] = kernel
        layer = Layer(kernel, kept, np.zeros(kernel.shape[1], np.float32))
        out["compacted sparse"] |= _stored(name, layer, kernel, 4)
        integers, scale = quantized(layer)
        out["compacted int8"] |= _stored(name, layer, integers, 1) | {f"{name}.scales": scale}
    return out


def _stored(name: str, layer: Layer, values: np.ndarray, width: int) -> dict[str, np.ndarray]:
    """A layer as the exports store it: sparse where that is smaller."""
    if not is_sparse(layer, width):
        return {name: values}
    rows = sparse_rows(layer)
    outputs = np.repeat(np.arange(len(rows.counts)), rows.counts)
    return {f"{name}.values": values[rows.inputs, outputs], f"{name}.inputs": rows.inputs, f"{name}.counts": rows.counts}


def _layers(params: Any, masks: Any) -> Any:
    """(name, array, mask) of every leaf, member by member; no mask where it is not a kernel."""
    for (path, leaf), mask in zip(jax.tree_util.tree_leaves_with_path(params), jax.tree.leaves(masks), strict=True):
        array, kept, name = np.asarray(leaf, np.float32), np.asarray(mask), path_name(path)
        if not is_kernel(path, leaf):
            yield name, array, None
        elif array.ndim == 3:
            yield from ((f"{name}.{member}", array[member], kept[member]) for member in range(len(array)))
        else:
            yield name, array, kept
