"""The constants of layers as C, and the calls that compute them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from jaxprune.export.c_kernels import ACTIVATION_FUNCTIONS, sparse_name
from jaxprune.export.policy import ExportedPolicy, Layer, Perceptron
from jaxprune.export.quantization import quantized
from jaxprune.export.sparse import is_sparse, sparse_rows

Weights = Literal["float32", "int8"]
WIDTH = 120


class Code:
    """Constants and functions as they accumulate."""

    def __init__(self, weights: Weights, name: str):
        self.weights, self.name = weights, name
        self.size = 4 if weights == "float32" else 1
        self.constants: list[str] = []
        self.functions: list[str] = []
        self.kernels: set[tuple[str, ...]] = set()
        self.bytes = 0
        self.widest = 1

    def stack(self, policy: ExportedPolicy) -> int:
        """Bytes of the arrays of one call."""
        hidden = 2 * self.widest * 4
        inputs = max(net.sizes[0] for net in policy.perceptrons.values())
        outputs = max(net.sizes[-1] for net in policy.perceptrons.values())
        return hidden + 4 * (inputs + outputs + (policy.spec.action_size if len(policy.perceptrons) > 1 else 0))

    def array(self, name: str, values: np.ndarray) -> str:
        """A constant array; its name."""
        values = np.ravel(values)
        self.bytes += values.nbytes
        kind = {"f": "float"}.get(values.dtype.kind, f"{values.dtype.name}_t")
        texts = [c_float(value) for value in values] if kind == "float" else [str(int(value)) for value in values]
        self.constants.append(f"static const {kind} {name}[{max(values.size, 1)}] = {{\n{_wrapped(texts or ['0'])}}};")
        return name

    def perceptron(self, name: str, net: Perceptron) -> None:
        """A function (input, output) of one perceptron and the constants of its layers."""
        calls, source = [], "input"
        order = np.arange(net.layers[0].weight.shape[0])
        last = len(net.layers) - 1
        for index, layer in enumerate(net.layers):
            layer = Layer(layer.weight[order], layer.kept[order], layer.bias)
            width = layer.weight.shape[1]
            order = np.arange(width)
            if index < last:
                order = np.argsort(-layer.kept.sum(axis=0), kind="stable")
                layer = Layer(layer.weight[:, order], layer.kept[:, order], layer.bias[order])
                self.widest = max(self.widest, width)
            target = "output" if index == last else f"hidden{index % 2}"
            calls.append(f"    {self.layer(f'{name}_{index}', layer, source, target)}")
            if index < last:
                self.kernels.add((net.activation,))
                calls.append(f"    {ACTIVATION_FUNCTIONS[net.activation]}({target}, {width});")
            source = target
        used = sorted({f"hidden{index % 2}" for index in range(last)})
        buffers = [f"    float {', '.join(f'{b}[HIDDEN]' for b in used)};"] if used else []
        self.functions += ["\n".join([f"static void {name}(const float *input, float *output)", "{", *buffers, *calls, "}", ""])]

    def layer(self, name: str, layer: Layer, source: str, target: str) -> str:
        """Constants of one layer; the call that computes it."""
        inputs, width = layer.weight.shape
        integers, scale = quantized(layer)
        stored = layer.weight if self.weights == "float32" else integers
        kind = "float" if self.weights == "float32" else "int8_t"
        if is_sparse(layer, self.size):
            rows = sparse_rows(layer)
            outputs = np.repeat(np.arange(width), rows.counts)
            arrays = [
                self.array(f"{name}_values", stored[rows.inputs, outputs]),
                self.array(f"{name}_inputs", rows.inputs),
                self.array(f"{name}_counts", rows.counts),
            ]
            types = (f"{rows.inputs.dtype.name}_t", f"{rows.counts.dtype.name}_t")
            self.kernels.add(("sparse", kind, *types))
            function, sizes = sparse_name(kind, *types), [str(width)]
        else:
            arrays = [self.array(f"{name}_weights", stored)]
            self.kernels.add(("dense", kind))
            function, sizes = f"dense_{kind.replace('_t', '')}", [str(inputs), str(width)]
        if kind == "int8_t":
            arrays.append(self.array(f"{name}_scales", scale))
        arrays.append(self.array(f"{name}_bias", layer.bias))
        return f"{function}({', '.join([*arrays, *sizes, source, target])});"


def c_float(value: Any) -> str:
    """A float32 literal that reads back as the same bits."""
    text = f"{float(value):.9g}"
    return (text if any(mark in text for mark in ".en") else f"{text}.0") + "f"


def _wrapped(texts: list[str]) -> str:
    return "".join(f"    {line}\n" for line in _lines(texts))


def _lines(texts: list[str]) -> Iterator[str]:
    line = ""
    for text in texts:
        if line and len(line) + len(text) + 2 > WIDTH:
            yield line
            line = ""
        line += f"{' ' if line else ''}{text},"
    yield line
