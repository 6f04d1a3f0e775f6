"""ONNX, built node by node: dynamic batch, standard operators of opset 17, no custom ones.

Inputs `observations` [batch, S] float32, raw; output `actions` [batch, A] float32 in environment units, or [batch] int32. Layers whose
kept weights take fewer bytes so are sparse initializers, which ONNX Runtime unpacks when it loads the file; some converters know only
dense ones (`sparse=False`).
"""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import numpy as np

from jaxprune.agents.base import Agent, AgentState
from jaxprune.export.description import check_finite, check_format, check_sizes, check_suffix, describe
from jaxprune.export.loaded import LoadedPolicy
from jaxprune.export.policy import ExportedPolicy, Layer, Perceptron, read_policy
from jaxprune.export.verification import Verification, verify
from jaxprune.files import write_whole
from jaxprune.optional import require

OPSET, IR_VERSION = 17, 8
SPARSE_ENTRY = 12  # bytes: a float32 and ONNX's int64 position


def to_onnx(agent: Agent, state: AgentState, path: str | os.PathLike, *, seed: int = 0, sparse: bool = True) -> Verification:
    """Write `path` (NAME.onnx), checked by ONNX's own checker and run by ONNX Runtime.

    Args:
      agent: the algorithm.
      state: of one run.
      path: of the file.
      seed: see `read_policy`.
      sparse: False stores every layer dense.

    Raises:
      ValueError: what cannot be exported (see `read_policy`), or a file that does not act as the agent does; nothing is written then.
      ImportError: onnx or onnxruntime is not installed.
    """
    onnx = require("onnx", extra="export")
    require("onnxruntime", extra="export")
    path, policy = check_suffix(path, ".onnx"), read_policy(agent, state, seed=seed)
    model = graph(policy, sparse=sparse)
    onnx.checker.check_model(model)
    content = model.SerializeToString(deterministic=True)
    found = verify(_function(content, path), agent, state, policy, what=str(path))
    write_whole(path, content)
    return found


def graph(policy: ExportedPolicy, *, sparse: bool = True) -> Any:
    """The model of a policy, an `onnx.ModelProto`."""
    from onnx import TensorProto, helper

    builder = _Builder(sparse=sparse)
    standard = builder.node(
        "Div", builder.node("Sub", "observations", builder.constant("mean", policy.mean)), builder.constant("std", policy.std)
    )
    if policy.spec.discrete:
        scores = builder.perceptron("actor", policy.perceptrons["actor"], standard)
        if policy.head == "likely":
            logits = builder.perceptron("imitation", policy.perceptrons["imitation"], standard)
            likelihood = builder.node("Exp", builder.node("Sub", logits, builder.node("ReduceMax", logits, axes=[1])))
            likely = builder.node("Greater", likelihood, builder.constant("threshold", np.float32(policy.threshold)))
            scores = builder.node("Where", likely, scores, builder.constant("never", np.float32(-np.inf)))
        largest = builder.node("ArgMax", scores, axis=1, keepdims=0)
        builder.node("Cast", largest, to=TensorProto.INT32, output="actions")
        output = helper.make_tensor_value_info("actions", TensorProto.INT32, ["batch"])
    else:
        unit = _candidates(builder, policy, standard) if policy.latents is not None else _unit(builder, policy, standard)
        middle, half = policy.scale()
        builder.node("Add", builder.node("Mul", unit, builder.constant("half", half)), builder.constant("middle", middle), output="actions")
        output = helper.make_tensor_value_info("actions", TensorProto.FLOAT, ["batch", policy.spec.action_size])
    made = helper.make_graph(
        builder.nodes,
        "policy",
        [helper.make_tensor_value_info("observations", TensorProto.FLOAT, ["batch", policy.spec.observation_size])],
        [output],
        initializer=builder.dense,
        sparse_initializer=builder.sparse,
    )
    model = helper.make_model(made, producer_name="jaxprune", ir_version=IR_VERSION, opset_imports=[helper.make_opsetid("", OPSET)])
    helper.set_model_props(model, {"jaxprune": json.dumps(describe(policy))})
    return model


def _unit(builder: _Builder, policy: ExportedPolicy, standard: str) -> str:
    outputs = builder.perceptron("actor", policy.perceptrons["actor"], standard)
    return builder.node("Tanh", outputs) if policy.head == "tanh" else builder.clipped(outputs)


def _candidates(builder: _Builder, policy: ExportedPolicy, standard: str) -> str:
    assert policy.latents is not None
    count, latent = policy.latents.shape
    nets = policy.perceptrons
    batch = builder.node("Slice", builder.node("Shape", standard), builder.constant("zero", [0]), builder.constant("one", [1]))
    alike = builder.node("Concat", batch, builder.constant("table_shape", [count, latent]), axis=0)
    latents = builder.node("Expand", builder.constant("latents", policy.latents[None]), alike)
    single = builder.node("Unsqueeze", standard, builder.constant("one", [1]))
    observations = builder.node("Expand", single, builder.constant("repeats", [1, count, 1]))
    decoded = builder.node("Tanh", builder.perceptron("decoder", nets["decoder"], builder.node("Concat", observations, latents, axis=2)))
    moved = builder.node("Tanh", builder.perceptron("actor", nets["actor"], builder.node("Concat", observations, decoded, axis=2)))
    phi = builder.constant("phi", np.float32(policy.phi))
    actions = builder.clipped(builder.node("Add", decoded, builder.node("Mul", moved, phi)))
    values = builder.perceptron("critic", nets["critic"], builder.node("Concat", observations, actions, axis=2))
    best = builder.node("ArgMax", builder.node("Squeeze", values, builder.constant("two", [2])), axis=1, keepdims=1)
    return builder.node("GatherND", actions, best, batch_dims=1)


class _Builder:
    """Nodes and initializers in the order they are asked for."""

    def __init__(self, *, sparse: bool):
        self.allow_sparse = sparse
        self.nodes: list[Any] = []
        self.dense: list[Any] = []
        self.sparse: list[Any] = []
        self.known: set[str] = set()

    def node(self, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        from onnx import helper

        output = output or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def constant(self, name: str, value: Any) -> str:
        from onnx import numpy_helper

        if name not in self.known:
            self.known.add(name)
            array = np.asarray(value)
            self.dense.append(numpy_helper.from_array(array.astype(np.int64) if array.dtype.kind == "i" else array, name))
        return name

    def weight(self, name: str, layer: Layer) -> str:
        from onnx import helper, numpy_helper

        kept = int(layer.kept.sum())
        if not self.allow_sparse or not kept or SPARSE_ENTRY * kept >= layer.weight.nbytes:
            return self.constant(name, layer.weight)
        places = np.flatnonzero(layer.kept).astype(np.int64)
        values, indices = numpy_helper.from_array(layer.weight.ravel()[places], name), numpy_helper.from_array(places, f"{name}_places")
        self.sparse.append(helper.make_sparse_tensor(values, indices, layer.weight.shape))
        return name

    def perceptron(self, name: str, net: Perceptron, x: str) -> str:
        for index, layer in enumerate(net.layers):
            if index:
                x = self.node("Relu" if net.activation == "relu" else "Tanh", x)
            x = self.node("MatMul", x, self.weight(f"{name}.{index}.weight", layer))
            x = self.node("Add", x, self.constant(f"{name}.{index}.bias", layer.bias))
        return x

    def clipped(self, x: str) -> str:
        return self.node("Clip", x, self.constant("minus_one", np.float32(-1)), self.constant("plus_one", np.float32(1)))


def load(path: pathlib.Path) -> LoadedPolicy:
    """A policy that ONNX Runtime computes, on one thread.

    Raises:
      ValueError: a damaged file, one of another version, or one whose weights lie in other files.
      ImportError: onnx or onnxruntime is not installed.
    """
    onnx = require("onnx", extra="export")
    content = path.read_bytes()
    try:
        model = onnx.load_model_from_string(content)
        props = {entry.key: entry.value for entry in model.metadata_props}
        described = check_format(json.loads(props.get("jaxprune", "null")), path)
        tensors = [*model.graph.initializer, *(sparse.values for sparse in model.graph.sparse_initializer)]
        if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in tensors):
            raise ValueError(f"{path}: expected all weights inside the file, got references to other files")
        for tensor in (tensor for tensor in tensors if tensor.name != "never"):
            check_finite(tensor.name, onnx.numpy_helper.to_array(tensor), path)
        onnx.checker.check_model(model)
        shapes = (value.type.tensor_type.shape.dim[1:] for value in (*model.graph.input, *model.graph.output))
        check_sizes(tuple(tuple(dim.dim_value for dim in shape) for shape in shapes), described, path)
    except ValueError as error:
        raise error if str(error).startswith(str(path)) else _damaged(path, error) from error
    except Exception as error:  # protobuf's DecodeError and the checker's ValidationError have no common base
        raise _damaged(path, error) from error
    return LoadedPolicy(described, _function(content, path))


def _damaged(path: pathlib.Path, error: Exception) -> ValueError:
    reason = " ".join(str(error).split())
    return ValueError(f"{path}: expected a whole ONNX file ({reason[:200]}); copy it again or export the run again")


def _function(content: bytes, path: pathlib.Path) -> Any:
    runtime = require("onnxruntime", extra="export")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # each of the runtime's errors is its own subclass of RuntimeError
        raise _damaged(path, error) from error
    return lambda observations: session.run(None, {"observations": observations})[0]
