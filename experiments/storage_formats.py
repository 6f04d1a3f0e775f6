"""Ways to write a sparse network to a file, each with the way back."""

from __future__ import annotations

import gzip
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxprune.export.policy import Layer
from jaxprune.export.quantization import quantized
from jaxprune.export.sparse import Rows, dense_layer, sparse_rows
from jaxprune.optional import require
from jaxprune.parameters import is_kernel, path_name

Arrays = dict[str, np.ndarray]


class Format(NamedTuple):
    """How the kernels of a file are stored; biases are float32 in all.

    Attributes:
      encode: (kernel [in, out], kept [in, out] bool) -> arrays.
      decode: (arrays, (in, out)) -> kernel.
      compacted: units off live paths leave the arrays first.
      exact: the way back gives the same bits.
      zipped: the file is gzipped whole.
    """

    encode: Callable[[np.ndarray, np.ndarray], Arrays]
    decode: Callable[[Arrays, tuple[int, int]], np.ndarray]
    compacted: bool = False
    exact: bool = True
    zipped: bool = False


def _dense() -> tuple[Any, Any]:
    return lambda kernel, kept: {"weight": kernel}, lambda arrays, shape: arrays["weight"]


def _coo(integer: type) -> tuple[Any, Any]:
    """Row, column and value of every kept weight."""

    def encode(kernel, kept):
        return {"indices": np.stack(np.nonzero(kept)).astype(integer), "values": kernel[kept]}

    def decode(arrays, shape):
        kernel = np.zeros(shape, np.float32)
        kernel[tuple(arrays["indices"])] = arrays["values"]
        return kernel

    return encode, decode


def _csr(integer: type) -> tuple[Any, Any]:
    """Column and value of every kept weight, and where each row begins."""

    def encode(kernel, kept):
        rows, columns = np.nonzero(kept)
        begins = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(kernel)))])
        return {"columns": columns.astype(integer), "begins": begins.astype(integer), "values": kernel[kept]}

    def decode(arrays, shape):
        kernel = np.zeros(shape, np.float32)
        kernel[np.repeat(np.arange(shape[0]), np.diff(arrays["begins"])), arrays["columns"]] = arrays["values"]
        return kernel

    return encode, decode


def _bitmask() -> tuple[Any, Any]:
    """A bit for every weight, and the values of those kept."""

    def encode(kernel, kept):
        return {"mask": np.packbits(kept), "values": kernel[kept]}

    def decode(arrays, shape):
        kernel = np.zeros(shape, np.float32)
        kernel[np.unpackbits(arrays["mask"], count=kernel.size).reshape(shape).astype(bool)] = arrays["values"]
        return kernel

    return encode, decode


def _short_rows() -> tuple[Any, Any]:
    """What the library exports: the inputs of each output, in the smallest integers that hold them, and how many there are."""

    def encode(kernel, kept):
        return sparse_rows(_layer(kernel, kept))._asdict()

    def decode(arrays, shape):
        return dense_layer(Rows(**arrays), np.zeros(shape[1], np.float32), shape[0]).weight

    return encode, decode


def _short_rows_int8() -> tuple[Any, Any]:
    """The same with a byte a value, and a scale for every output."""

    def encode(kernel, kept):
        layer = _layer(kernel, kept)
        integers, scale = quantized(layer)
        rows = sparse_rows(layer)
        outputs = np.repeat(np.arange(kernel.shape[1]), rows.counts)
        return {**rows._asdict(), "values": integers[rows.inputs, outputs], "scale": scale}

    def decode(arrays, shape):
        rows = Rows(arrays["values"].astype(np.float32), arrays["inputs"], arrays["counts"])
        return dense_layer(rows, np.zeros(shape[1], np.float32), shape[0]).weight * arrays["scale"]

    return encode, decode


def _layer(kernel: np.ndarray, kept: np.ndarray) -> Layer:
    return Layer(kernel, kept, np.zeros(kernel.shape[1], np.float32))


DENSE, PUBLISHED = "dense float32", "COO, int64 indices"
FORMATS = {
    DENSE: Format(*_dense()),
    PUBLISHED: Format(*_coo(np.int64)),
    "COO, int32 indices": Format(*_coo(np.int32)),
    "CSR, int32 indices": Format(*_csr(np.int32)),
    "bit mask and values": Format(*_bitmask()),
    "rows of short integers": Format(*_short_rows()),
    "dense float32, gzipped": Format(*_dense(), zipped=True),
    "compacted, dense float32": Format(*_dense(), compacted=True),
    "compacted, rows of short integers": Format(*_short_rows(), compacted=True),
    "compacted, rows, int8 values": Format(*_short_rows_int8(), compacted=True, exact=False),
}


def leaves(params: Any, masks: Any) -> Iterator[tuple[str, np.ndarray, np.ndarray | None]]:
    """(name, array, mask) of every leaf, stacked kernels member by member; the mask is None where it is no kernel."""
    for (path, leaf), mask in zip(jax.tree_util.tree_leaves_with_path(params), jax.tree.leaves(masks), strict=True):
        array, kept, name = np.asarray(leaf, np.float32), np.asarray(mask), path_name(path)
        if not is_kernel(path, leaf):
            yield name, array, None
        elif array.ndim == 2:
            yield name, array, kept
        else:
            yield from ((f"{name}.{member}", array[member], kept[member]) for member in range(len(array)))


def write(path: pathlib.Path, how: Format, params: Any, masks: Any) -> int:
    """Write networks as one safetensors file; its bytes on disk.

    Raises:
      ImportError: safetensors is not installed.
    """
    arrays: Arrays = {}
    for name, array, kept in leaves(params, masks):
        arrays |= {name: array} if kept is None else {f"{name}:{part}": value for part, value in how.encode(array, kept).items()}
    content = require("safetensors.numpy", extra="export").save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    path.write_bytes(gzip.compress(content) if how.zipped else content)
    return path.stat().st_size


def read(path: pathlib.Path, how: Format, params: Any, masks: Any) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """(name, array as the file has it, array as it was) of every leaf; `params` and `masks` are those written."""
    content = path.read_bytes()
    found = require("safetensors.numpy", extra="export").load(gzip.decompress(content) if how.zipped else content)
    for name, array, kept in leaves(params, masks):
        parts = {key.removeprefix(f"{name}:"): value for key, value in found.items() if key.startswith(f"{name}:")}
        yield name, found[name] if kept is None else how.decode(parts, array.shape), array
