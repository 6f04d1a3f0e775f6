"""Every format computes what the full-size parameters compute, and holds no more than it must."""

import json
import subprocess
import sys

import jax
import numpy as np
import onnx
import onnxruntime
import pytest
from safetensors import safe_open

import jaxprune as jp
from tests.export import byhand

WRITERS = {"safetensors": jp.export.to_safetensors, "onnx": jp.export.to_onnx, "stablehlo": jp.export.to_stablehlo, "c": jp.export.to_c}
BC = ["bc dense", "bc weights", "bc units"]


def load(path):
    return jp.export.load_c(path) if path.suffix == ".c" else jp.load_policy(path)


@pytest.fixture(scope="module")
def files(runs, tmp_path_factory):
    """(run, format) -> path, written once."""
    made = {}

    def path(run, kind):
        if (run, kind) not in made:
            made[run, kind] = tmp_path_factory.mktemp("files") / f"policy.{kind}"
            found = WRITERS[kind](*runs[run], made[run, kind])
            assert 0 < found.difference <= 1e-5
        return made[run, kind]

    return path


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("run", BC)
def test_bc_is_the_function_of_the_full_parameters(run, kind, runs, files, observations):
    actions = load(files(run, kind))(observations)
    assert actions.dtype == np.float32
    np.testing.assert_allclose(actions, byhand.bc_actions(*runs[run], observations), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", WRITERS)
def test_bcq_chooses_among_the_candidates_of_the_seed(kind, runs, observations, tmp_path):
    agent, state = runs["bcq weights"]
    path = tmp_path / f"policy.{kind}"
    WRITERS[kind](agent, state, path, seed=5)
    latents = np.asarray(jax.random.normal(jax.random.key(5), (1, 7, 4)))[0]
    candidates, values = byhand.bcq_candidates(agent, state, observations, latents)
    actions = load(path)(observations)
    away = np.abs(candidates - actions[:, None]).max(axis=2)
    assert (away.min(axis=1) <= 1e-5).all()
    # Rounding may decide between candidates whose values agree to float32's precision, and only there.
    assert (values.max(axis=1) - values[np.arange(len(values)), away.argmin(axis=1)] <= 1e-5).all()
    ordered = np.sort(values, axis=1)
    clear = ordered[:, -1] - ordered[:, -2] > 1e-5
    assert clear.mean() > 0.5  # where actions are clipped to their bounds candidates are often equal
    expected = byhand.bcq_actions(agent, state, observations, latents)
    np.testing.assert_allclose(actions[clear], expected[clear], rtol=0, atol=1e-5)
    other = byhand.bcq_actions(agent, state, observations, np.asarray(jax.random.normal(jax.random.key(6), (1, 7, 4)))[0])
    assert np.abs(actions - other).max() > 1e-3


@pytest.mark.parametrize("kind", ["safetensors", "onnx", "stablehlo"])
def test_any_batch_and_a_single_observation(kind, files, observations):
    policy = load(files("bc weights", kind))
    several = policy(observations[:7])
    assert several.shape == (7, 2)
    np.testing.assert_allclose(policy(observations[:1])[0], several[0], rtol=0, atol=1e-6)
    np.testing.assert_allclose(policy(observations[0]), several[0], rtol=0, atol=1e-6)
    assert policy(observations[:0]).shape == (0, 2)
    assert policy.description["observation_size"] == 4
    with pytest.raises(ValueError, match=r"expected observations of shape \[n, 4\] or \[4\], got \[2, 5\]"):
        policy(np.zeros((2, 5)))


def test_safetensors_holds_the_live_weights_and_their_masks(runs, files):
    _, state = runs["bc weights"]
    path = files("bc weights", "safetensors")
    with safe_open(str(path), framework="numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        described = json.loads(file.metadata()["jaxprune"])
    expected = byhand.live_mask(state.masks["policy"])
    assert json.loads(path.with_suffix(".json").read_text()) == described
    assert described["low"] == [-2.0, 0.5]
    assert described["perceptrons"]["actor"]["original_sizes"] == [4, 24, 20, 2]
    np.testing.assert_allclose(arrays["mean"], state.statistics.mean, rtol=1e-7)
    before = np.arange(4)
    for i, mask in enumerate(expected):
        after = arrays[f"actor.{i}.units"] if i < 2 else np.arange(2)
        full, weights = np.zeros_like(mask), np.zeros(mask.shape)
        if f"actor.{i}.values" in arrays:
            inputs, outputs = arrays[f"actor.{i}.inputs"], np.repeat(np.arange(len(after)), arrays[f"actor.{i}.counts"])
            assert inputs.dtype == np.uint8
            assert (arrays[f"actor.{i}.values"] != 0).all()
            full[before[inputs], after[outputs]] = True
            weights[before[inputs], after[outputs]] = arrays[f"actor.{i}.values"]
            np.testing.assert_array_equal(full, mask)
        else:
            weights[np.ix_(before, after)] = arrays[f"actor.{i}.weight"]
        np.testing.assert_array_equal(weights, np.where(mask, state.params["policy"][f"Dense_{i}"]["kernel"], 0))
        before = after
    assert "actor.1.values" in arrays
    stored = sum(array.nbytes for array in arrays.values())
    assert stored < 0.5 * 4 * sum(mask.size for mask in expected)
    assert set(arrays) <= {"mean", "std"} | {
        f"actor.{i}.{k}" for i in range(3) for k in ("values", "inputs", "counts", "weight", "bias", "units")
    }


def test_bcq_exports_one_critic_and_no_encoder(runs, tmp_path):
    jp.export.to_safetensors(*runs["bcq weights"], tmp_path / "policy.safetensors")
    with safe_open(str(tmp_path / "policy.safetensors"), framework="numpy") as file:
        names = set(file.keys())
        critic = file.get_tensor("critic.2.bias")
        latents = file.get_tensor("latents")
    assert {name.split(".")[0] for name in names} == {"mean", "std", "latents", "actor", "decoder", "critic"}
    assert critic.shape == (1,)
    assert np.isclose(critic[0], runs["bcq weights"][1].params["critic"]["Dense_2"]["bias"][0, 0])
    assert latents.shape == (7, 4)
    assert np.abs(latents).max() <= 0.5


def test_onnx_is_plain_and_dynamic(runs, files, observations):
    path = files("bc weights", "onnx")
    model = onnx.load(str(path))
    onnx.checker.check_model(model)
    assert {opset.domain for opset in model.opset_import} == {""}
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert len(model.graph.sparse_initializer) > 0
    for sparse in model.graph.sparse_initializer:
        assert (onnx.numpy_helper.to_array(sparse.values) != 0).all()
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    for count in (1, 5):
        (actions,) = session.run(None, {"observations": observations[:count]})
        np.testing.assert_allclose(actions, byhand.bc_actions(*runs["bc weights"], observations[:count]), rtol=0, atol=1e-5)


def test_onnx_can_be_dense(runs, observations, tmp_path):
    jp.export.to_onnx(*runs["bc weights"], tmp_path / "policy.onnx", sparse=False)
    assert not onnx.load(str(tmp_path / "policy.onnx")).graph.sparse_initializer
    actions = jp.load_policy(tmp_path / "policy.onnx")(observations)
    np.testing.assert_allclose(actions, byhand.bc_actions(*runs["bc weights"], observations), rtol=0, atol=1e-5)


def test_stablehlo_runs_where_this_package_is_not(runs, files, observations, tmp_path):
    np.save(tmp_path / "observations.npy", observations)
    code = f"""
import sys
sys.modules["jaxprune"] = None
import numpy as np
from jax import export
observations = np.load({str(tmp_path / "observations.npy")!r})
call = export.deserialize(bytearray(open({str(files("bc weights", "stablehlo"))!r}, "rb").read())).call
assert call(observations[:2]).shape == (2, 2)
np.save({str(tmp_path / "actions.npy")!r}, call(observations))
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    actions = np.load(tmp_path / "actions.npy")
    np.testing.assert_allclose(actions, byhand.bc_actions(*runs["bc weights"], observations), rtol=0, atol=1e-5)


def test_a_compacted_run_exports_the_same(runs, files, observations, tmp_path):
    agent, state = jp.compact(*runs["bc units"], multiple=8)
    jp.export.to_safetensors(agent, state, tmp_path / "policy.safetensors")
    whole = jp.load_policy(files("bc units", "safetensors"))
    assert jp.load_policy(tmp_path / "policy.safetensors").description == whole.description
    assert (tmp_path / "policy.safetensors").read_bytes() == files("bc units", "safetensors").read_bytes()


def test_unit_pruning_gives_narrow_dense_layers(runs, files):
    layers = jp.load_policy(files("bc units", "safetensors")).description["perceptrons"]["actor"]["layers"]
    live = [mask.any(axis=0).sum() for mask in byhand.live_mask(runs["bc units"][1].masks["policy"])]
    assert [layer["outputs"] for layer in layers] == live
    assert live[0] < 24
    assert {layer["stored"] for layer in layers} == {"dense"}


def test_a_saved_run_exports(runs, observations, tmp_path):
    agent, state = runs["bc weights"]
    jp.save_run(tmp_path / "run", agent, state, {})
    jp.export.to_c(*jp.load_run(tmp_path / "run"), tmp_path / "policy.c")
    actions = jp.export.load_c(tmp_path / "policy.c")(observations)
    np.testing.assert_allclose(actions, byhand.bc_actions(agent, state, observations), rtol=0, atol=1e-5)
