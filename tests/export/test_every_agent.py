"""Whatever algorithm says how it is deployed is exported, in every format, without a change here."""

import dataclasses

import jax
import numpy as np
import pytest

import jaxprune as jp
from jaxprune.data.transitions import Spec, Statistics
from jaxprune.export.c99 import c_source
from jaxprune.export.compiling import compile_c
from jaxprune.export.description import describe
from jaxprune.export.onnx import graph
from jaxprune.export.safetensors import arrays, policy_of
from jaxprune.export.stablehlo import serialized, with_description
from jaxprune.export.verification import compare
from tests.export.conftest import SPEC, thinned
from tests.export.test_c99 import STRICT, expected, random_policy

SMALL = {"hidden": (16, 12), "vae_hidden": (16, 12), "evaluation_candidates": 5, "init": "reference"}
FILES = {
    "policy.safetensors": jp.export.to_safetensors,
    "policy.onnx": jp.export.to_onnx,
    "policy.stablehlo": jp.export.to_stablehlo,
    "policy.c": jp.export.to_c,
}


def test_the_largest_value_among_likely_actions(tmp_path):
    """`likely`, on networks made by hand."""
    values, imitation = (random_policy((6, 30, 5), 0.6, head="argmax", discrete=True, seed=seed) for seed in (0, 1))
    nets = {"actor": values.perceptrons["actor"], "imitation": imitation.perceptrons["actor"]}
    policy = dataclasses.replace(values, head="likely", perceptrons=nets, threshold=0.3)
    x = (np.random.default_rng(1).normal(size=(500, 6)) * 20).astype(np.float32)
    scores = expected(values, x)
    logits = expected(dataclasses.replace(values, perceptrons=imitation.perceptrons), x)
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    likely = probabilities / probabilities.max(axis=1, keepdims=True) > 0.3
    right = np.where(likely, scores, -1e9).argmax(axis=1)
    assert 0.1 < (right == scores.argmax(axis=1)).mean() < 0.9
    assert 0.1 < (right == logits.argmax(axis=1)).mean() < 0.95

    made = c_source(policy)
    with compile_c(made.source, made.header, "policy.h", policy.spec, flags=STRICT) as act:
        np.testing.assert_array_equal(act(x), right)
    described = describe(policy)
    np.testing.assert_array_equal(policy_of(arrays(policy), described, "x").act(x), right)
    (tmp_path / "policy.onnx").write_bytes(graph(policy).SerializeToString())
    (tmp_path / "policy.stablehlo").write_bytes(with_description(serialized(policy), described))
    for file in ("policy.onnx", "policy.stablehlo"):
        np.testing.assert_array_equal(jp.load_policy(tmp_path / file)(x), right)
    assert compare(right, right, policy, x, what="x") == (500, 0, 0)
    row = int(np.flatnonzero(right != scores.argmax(axis=1))[0])
    wrong = right.copy()
    wrong[row] = scores[row].argmax()
    with pytest.raises(ValueError, match="x: differs"):
        compare(wrong, right, policy, x, what="x")


@pytest.mark.parametrize("algo", sorted(set(jp.agents.AGENTS) - {"bc", "bcq"}) or ["bc"])
def test_it_is_exported(algo, observations, tmp_path):
    known = {field.name for field in dataclasses.fields(jp.agents.AGENTS[algo][1])}
    spec = Spec(4, 3, (), (), True) if algo.startswith("discrete") else SPEC
    agent = jp.agents.make(algo, spec, **{name: value for name, value in SMALL.items() if name in known})
    if agent.deployment is None:
        pytest.skip(f"{algo} does not say how it is deployed")
    rng = np.random.default_rng(1)
    agent, state = thinned(agent, agent.init(jax.random.key(0), Statistics(rng.normal(size=4), rng.uniform(1, 3, size=4))), 0.6)
    live = np.asarray(agent.act(agent.policy(state), observations, jax.random.key(0)))
    for file, write in FILES.items():
        found = write(agent, state, tmp_path / file)
        assert found.difference <= 1e-5
        policy = jp.export.load_c(tmp_path / file) if file.endswith(".c") else jp.load_policy(tmp_path / file)
        assert np.abs(policy(observations) - live).max() <= 1e-5
