"""int8 weights: a float32 scale for every output."""

from __future__ import annotations

import dataclasses

import numpy as np

from jaxprune.export.policy import ExportedPolicy, Layer


def quantized(layer: Layer) -> tuple[np.ndarray, np.ndarray]:
    """int8 weights [in, out] and the float32 scale of every output [out]; weight ≈ scale · int8."""
    largest = np.abs(layer.weight).max(axis=0, initial=0.0)
    scale = (largest / np.float32(127)).astype(np.float32)
    scale = np.where(scale > 0, scale, np.float32(1))
    return np.clip(np.rint(layer.weight / scale), -127, 127).astype(np.int8), scale


def round_weights(policy: ExportedPolicy) -> ExportedPolicy:
    """The policy with every weight replaced by what int8 keeps of it."""

    def rounded(layer: Layer) -> Layer:
        integers, scale = quantized(layer)
        return dataclasses.replace(layer, weight=integers.astype(np.float32) * scale)

    nets = {name: dataclasses.replace(net, layers=tuple(map(rounded, net.layers))) for name, net in policy.perceptrons.items()}
    return dataclasses.replace(policy, perceptrons=nets)
