"""C99: one source and one header, no heap, no dependency but libm; weights sparse or dense, float32 or int8.

A layer is stored as sparse rows where that takes fewer bytes (see `is_sparse`), else as a dense array, input by input. Hidden units stand
in the order of their row lengths, longest first, so that a processor foresees where rows end. int8 weights have a float32 scale for every
output, the row's largest weight over 127; activations stay float32. Dense layers skip inputs that are exactly zero, as half of them are
behind a ReLU.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

from jaxprune.agents.base import Agent, AgentState
from jaxprune.export.compiling import compile_c
from jaxprune.export.description import FORMAT, check_suffix, write_whole
from jaxprune.export.policy import ExportedPolicy, Layer, Perceptron, read_policy
from jaxprune.export.sparse import is_sparse, sparse_rows
from jaxprune.export.verification import Verification, compare, live_actions, verification_observations

Weights = Literal["float32", "int8"]
WIDTH = 120


class CSource(NamedTuple):
    """A generated policy.

    Attributes:
      source, header: the two files.
      weight_bytes: all constant data: weights, indices, row lengths, scales, biases, statistics, bounds, latents.
      stack_bytes: of the arrays of one call.
      macs: multiply-adds of weights in one call, at most (candidates counted).
    """

    source: str
    header: str
    weight_bytes: int
    stack_bytes: int
    macs: int


def to_c(
    agent: Agent,
    state: AgentState,
    path: str | os.PathLike,
    *,
    weights: Weights = "float32",
    name: str = "policy",
    seed: int = 0,
) -> Verification:
    """Write `path` (NAME.c) and NAME.h beside it, compiled and compared first.

    float32 code must agree with the live policy. int8 code must agree with the policy whose weights are rounded likewise; the difference
    reported is to the live policy and has no bound: judge it by returns.

    Args:
      agent: the algorithm.
      state: of one run.
      path: of the source.
      weights: `float32` or `int8`.
      name: prefix of the functions and macros: NAME_act and NAME_OBSERVATION_SIZE.
      seed: see `read_policy`.

    Raises:
      ValueError: what cannot be exported (see `read_policy`), a name that is no C identifier, or code that does not act as it should;
        nothing is written then.
      FileNotFoundError: no C compiler.
    """
    path, policy = check_suffix(path, ".c"), read_policy(agent, state, seed=seed)
    made = c_source(policy, weights=weights, name=name, header=path.with_suffix(".h").name)
    observations = verification_observations(policy)
    live = live_actions(agent, agent.policy(state), observations, seed=seed)
    with compile_c(made.source, made.header, path.with_suffix(".h").name, policy.spec, name=name) as act:
        got = act(observations)
    if weights == "float32":
        found = compare(got, live, policy, observations, what=str(path))
    else:
        rounded = round_weights(policy)
        compare(got, rounded.act(observations), rounded, observations, what=str(path))
        found = compare(got, live, policy, observations, what=str(path), tolerance=float("inf"))
    write_whole(path.with_suffix(".h"), made.header.encode())
    write_whole(path, made.source.encode())
    return found


def quantized(layer: Layer) -> tuple[np.ndarray, np.ndarray]:
    """int8 weights [in, out] and the float32 scale of every output [out]; weight ≈ scale · int8."""
    largest = np.abs(layer.weight).max(axis=0, initial=0.0)
    scale = np.where(largest > 0, largest / np.float32(127), 1).astype(np.float32)
    return np.clip(np.rint(layer.weight / scale), -127, 127).astype(np.int8), scale


def round_weights(policy: ExportedPolicy) -> ExportedPolicy:
    """The policy with every weight replaced by what int8 keeps of it."""

    def rounded(layer: Layer) -> Layer:
        integers, scale = quantized(layer)
        return dataclasses.replace(layer, weight=integers.astype(np.float32) * scale)

    nets = {name: dataclasses.replace(net, layers=tuple(map(rounded, net.layers))) for name, net in policy.perceptrons.items()}
    return dataclasses.replace(policy, perceptrons=nets)


def c_source(policy: ExportedPolicy, *, weights: Weights = "float32", name: str = "policy", header: str = "policy.h") -> CSource:
    """The source and header of a policy.

    Raises:
      ValueError: a name that is no C identifier, or unknown weights.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise ValueError(f"name={name!r}: expected a C identifier, such as policy")
    if weights not in ("float32", "int8"):
        raise ValueError(f"weights={weights!r}: expected float32 or int8")
    code = _Code(weights, name)
    for net_name, net in policy.perceptrons.items():
        code.perceptron(net_name, net)
    body = _act(code, policy)
    kernels = [_KERNELS[kind](*types) for kind, *types in sorted(code.kernels)]
    about = (
        f"{policy.algorithm}: {policy.spec.observation_size} raw observation features in, "
        f"{'the index of an action' if policy.spec.discrete else f'{policy.spec.action_size} action features in environment units'} out."
    )
    source = "\n".join(
        [
            f"/* Written by jaxprune, format {FORMAT}. {about}",
            f" * {weights} weights; {code.bytes} bytes of constants, {code.stack(policy)} bytes of arrays on the stack, no heap.",
            " * C99, needs libm. */",
            f'#include "{header}"',
            "",
            "#include <math.h>",
            "#include <stdint.h>",
            "",
            *code.constants,
            "",
            *kernels,
            *code.functions,
            body,
        ]
    )
    macs = sum(
        int(layer.kept.sum()) if is_sparse(layer, code.size) else layer.weight.size
        for net in policy.perceptrons.values()
        for layer in net.layers
    )
    repeats = 1 if policy.latents is None else len(policy.latents)
    return CSource(source, _header(policy, name, about), code.bytes, code.stack(policy), macs * repeats)


def _header(policy: ExportedPolicy, name: str, about: str) -> str:
    upper = name.upper()
    if policy.spec.discrete:
        one, many = f"int32_t {name}_act(const float *observation);", "int32_t *actions"
    else:
        one, many = f"void {name}_act(const float *observation, float *action);", "float *actions"
    return f"""/* Written by jaxprune, format {FORMAT}. {about} */
#ifndef {upper}_H
#define {upper}_H

#include <stddef.h>
#include <stdint.h>

#define {upper}_OBSERVATION_SIZE {policy.spec.observation_size}
#define {upper}_ACTION_SIZE {policy.spec.action_size}

#ifdef __cplusplus
extern "C" {{
#endif

/* One observation. Safe to call from several threads. */
{one}

/* count observations, row by row. */
void {name}_act_batch(const float *observations, {many}, size_t count);

#ifdef __cplusplus
}}
#endif

#endif
"""


class _Code:
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
        return hidden + 4 * (inputs + outputs + (0 if policy.latents is None else policy.spec.action_size))

    def array(self, name: str, values: np.ndarray) -> str:
        values = np.ravel(values)
        self.bytes += values.nbytes
        kind = {"f": "float"}.get(values.dtype.kind, f"{values.dtype.name}_t")
        texts = [_float(value) for value in values] if kind == "float" else [str(int(value)) for value in values]
        self.constants.append(f"static const {kind} {name}[{max(values.size, 1)}] = {{\n{_wrapped(texts or ['0'])}}};")
        return name

    def perceptron(self, name: str, net: Perceptron) -> None:
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
                calls.append(f"    {_ACTIVATIONS[net.activation]}({target}, {width});")
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
            function, sizes = _sparse_name(kind, *types), [str(width)]
        else:
            arrays = [self.array(f"{name}_weights", stored)]
            self.kernels.add(("dense", kind))
            function, sizes = f"dense_{kind.replace('_t', '')}", [str(inputs), str(width)]
        if kind == "int8_t":
            arrays.append(self.array(f"{name}_scales", scale))
        arrays.append(self.array(f"{name}_bias", layer.bias))
        return f"{function}({', '.join([*arrays, *sizes, source, target])});"


def _act(code: _Code, policy: ExportedPolicy) -> str:
    """The public functions."""
    size, actions = policy.spec.observation_size, policy.spec.action_size
    for name, values in (("mean", policy.mean), ("deviation", policy.std)):
        code.array(name, values)
    if not policy.spec.discrete:
        middle, half = policy.scale()
        code.array("middle", middle)
        code.array("half_range", half)
    width = max(net.sizes[0] for net in policy.perceptrons.values())
    standard = [
        f"    float input[{width}];",
        "    int i;",
        "",
        f"    for (i = 0; i < {size}; ++i)",
        "        input[i] = (observation[i] - mean[i]) / deviation[i];",
    ]
    if policy.head == "argmax":
        lines = [
            f"int32_t {code.name}_act(const float *observation)",
            "{",
            f"    float output[{actions}];",
            "    int32_t best = 0;",
            *standard,
            "    actor(input, output);",
            f"    for (i = 1; i < {actions}; ++i)",
            "        if (output[i] > output[best])",
            "            best = i;",
            "    return best;",
            "}",
        ]
        call, kind = f"actions[i] = {code.name}_act(observations + i * {size});", "int32_t"
    else:
        call, kind = f"{code.name}_act(observations + i * {size}, actions + i * {actions});", "float"
        head = _candidates(code, policy) if policy.latents is not None else _single(code, policy)
        lines = [
            f"void {code.name}_act(const float *observation, float *action)",
            "{",
            *standard[:1],
            *head[0],
            *standard[1:],
            *head[1],
            "}",
        ]
    batch = [
        "",
        f"void {code.name}_act_batch(const float *observations, {kind} *actions, size_t count)",
        "{",
        "    size_t i;",
        "",
        "    for (i = 0; i < count; ++i)",
        f"        {call}",
        "}",
        "",
    ]
    code.constants.insert(0, f"enum {{ HIDDEN = {code.widest} }};\n")
    return "\n".join([*lines, *batch])


def _single(code: _Code, policy: ExportedPolicy) -> tuple[list[str], list[str]]:
    actions = policy.spec.action_size
    if policy.head == "clip":
        code.kernels.add(("clipped",))
    unit = "tanhf(output[i])" if policy.head == "tanh" else "clipped(output[i])"
    return [f"    float output[{actions}];"], [
        "    actor(input, output);",
        f"    for (i = 0; i < {actions}; ++i)",
        f"        action[i] = middle[i] + half_range[i] * {unit};",
    ]


def _candidates(code: _Code, policy: ExportedPolicy) -> tuple[list[str], list[str]]:
    assert policy.latents is not None
    code.kernels.add(("clipped",))
    code.array("latents", policy.latents)
    count, latent = policy.latents.shape
    size, actions = policy.spec.observation_size, policy.spec.action_size
    start = [f"    float unit[{actions}], output[{actions}], value, best = 0.0f;", "    int k;"]
    return start, [
        f"    for (k = 0; k < {count}; ++k) {{",
        f"        for (i = 0; i < {latent}; ++i)",
        f"            input[{size} + i] = latents[k * {latent} + i];",
        "        decoder(input, unit);",
        f"        for (i = 0; i < {actions}; ++i)",
        f"            input[{size} + i] = unit[i] = tanhf(unit[i]);",
        "        actor(input, output);",
        f"        for (i = 0; i < {actions}; ++i)",
        f"            input[{size} + i] = clipped(unit[i] + {_float(np.float32(policy.phi))} * tanhf(output[i]));",
        "        critic(input, &value);",
        "        if (k == 0 || value > best) {",
        "            best = value;",
        f"            for (i = 0; i < {actions}; ++i)",
        f"                action[i] = middle[i] + half_range[i] * input[{size} + i];",
        "        }",
        "    }",
    ]


def _float(value: Any) -> str:
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


def _sparse_name(kind: str, inputs: str, counts: str) -> str:
    return f"sparse_{kind}_{inputs}_{counts}".replace("_t", "")


def _sparse_kernel(kind: str, inputs: str, counts: str) -> str:
    whole = kind == "int8_t"
    scales, product = ("const float *scales, ", "(float)") if whole else ("", "")
    return f"""static void {_sparse_name(kind, inputs, counts)}(
    const {kind} *values, const {inputs} *inputs, const {counts} *counts, {scales}const float *bias, int rows, const float *x, float *y)
{{
    int r;

    for (r = 0; r < rows; ++r) {{
        const int count = (int)counts[r];
        float even = 0.0f, odd = 0.0f;
        int i;

        for (i = 0; i + 1 < count; i += 2) {{
            even += {product}values[i] * x[inputs[i]];
            odd += {product}values[i + 1] * x[inputs[i + 1]];
        }}
        if (i < count)
            even += {product}values[i] * x[inputs[i]];
        y[r] = bias[r] + {"scales[r] * " if whole else ""}(even + odd);
        values += count;
        inputs += count;
    }}
}}
"""


def _dense_kernel(kind: str) -> str:
    whole = kind == "int8_t"
    scales, product = ("const float *scales, ", "(float)") if whole else ("", "")
    end = "\n    for (r = 0; r < outputs; ++r)\n        y[r] = bias[r] + scales[r] * y[r];" if whole else ""
    return f"""static void dense_{kind.replace("_t", "")}(
    const {kind} *weights, {scales}const float *bias, int inputs, int outputs, const float *restrict x, float *restrict y)
{{
    int i, r;

    for (r = 0; r < outputs; ++r)
        y[r] = {"0.0f" if whole else "bias[r]"};
    for (i = 0; i < inputs; ++i, weights += outputs) {{
        const float scaled = x[i];

        if (scaled == 0.0f)
            continue;
        for (r = 0; r < outputs; ++r)
            y[r] += {product}weights[r] * scaled;
    }}{end}
}}
"""


def _relu_kernel() -> str:
    return """static void relu(float *x, int count)
{
    int i;

    /* A NaN stays one: a broken sensor must not look like an action. */
    for (i = 0; i < count; ++i)
        x[i] = x[i] < 0.0f ? 0.0f : x[i];
}
"""


def _tanh_kernel() -> str:
    return """static void hyperbolic(float *x, int count)
{
    int i;

    for (i = 0; i < count; ++i)
        x[i] = tanhf(x[i]);
}
"""


def _clipped_kernel() -> str:
    return """static float clipped(float x)
{
    return x < -1.0f ? -1.0f : x > 1.0f ? 1.0f : x;
}
"""


_ACTIVATIONS = {"relu": "relu", "tanh": "hyperbolic"}
_KERNELS: dict[str, Any] = {
    "sparse": _sparse_kernel,
    "dense": _dense_kernel,
    "relu": _relu_kernel,
    "tanh": _tanh_kernel,
    "clipped": _clipped_kernel,
}
