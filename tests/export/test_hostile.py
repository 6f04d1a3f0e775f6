"""Damaged and foreign files are refused with one line that names the file, and nothing in them is run or unpickled."""

import dataclasses
import json
import pickle

import numpy as np
import onnx
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import jaxprune as jp
from jaxprune.export.description import describe
from jaxprune.export.stablehlo import serialized, with_description

WRITERS = {"safetensors": jp.export.to_safetensors, "onnx": jp.export.to_onnx, "stablehlo": jp.export.to_stablehlo}


@pytest.fixture(scope="module")
def files(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    for kind, write in WRITERS.items():
        write(*runs["bc weights"], folder / f"policy.{kind}")
    return {kind: (folder / f"policy.{kind}").read_bytes() for kind in WRITERS}


def refused(path, *words):
    with pytest.raises(ValueError, match="expected|reads|missing|damaged") as caught:
        jp.load_policy(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    for word in words:
        assert word in message
    return message


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("part", [0.0, 0.02, 0.5, 0.9, 0.999])
def test_truncated(kind, part, files, tmp_path):
    path = tmp_path / f"policy.{kind}"
    path.write_bytes(files[kind][: int(part * len(files[kind]))])
    refused(path)


@pytest.mark.parametrize("kind", WRITERS)
def test_foreign_bytes(kind, tmp_path):
    path = tmp_path / f"policy.{kind}"
    for content in (b"#!/bin/sh\necho no\n", bytes(4096), pickle.dumps({"weights": [1.0]}), np.random.default_rng(0).bytes(5000)):
        path.write_bytes(content)
        refused(path)


def test_nothing_is_unpickled(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "exploded"), "w"))

    for kind in WRITERS:
        path = tmp_path / f"policy.{kind}"
        path.write_bytes(pickle.dumps(Bomb()))
        refused(path)
    assert not (tmp_path / "exploded").exists()


def contents(files, tmp_path):
    """Arrays and description of the whole safetensors file."""
    path = tmp_path / "whole.safetensors"
    path.write_bytes(files["safetensors"])
    with safe_open(str(path), framework="numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, json.loads(file.metadata()["jaxprune"])  # noqa: SIM118


def rewritten(tmp_path, arrays, described):
    path = tmp_path / "policy.safetensors"
    save_file(arrays, str(path), metadata={"jaxprune": json.dumps(described)})
    return path


def test_rewriting_alone_is_accepted(files, tmp_path):
    """Else the cases below would be refused for the wrong reason."""
    jp.load_policy(rewritten(tmp_path, *contents(files, tmp_path)))


def set_to(value, index=0):
    def change(array):
        array = array.copy()
        array[index] = value
        return array

    return change


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("actor.1.values", set_to(np.nan), ("actor.1.values", "finite")),
        ("actor.1.bias", set_to(-np.inf, 3), ("actor.1.bias", "finite")),
        ("mean", set_to(np.nan), ("mean", "finite")),
        ("std", set_to(0.0), ("std", "positive")),
        ("std", set_to(-1.0), ("std", "positive")),
        ("mean", lambda a: a[:-1], ("mean", "shape [4]", "[3]")),
        ("actor.0.bias", lambda a: a[:-1], ("actor.0.bias", "shape")),
        ("actor.0.bias", lambda a: a.astype(np.float64), ("actor.0.bias", "float32")),
        ("actor.1.values", lambda a: a[:-1], ("actor.1.values", "shape")),
        ("actor.1.inputs", set_to(255), ("actor.1.inputs", "integers in")),
        ("actor.1.inputs", lambda a: a[::-1].copy(), ("actor.1.inputs", "increasing")),
        ("actor.1.inputs", lambda a: a.astype(np.float32), ("actor.1.inputs", "integers")),
        ("actor.1.counts", set_to(200), ("actor.1.counts", "integers in")),
        ("actor.1.counts", lambda a: a[:-1], ("actor.1.counts", "integers in")),
        ("actor.0.units", set_to(24), ("actor.0.units", "integers in")),
        ("actor.1.bias", lambda a: None, ("actor.1.bias is missing",)),
    ],
)
def test_safetensors_with_wrong_arrays(name, change, words, files, tmp_path):
    arrays, described = contents(files, tmp_path)
    changed = change(arrays.pop(name))
    refused(rewritten(tmp_path, arrays if changed is None else arrays | {name: changed}, described), *words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 2}, ("format 2", "reads 1")),
        ({"format": "1"}, ("format '1'",)),
        ({"observation_size": 5}, ("(inputs, outputs)",)),
        ({"observation_size": -4}, ("observation_size", "positive")),
        ({"observation_size": 10**15}, ("(inputs, outputs)",)),
        ({"action_size": 1.5}, ("action_size",)),
        ({"low": [3.0, 3.0]}, ("low < high",)),
        ({"low": [0.0]}, ("bounds",)),
        ({"low": "ab"}, ("low",)),
        ({"head": "sinh"}, ("tanh",)),
        ({"head": "candidates"}, ("damaged",)),
        ({"perceptrons": {}}, ("(inputs, outputs)",)),
        ({"perceptrons": []}, ("damaged",)),
    ],
)
def test_safetensors_with_a_wrong_description(change, words, files, tmp_path):
    arrays, described = contents(files, tmp_path)
    refused(rewritten(tmp_path, arrays, described | change), *words)


@pytest.mark.parametrize(
    ("layer", "change"),
    [
        (0, {"outputs": 3}),
        (1, {"inputs": 10**12}),
        (1, {"stored": "dense"}),
        (2, {"outputs": 1}),
        (0, {"inputs": "4"}),
        (1, {"outputs": -1}),
    ],
)
def test_safetensors_with_wrong_layers(layer, change, files, tmp_path):
    arrays, described = contents(files, tmp_path)
    described["perceptrons"]["actor"]["layers"][layer] |= change
    refused(rewritten(tmp_path, arrays, described))


def test_safetensors_of_someone_else(tmp_path):
    save_file({"weight": np.ones(3, np.float32)}, str(tmp_path / "policy.safetensors"))
    refused(tmp_path / "policy.safetensors", "exported by jaxprune")


@pytest.fixture
def model(files):
    return onnx.load_model_from_string(files["onnx"])


def saved(model, tmp_path):
    (tmp_path / "policy.onnx").write_bytes(model.SerializeToString())
    return tmp_path / "policy.onnx"


def test_onnx_with_nan_weights(model, tmp_path):
    sparse = model.graph.sparse_initializer[0].values
    values = onnx.numpy_helper.to_array(sparse).copy()
    values[1] = np.nan
    sparse.CopyFrom(onnx.numpy_helper.from_array(values, sparse.name))
    refused(saved(model, tmp_path), "finite", sparse.name)


def test_onnx_of_another_version(model, tmp_path):
    model.metadata_props[0].value = json.dumps({"format": 7})
    refused(saved(model, tmp_path), "format 7")


@pytest.mark.parametrize("change", [{"observation_size": 5}, {"action_size": 3}, {"discrete": True}])
def test_onnx_with_a_wrong_description(change, model, tmp_path):
    model.metadata_props[0].value = json.dumps(json.loads(model.metadata_props[0].value) | change)
    refused(saved(model, tmp_path), "observations and actions of shapes")


def test_onnx_of_someone_else(model, tmp_path):
    del model.metadata_props[:]
    refused(saved(model, tmp_path), "exported by jaxprune")


def test_onnx_with_wrong_shapes(model, tmp_path):
    bias = next(tensor for tensor in model.graph.initializer if tensor.name == "actor.0.bias")
    bias.CopyFrom(onnx.numpy_helper.from_array(np.zeros(7, np.float32), bias.name))
    refused(saved(model, tmp_path))


def test_onnx_with_weights_in_another_file(model, tmp_path):
    (tmp_path / "secret").write_bytes(bytes(16))
    mean = next(tensor for tensor in model.graph.initializer if tensor.name == "mean")
    mean.ClearField("raw_data")
    mean.data_location = onnx.TensorProto.EXTERNAL
    mean.external_data.add(key="location", value="secret")
    refused(saved(model, tmp_path), "inside the file")


def test_stablehlo_with_one_changed_byte(files, tmp_path):
    content = bytearray(files["stablehlo"])
    content[len(content) // 2] ^= 1
    (tmp_path / "policy.stablehlo").write_bytes(content)
    refused(tmp_path / "policy.stablehlo", "truncated or changed")


@pytest.mark.parametrize(
    ("change", "words"),
    [({"format": 9}, ("format 9",)), ({"observation_size": 5}, ("observation",)), ({"action_size": 3}, ("actions of shapes",))],
)
def test_stablehlo_with_a_wrong_description(change, words, runs, tmp_path):
    policy = jp.export.read_policy(*runs["bc weights"])
    (tmp_path / "policy.stablehlo").write_bytes(with_description(serialized(policy), describe(policy) | change))
    refused(tmp_path / "policy.stablehlo", *words)


def test_stablehlo_with_nan_weights(runs, tmp_path):
    policy = jp.export.read_policy(*runs["bc weights"])
    policy = dataclasses.replace(policy, mean=np.full(4, np.nan, np.float32))
    (tmp_path / "policy.stablehlo").write_bytes(with_description(serialized(policy), describe(policy)))
    refused(tmp_path / "policy.stablehlo", "finite")


def test_other_endings(tmp_path):
    (tmp_path / "policy.pkl").write_bytes(b"")
    with pytest.raises(ValueError, match=r"expected a file that ends in .safetensors, .onnx, .stablehlo, got '.pkl'"):
        jp.load_policy(tmp_path / "policy.pkl")
    with pytest.raises(ValueError, match="load_c"):
        jp.load_policy(tmp_path / "policy.c")
    with pytest.raises(FileNotFoundError, match="no such file"):
        jp.load_policy(tmp_path / "policy.onnx")
