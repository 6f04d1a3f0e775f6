"""What does not act as the agent does is not written."""

import dataclasses
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxprune as jp
from jaxprune.agents.deployment import DeterministicPolicy
from jaxprune.data.transitions import Spec
from jaxprune.export.verification import compare
from tests.export import byhand

WRITERS = {
    "policy.safetensors": jp.export.to_safetensors,
    "policy.onnx": jp.export.to_onnx,
    "policy.stablehlo": jp.export.to_stablehlo,
    "policy.c": jp.export.to_c,
}


@pytest.mark.parametrize("file", WRITERS)
def test_a_wrong_deployment_is_an_error_and_writes_nothing(file, runs, tmp_path):
    agent, state = runs["bc weights"]
    wrong = dataclasses.replace(agent, deployment=DeterministicPolicy("policy", "clip"))
    with pytest.raises(ValueError, match=r"differs from the live policy by 0\.\d+, more than 1e-05; nothing was written"):
        WRITERS[file](wrong, state, tmp_path / file)
    assert not list(tmp_path.iterdir())


def test_a_small_error_in_one_weight_is_found(runs, tmp_path, monkeypatch):
    agent, state = runs["bc weights"]
    policy = jp.export.read_policy(agent, state)
    layer = policy.perceptrons["actor"].layers[1]
    layer.weight[tuple(np.argwhere(layer.kept)[0])] += 1e-3
    monkeypatch.setattr("jaxprune.export.c99.read_policy", lambda *args, **kwargs: policy)
    with pytest.raises(ValueError, match="differs from the live policy"):
        jp.export.to_c(agent, state, tmp_path / "policy.c")


def test_without_a_deployment(runs, tmp_path):
    agent, state = runs["bc weights"]
    with pytest.raises(ValueError, match="bc: expected an agent with a `deployment`, got None"):
        jp.export.to_c(dataclasses.replace(agent, deployment=None), state, tmp_path / "policy.c")


def test_a_failed_run_is_not_exported(runs, tmp_path):
    agent, state = runs["bc weights"]
    params = jax.tree.map(lambda leaf: leaf, state.params)
    params["policy"]["Dense_1"]["bias"] = params["policy"]["Dense_1"]["bias"].at[0].set(jnp.nan)
    with pytest.raises(ValueError, match="policy/Dense_1/bias: expected finite numbers, got NaN"):
        jp.export.to_safetensors(agent, state.replace(params=params), tmp_path / "policy.safetensors")
    assert not list(tmp_path.iterdir())


def test_parameters_that_are_no_perceptron(runs):
    agent, state = runs["bcq weights"]
    wrong = dataclasses.replace(agent, deployment=DeterministicPolicy("vae"))
    with pytest.raises(ValueError, match="vae: expected the layers Dense_0, Dense_1, … .* got encoder, decoder|got decoder, encoder"):
        jp.export.read_policy(wrong, state)


@pytest.mark.parametrize("file", WRITERS)
def test_file_names(file, runs, tmp_path):
    with pytest.raises(ValueError, match=r"expected a file name that ends in"):
        WRITERS[file](*runs["bc weights"], tmp_path / "policy.bin")
    with pytest.raises(ValueError, match=r"is not a folder"):
        WRITERS[file](*runs["bc weights"], tmp_path / "nowhere" / file)


def test_names_in_c(runs, tmp_path):
    with pytest.raises(ValueError, match="expected a C identifier"):
        jp.export.to_c(*runs["bc weights"], tmp_path / "policy.c", name="my policy")
    with pytest.raises(ValueError, match="weights='int4': expected float32 or int8"):
        jp.export.to_c(*runs["bc weights"], tmp_path / "policy.c", weights="int4")


@pytest.mark.parametrize(
    ("file", "module"), [("policy.safetensors", "safetensors.numpy"), ("policy.onnx", "onnxruntime"), ("policy.stablehlo", "flatbuffers")]
)
def test_a_missing_package_says_how_to_get_it(file, module, runs, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"pip install 'jaxprune\[export\]'"):
        WRITERS[file](*runs["bc weights"], tmp_path / file)
    assert not list(tmp_path.iterdir())


def test_a_missing_compiler(runs, tmp_path, monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="expected a C compiler .* set CC"):
        jp.export.to_c(*runs["bc weights"], tmp_path / "policy.c")
    assert not list(tmp_path.iterdir())


def discrete(agent):
    """BC's network read as scores of two actions."""
    mlp = agent.choose

    def choose(params, observations, key):
        return jnp.argmax(mlp(params, observations, key), axis=-1).astype(jnp.int32)

    return dataclasses.replace(agent, spec=Spec(4, 2, (), (), True), choose=choose, deployment=DeterministicPolicy("policy", "argmax"))


@pytest.mark.parametrize("file", WRITERS)
def test_discrete_policies(file, runs, observations, tmp_path):
    agent, state = runs["bc dense"]
    found = WRITERS[file](discrete(agent), state, tmp_path / file)
    assert found.difference == 0
    policy = jp.export.load_c(tmp_path / file) if file.endswith(".c") else jp.load_policy(tmp_path / file)
    actions = policy(observations)
    assert actions.dtype == np.int32
    scores = byhand.perceptron(state.params["policy"], byhand.standard(state, observations))
    np.testing.assert_array_equal(actions, scores.argmax(axis=1))
    assert 0 < actions.mean() < 1


def test_ties_of_candidates_are_not_differences_and_worse_choices_are(runs, observations):
    agent, state = runs["bcq weights"]
    policy = jp.export.read_policy(agent, state, seed=0)
    latents = np.asarray(jax.random.normal(jax.random.key(0), (1, 7, 4)))[0]
    candidates, values = byhand.bcq_candidates(agent, state, observations, latents)
    rows = np.arange(len(candidates))
    best = candidates[rows, values.argmax(axis=1)].astype(np.float32)
    assert compare(best, best, policy, observations, what="x").ties == 0
    gaps = values.max(axis=1) - values[rows, values.argsort(axis=1)[:, -2]]
    row = int(gaps.argmax())
    second = best.copy()
    second[row] = candidates[row, values[row].argsort()[-2]]
    with pytest.raises(ValueError, match="x: differs"):
        compare(second, best, policy, observations, what="x")
    # The same value twice: the critic cannot tell candidates apart once its weights are zero.
    critic = policy.perceptrons["critic"]
    blind = tuple(dataclasses.replace(layer, weight=0 * layer.weight) for layer in critic.layers)
    blind = dataclasses.replace(policy, perceptrons=policy.perceptrons | {"critic": dataclasses.replace(critic, layers=blind)})
    found = compare(second, best, blind, observations, what="x")
    assert (found.ties, found.difference) == (1, 0)
    second[row] += 0.01
    with pytest.raises(ValueError, match="x: differs"):
        compare(second, best, blind, observations, what="x")


def test_nan_actions_differ(runs, observations):
    policy = jp.export.read_policy(*runs["bc weights"])
    actions = np.zeros((300, 2), np.float32)
    broken = actions.copy()
    broken[5, 1] = np.nan
    with pytest.raises(ValueError, match="differs from the live policy by inf"):
        compare(broken, actions, policy, observations, what="x")
    with pytest.raises(ValueError, match=r"expected actions of shape \[300, 2\], got \[300, 1\]"):
        compare(actions[:, :1], actions, policy, observations, what="x")
