"""Sparse rows: which layers are stored sparse, and in what index type."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxprune.export.policy import Layer


class Rows(NamedTuple):
    """The kept weights of a layer, output by output (CSR with the row lengths in place of their running sum).

    Attributes:
      values: [kept] float32.
      inputs: [kept], the input of each, increasing within an output; smallest unsigned type that fits.
      counts: [out], how many each output has; smallest unsigned type that fits.
    """

    values: np.ndarray
    inputs: np.ndarray
    counts: np.ndarray


def index_type(largest: int) -> type[np.unsignedinteger]:
    """uint8, uint16 or uint32: the smallest that holds `largest`."""
    return next(kind for kind in (np.uint8, np.uint16, np.uint32) if largest <= np.iinfo(kind).max)


def sparse_rows(layer: Layer) -> Rows:
    """The rows of a layer."""
    outputs, inputs = np.nonzero(layer.kept.T)
    counts = np.bincount(outputs, minlength=layer.kept.shape[1])
    return Rows(
        layer.weight[inputs, outputs],
        inputs.astype(index_type(max(layer.kept.shape[0] - 1, 0))),
        counts.astype(index_type(int(counts.max(initial=0)))),
    )


def dense_layer(rows: Rows, bias: np.ndarray, inputs: int) -> Layer:
    """The layer of some rows, which are trusted to fit."""
    weight, kept = np.zeros((inputs, len(rows.counts)), np.float32), np.zeros((inputs, len(rows.counts)), bool)
    outputs = np.repeat(np.arange(len(rows.counts)), rows.counts)
    weight[rows.inputs, outputs], kept[rows.inputs, outputs] = rows.values, True
    return Layer(weight, kept, bias)


def sparse_bytes(layer: Layer, weight_bytes: int = 4) -> int:
    """Bytes of a layer's weights as sparse rows, biases not counted."""
    rows = sparse_rows(layer)
    return rows.values.size * weight_bytes + rows.inputs.nbytes + rows.counts.nbytes


def dense_bytes(layer: Layer, weight_bytes: int = 4) -> int:
    """Bytes of a layer's weights as a dense array, biases not counted."""
    return layer.weight.size * weight_bytes


def is_sparse(layer: Layer, weight_bytes: int = 4) -> bool:
    """The rule: a layer is stored sparse where that takes fewer bytes."""
    return sparse_bytes(layer, weight_bytes) < dense_bytes(layer, weight_bytes)
