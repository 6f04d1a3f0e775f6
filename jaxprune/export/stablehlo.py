"""StableHLO by `jax.export`: any batch size, on CPU, GPU and TPU, for a process that has JAX and not this package.

    exported = jax.export.deserialize(open("policy.stablehlo", "rb").read())
    actions = exported.call(observations)  # [n, S] float32, raw -> [n, A]

After the serialized program, where JAX does not read, stand the description, its length and a SHA-256 of all before it: `load` uses them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
import struct
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxprune.agents.base import Agent, AgentState
from jaxprune.export.description import check_finite, check_format, check_sizes, check_suffix, describe
from jaxprune.export.loaded import LoadedPolicy
from jaxprune.export.policy import ExportedPolicy, Layer, read_policy
from jaxprune.export.sparse import index_type
from jaxprune.export.verification import Verification, verify
from jaxprune.files import write_whole
from jaxprune.optional import require

PLATFORMS = ("cpu", "cuda", "tpu")
MAGIC = b"jaxprune"


def to_stablehlo(agent: Agent, state: AgentState, path: str | os.PathLike, *, seed: int = 0) -> Verification:
    """Write `path` (NAME.stablehlo).

    Args:
      agent: the algorithm.
      state: of one run.
      path: of the file.
      seed: see `read_policy`.

    Raises:
      ValueError: what cannot be exported (see `read_policy`), or a file that does not act as the agent does; nothing is written then.
      ImportError: flatbuffers is not installed.
    """
    require("flatbuffers", extra="export")
    path, policy = check_suffix(path, ".stablehlo"), read_policy(agent, state, seed=seed)
    content = with_description(serialized(policy), describe(policy))
    found = verify(_function(_deserialized(content)), agent, state, policy, what=str(path))
    write_whole(path, content)
    return found


def serialized(policy: ExportedPolicy) -> bytes:
    """The program [batch, S] float32 -> [batch, A], with the weights in it and full float32 products on every platform."""
    from jax import export

    def act(observations):
        nets = {name: dataclasses.replace(net, layers=tuple(map(_unpacked, net.layers))) for name, net in policy.perceptrons.items()}
        return dataclasses.replace(policy, perceptrons=nets).act(observations, jnp)

    (batch,) = export.symbolic_shape("batch")
    shape: Any = jax.ShapeDtypeStruct((batch, policy.spec.observation_size), jnp.float32)
    with jax.default_matmul_precision("highest"), jax.enable_x64(False):
        return bytes(export.export(jax.jit(act), platforms=PLATFORMS)(shape).serialize())


def _unpacked(layer: Layer) -> Any:
    """The layer, its weights put in place by the program where that takes fewer bytes; XLA does so once, when it compiles."""
    places = np.flatnonzero(layer.kept).astype(index_type(max(layer.kept.size - 1, 0)))
    if not places.size or places.nbytes + 4 * places.size >= layer.weight.nbytes:
        return layer
    flat = jnp.zeros(layer.weight.size, layer.weight.dtype)
    flat = flat.at[jnp.asarray(places).astype(jnp.int32)].set(
        layer.weight.ravel()[places], unique_indices=True, indices_are_sorted=True, mode="promise_in_bounds"
    )
    return dataclasses.replace(layer, weight=flat.reshape(layer.weight.shape))


def with_description(program: bytes, described: dict[str, Any]) -> bytes:
    """The file of a program."""
    text = json.dumps(described).encode()
    body = program + text + struct.pack("<Q", len(text))
    return body + hashlib.sha256(body).digest() + MAGIC


def load(path: pathlib.Path) -> LoadedPolicy:
    """A policy that JAX compiles, once for each batch size.

    Raises:
      ValueError: a damaged file, or one of another version.
      ImportError: flatbuffers is not installed.
    """
    require("flatbuffers", extra="export")
    content = path.read_bytes()
    tail = 8 + 32 + len(MAGIC)
    body, digest = content[: -32 - len(MAGIC)], content[-32 - len(MAGIC) : -len(MAGIC)]
    if len(content) < tail or not content.endswith(MAGIC) or hashlib.sha256(body).digest() != digest:
        raise ValueError(f"{path}: expected a whole file written by jaxprune.export, got a truncated or changed one; copy it again")
    (length,) = struct.unpack("<Q", body[-8:])
    described = check_format(json.loads(body[-8 - length : -8]), path)
    exported = _deserialized(content)
    sizes = tuple(tuple(aval.shape[1:]) for aval in (*exported.in_avals, *exported.out_avals))
    check_sizes(sizes, described, path)
    function = _function(exported)
    check_finite("the action at an observation of zeros", function(np.zeros((1, described["observation_size"]), np.float32)), path)
    return LoadedPolicy(described, function)


def _deserialized(content: bytes) -> Any:
    from jax import export

    return export.deserialize(bytearray(content))


def _function(exported: Any) -> Any:
    call = jax.jit(exported.call)
    return lambda observations: np.asarray(call(observations))
