"""The C file, compiled by the strictest compiler at hand and compared with numbers computed by hand."""

import dataclasses
import itertools
import re
import shutil
import subprocess

import numpy as np
import pytest

import jaxprune as jp
from jaxprune.data.transitions import Spec
from jaxprune.export.c99 import c_source
from jaxprune.export.compiling import compile_c
from jaxprune.export.policy import ExportedPolicy, Layer, Perceptron
from tests.export import byhand

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not here")
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wshadow", "-Wconversion", "-O1")
SANITIZERS = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

MAIN = """
#include <stdio.h>
#include "policy.h"

int main(void)
{
    float observation[POLICY_OBSERVATION_SIZE], action[POLICY_ACTION_SIZE];

    while (fread(observation, sizeof observation, 1, stdin) == 1) {
        policy_act(observation, action);
        if (fwrite(action, sizeof action, 1, stdout) != 1)
            return 1;
    }
    return 0;
}
"""


def run_program(folder, observations, *flags):
    """Compile NAME.c with a main program of its own and feed it the observations."""
    (folder / "main.c").write_text(MAIN)
    command = ["gcc", *STRICT, *flags, "-o", "program", "policy.c", "main.c", "-lm"]
    subprocess.run(command, cwd=folder, check=True, timeout=100)
    done = subprocess.run([folder / "program"], input=observations.tobytes(), capture_output=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr.decode()[:2000]
    return np.frombuffer(done.stdout, np.float32).reshape(len(observations), -1)


def int8_by_hand(params):
    """Every kernel column rounded to multiples of its largest weight / 127."""
    out = {}
    for name, layer in params.items():
        kernel = np.asarray(layer["kernel"])
        step = np.abs(kernel).max(axis=0) / 127
        step[step == 0] = 1
        out[name] = {"kernel": np.round(kernel / step) * step, "bias": layer["bias"]}
    return out


@pytest.fixture(scope="module")
def many():
    return (np.random.default_rng(5).normal(size=(10_000, 11)) * 3).astype(np.float32)


def test_ten_thousand_observations_of_the_256_256_policy(large, many, tmp_path):
    agent, state = large
    found = jp.export.to_c(agent, state, tmp_path / "policy.c")
    assert found.difference <= 1e-5
    actions = run_program(tmp_path, many, *SANITIZERS)
    np.testing.assert_allclose(actions, byhand.bc_actions(agent, state, many), rtol=0, atol=1e-5)


def test_int8_of_the_256_256_policy(large, many, tmp_path):
    agent, state = large
    found = jp.export.to_c(agent, state, tmp_path / "policy.c", weights="int8")
    actions = run_program(tmp_path, many, *SANITIZERS)
    rounded = state.replace(params={"policy": int8_by_hand(state.params["policy"])})
    np.testing.assert_allclose(actions, byhand.bc_actions(agent, rounded, many), rtol=0, atol=1e-5)
    away = np.abs(actions - byhand.bc_actions(agent, state, many)).max()
    assert 1e-4 < away < 0.1
    assert 1e-4 < found.difference < 0.1


def test_bytes_of_the_256_256_policy(large):
    policy = jp.export.read_policy(*large)
    dense = 4 * (11 * 256 + 256 + 256 * 256 + 256 + 256 * 3 + 3)
    assert int(sum(np.asarray(layer["kernel"] != 0).sum() for layer in large[1].params["policy"].values())) == 3456
    for weights, most in (("float32", dense / 9), ("int8", dense / 20)):
        made = c_source(policy, weights=weights)
        declared = re.findall(r"static const (\w+) \w+\[(\d+)\]", made.source)
        sizes = {"float": 4, "int8_t": 1, "uint8_t": 1, "uint16_t": 2, "uint32_t": 4}
        counted = sum(sizes[kind] * int(count) for kind, count in declared)
        assert made.weight_bytes == counted <= most


def test_it_needs_libm_and_nothing_else(large, tmp_path):
    jp.export.to_c(*large, tmp_path / "policy.c")
    subprocess.run(["gcc", *STRICT, "-c", "policy.c"], cwd=tmp_path, check=True)
    symbols = subprocess.run(["nm", "--undefined-only", "policy.o"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert set(symbols.split()) - {"U"} == {"tanhf"}
    writable = subprocess.run(["nm", "policy.o"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert not re.findall(r" [bBdD] ", writable), "state that calls would share"


def test_bcq_under_sanitizers(runs, observations, tmp_path):
    agent, state = runs["bcq weights"]
    jp.export.to_c(agent, state, tmp_path / "policy.c")
    actions = run_program(tmp_path, observations, *SANITIZERS)
    np.testing.assert_array_equal(actions, jp.export.load_c(tmp_path / "policy.c", flags=("-O1",))(observations))


def random_policy(sizes, density, *, head="tanh", activation="relu", discrete=False, seed=0):
    rng = np.random.default_rng(seed)
    layers = []
    for inputs, outputs in itertools.pairwise(sizes):
        kept = rng.random((inputs, outputs)) < density
        weight = np.where(kept, rng.normal(size=kept.shape) / np.sqrt(max(1, density * inputs)), 0).astype(np.float32)
        layers.append(Layer(weight, kept, rng.normal(size=outputs).astype(np.float32)))
    actions = sizes[-1]
    spec = Spec(sizes[0], actions, (), (), True) if discrete else Spec(sizes[0], actions, [-1e-3] * actions, [400.0] * actions)
    mean, std = rng.normal(size=sizes[0]).astype(np.float32), rng.uniform(0.1, 9, size=sizes[0]).astype(np.float32)
    units = tuple(np.arange(size, dtype=np.int32) for size in sizes[1:-1])
    return ExportedPolicy("test", spec, mean, std, head, {"actor": Perceptron(tuple(layers), activation, units, tuple(sizes))})


def expected(policy, observations):
    x = (observations.astype(np.float64) - policy.mean) / policy.std
    net = policy.perceptrons["actor"]
    for i, layer in enumerate(net.layers):
        if i:
            x = np.tanh(x) if net.activation == "tanh" else x * (x > 0)
        x = x @ layer.weight.astype(np.float64) + layer.bias
    if policy.head == "argmax":
        return x
    unit = np.tanh(x) if policy.head == "tanh" else np.minimum(1, np.maximum(-1, x))
    low, high = np.asarray(policy.spec.low), np.asarray(policy.spec.high)
    return low + (unit + 1) / 2 * (high - low)


@pytest.mark.parametrize(
    ("sizes", "density", "options"),
    [
        ((5, 2), 1.0, {}),  # no hidden layer
        ((3, 300, 300, 4), 0.1, {}),  # 16-bit inputs
        ((300, 40, 1), 0.95, {"activation": "tanh"}),  # dense, and rows of more than 255 weights
        ((700, 3, 2), 0.48, {"head": "clip"}),  # sparse rows of more than 255
        ((4, 8, 8, 2), 0.0, {}),  # nothing kept
        ((6, 9, 11, 13, 2), 0.4, {"activation": "tanh", "head": "clip"}),
    ],
)
@pytest.mark.parametrize("weights", ["float32", "int8"])
def test_shapes_heads_and_activations(sizes, density, options, weights):
    policy = random_policy(sizes, density, **options)
    observations = (np.random.default_rng(1).normal(size=(200, sizes[0])) * 5).astype(np.float32)
    made = c_source(policy, weights=weights)
    if weights == "int8":
        net = policy.perceptrons["actor"]
        params = int8_by_hand({str(i): {"kernel": layer.weight, "bias": layer.bias} for i, layer in enumerate(net.layers)})
        layers = tuple(Layer(params[str(i)]["kernel"], layer.kept, layer.bias) for i, layer in enumerate(net.layers))
        policy = dataclasses.replace(policy, perceptrons={"actor": dataclasses.replace(net, layers=layers)})
    with compile_c(
        made.source, made.header, "policy.h", policy.spec, flags=(*STRICT, "-fsanitize=undefined", "-fno-sanitize-recover=all")
    ) as act:
        actions = act(observations)
    half = (policy.spec.high[0] - policy.spec.low[0]) / 2
    np.testing.assert_allclose(actions / half, expected(policy, observations) / half, rtol=0, atol=1e-5)


def test_wide_layers_use_16_bit_indices():
    source = c_source(random_policy((3, 300, 300, 4), 0.1)).source
    assert "uint16_t actor_1_inputs" in source
    assert "uint8_t actor_1_counts" in source


def test_discrete_actions():
    policy = random_policy((6, 30, 5), 0.5, head="argmax", discrete=True)
    observations = (np.random.default_rng(1).normal(size=(500, 6)) * 5).astype(np.float32)
    made = c_source(policy)
    with compile_c(made.source, made.header, "policy.h", policy.spec, flags=STRICT) as act:
        actions = act(observations)
    scores = expected(policy, observations)
    assert actions.dtype == np.int32
    np.testing.assert_array_equal(actions, scores.argmax(axis=1))
    assert len(set(actions.tolist())) > 2


def test_a_nan_observation_is_a_nan_action():
    policy = random_policy((4, 20, 2), 0.5)
    made = c_source(policy)
    observations = np.zeros((2, 4), np.float32)
    observations[0] = np.nan
    with compile_c(made.source, made.header, "policy.h", policy.spec) as act:
        actions = act(observations)
    assert np.isnan(actions[0]).all()
    assert np.isfinite(actions[1]).all()


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not here")
def test_the_header_serves_cpp(large, tmp_path):
    jp.export.to_c(*large, tmp_path / "pruned.c", name="pruned")
    subprocess.run(["gcc", *STRICT, "-c", "pruned.c"], cwd=tmp_path, check=True)
    body = "float o[PRUNED_OBSERVATION_SIZE] = {0}, a[PRUNED_ACTION_SIZE]; pruned_act(o, a); return a[0] > 1;"
    (tmp_path / "main.cpp").write_text(f'#include "pruned.h"\nint main() {{ {body} }}\n')
    subprocess.run(["g++", "-Wall", "-Werror", "main.cpp", "pruned.o", "-o", "main"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "main"], check=False).returncode == 0


def test_the_compiled_policy_plays_the_same_episodes(large, tmp_path):
    agent, state = large
    jp.export.to_c(agent, state, tmp_path / "policy.c")
    live = jp.evaluate(agent, agent.policy(state), "Hopper-v5", episodes=4, seed=7, backend="gymnasium")
    with jp.export.load_c(tmp_path / "policy.c") as act:
        got = jp.export.evaluate_policy(act, "Hopper-v5", episodes=4, seed=7, backend="gymnasium")
    assert len(set(live.tolist())) == 4
    np.testing.assert_allclose(got, live, rtol=1e-3)
