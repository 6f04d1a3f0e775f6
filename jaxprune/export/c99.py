"""C99: one source and one header, no heap, no dependency but libm; weights sparse or dense, float32 or int8.

A layer is stored as sparse rows where that takes fewer bytes (see `is_sparse`), else as a dense array, input by input. Hidden units stand
in the order of their row lengths, longest first, so that a processor foresees where rows end. int8 weights have a float32 scale for every
output, the row's largest weight over 127; activations stay float32. Dense layers skip inputs that are exactly zero, as half of them are
behind a ReLU.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

import numpy as np

from jaxprune.agents.base import Agent, AgentState
from jaxprune.export.c_code import Code, Weights, c_float
from jaxprune.export.c_kernels import KERNELS
from jaxprune.export.compiling import compile_c
from jaxprune.export.description import FORMAT, check_suffix
from jaxprune.export.policy import ExportedPolicy, read_policy
from jaxprune.export.quantization import round_weights
from jaxprune.export.sparse import is_sparse
from jaxprune.export.verification import Verification, compare, live_actions, verification_observations
from jaxprune.files import write_whole


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
    write_whole(path.with_suffix(".h"), made.header)
    write_whole(path, made.source)
    return found


def c_source(policy: ExportedPolicy, *, weights: Weights = "float32", name: str = "policy", header: str = "policy.h") -> CSource:
    """The source and header of a policy.

    Raises:
      ValueError: a name that is no C identifier, or unknown weights.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise ValueError(f"name={name!r}: expected a C identifier, such as policy")
    if weights not in ("float32", "int8"):
        raise ValueError(f"weights={weights!r}: expected float32 or int8")
    code = Code(weights, name)
    for net_name, net in policy.perceptrons.items():
        code.perceptron(net_name, net)
    body = _act(code, policy)
    kernels = [KERNELS[kind](*types) for kind, *types in sorted(code.kernels)]
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


def _act(code: Code, policy: ExportedPolicy) -> str:
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
    if policy.spec.discrete:
        lines = _discrete(code, policy, standard)
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


def _discrete(code: Code, policy: ExportedPolicy, standard: list[str]) -> list[str]:
    actions, likely = policy.spec.action_size, policy.head == "likely"
    largest = [
        "    imitation(input, logits);",
        f"    for (i = 1; i < {actions}; ++i)",
        "        if (logits[i] > logits[likeliest])",
        "            likeliest = i;",
        "    best = likeliest;",
    ]
    better = f"expf(logits[i] - logits[likeliest]) > {c_float(np.float32(policy.threshold))} && output[i] > output[best]"
    return [
        f"int32_t {code.name}_act(const float *observation)",
        "{",
        f"    float output[{actions}]{f', logits[{actions}]' if likely else ''};",
        f"    int32_t best = 0{', likeliest = 0' if likely else ''};",
        *standard,
        "    actor(input, output);",
        *(largest if likely else []),
        f"    for (i = {0 if likely else 1}; i < {actions}; ++i)",
        f"        if ({better if likely else 'output[i] > output[best]'})",
        "            best = i;",
        "    return best;",
        "}",
    ]


def _single(code: Code, policy: ExportedPolicy) -> tuple[list[str], list[str]]:
    actions = policy.spec.action_size
    if policy.head == "clip":
        code.kernels.add(("clipped",))
    unit = "tanhf(output[i])" if policy.head == "tanh" else "clipped(output[i])"
    return [f"    float output[{actions}];"], [
        "    actor(input, output);",
        f"    for (i = 0; i < {actions}; ++i)",
        f"        action[i] = middle[i] + half_range[i] * {unit};",
    ]


def _candidates(code: Code, policy: ExportedPolicy) -> tuple[list[str], list[str]]:
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
        f"            input[{size} + i] = clipped(unit[i] + {c_float(np.float32(policy.phi))} * tanhf(output[i]));",
        "        critic(input, &value);",
        "        if (k == 0 || value > best) {",
        "            best = value;",
        f"            for (i = 0; i < {actions}; ++i)",
        f"                action[i] = middle[i] + half_range[i] * input[{size} + i];",
        "        }",
        "    }",
    ]
