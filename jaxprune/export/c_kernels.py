"""The C functions that layers call: text, by kind and types."""

from __future__ import annotations

from typing import Any


def sparse_name(kind: str, inputs: str, counts: str) -> str:
    """Name of the function for sparse layers of these types."""
    return f"sparse_{kind}_{inputs}_{counts}".replace("_t", "")


def _sparse_kernel(kind: str, inputs: str, counts: str) -> str:
    whole = kind == "int8_t"
    scales, product = ("const float *scales, ", "(float)") if whole else ("", "")
    return f"""static void {sparse_name(kind, inputs, counts)}(
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


ACTIVATION_FUNCTIONS = {"relu": "relu", "tanh": "hyperbolic"}
KERNELS: dict[str, Any] = {
    "sparse": _sparse_kernel,
    "dense": _dense_kernel,
    "relu": _relu_kernel,
    "tanh": _tanh_kernel,
    "clipped": _clipped_kernel,
}
