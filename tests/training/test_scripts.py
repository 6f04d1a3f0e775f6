"""The scripts as one types them."""

import json
import os
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest

import jaxprune as jp

ROOT = pathlib.Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"


def run(script, *flags):
    return subprocess.run(
        [sys.executable, f"experiments/{script}", *flags], cwd=ROOT, capture_output=True, text=True, timeout=500, check=False
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--criteria=snap"], "'snap' is unknown; expected one of crop"),
        (["--sparsities=0,95"], "expected a sparsity in [0, 1], the fraction of weights removed; got 95.0"),
        (["--sparsities=0,half"], "--sparsities=0,half: expected float numbers"),
        (["--dataset=missing.hdf5"], "missing.hdf5: no such file"),
        (["--output="], "--output is empty; name a folder"),
        (["--coordinator=nohostport", "--processes=1", "--process=0"], "--coordinator=nohostport: expected host:port of the first process"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(flags, message, tmp_path):
    done = run("sweep.py", f"--output={tmp_path / 'out'}", *flags)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not (DATA / "hopper_expert.hdf5").exists(), reason="the recordings are not here")
@pytest.mark.parametrize(("file", "env_id", "algo"), [("hopper_expert", "Hopper-v4", "bc"), ("walker2d_bc-medium", "Walker2d-v4", "bcq")])
def test_a_recording_nobody_here_made(file, env_id, algo, tmp_path):
    done = run(
        "train.py",
        f"--dataset={DATA / file}.hdf5",
        f"--env_id={env_id}",
        f"--algo={algo}",
        "--criterion=snip",
        "--sparsity=0.95",
        "--steps=20",
        "--episodes=1",
        f"--output={tmp_path / 'out'}",
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "report.html").exists()
    assert "kept" in done.stderr
    assert "SNIP" in done.stdout


def small(tmp_path):
    """A data set of a few rows, kept out of the user's folder."""
    os.environ["MINARI_DATASETS_PATH"] = str(tmp_path / "data")
    return ["--dataset=jaxprune/hopper/random-n300-s0-v0", "--steps=8", "--eval_every=2", "--episodes=1", "--prune_rows=32"]


@pytest.fixture(autouse=True)
def _restored(monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", os.environ.get("MINARI_DATASETS_PATH", ""))
    if not os.environ["MINARI_DATASETS_PATH"]:
        monkeypatch.delenv("MINARI_DATASETS_PATH")


def test_a_config_from_a_file_with_flags_over_it(tmp_path):
    first = run("sweep.py", *small(tmp_path), "--criteria=snip", "--sparsities=0,0.5", "--seeds=3", f"--output={tmp_path / 'one'}")
    assert first.returncode == 0, first.stderr
    again = [f"--config={tmp_path / 'one' / 'config.json'}", "--learning_rate=0.5", "--sparsities=0.5", f"--output={tmp_path / 'two'}"]
    assert run("sweep.py", *again).returncode == 0
    one, two = (json.loads((tmp_path / name / "config.json").read_text()) for name in ("one", "two"))
    assert (two["sparsities"], two["settings"]) == ([0.5], {**one["settings"], "learning_rate": 0.5})
    same = set(one) - {"sparsities", "settings", "command"}
    assert {name: one[name] for name in same} == {name: two[name] for name in same}
    other = run("sweep.py", *again, "--resume", "--steps=9")
    assert (other.returncode, "was begun with steps=8, not 9" in other.stderr) == (2, True)
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "wrong.json").write_text(json.dumps({"dataset": "jaxprune/hopper/random-n300-s0-v0", "algo": "bc"}))
    wrong = run("sweep.py", f"--config={tmp_path / 'wrong.json'}", f"--output={tmp_path / 'three'}")
    assert (wrong.returncode, "wrong.json: 'algo' is no setting of a sweep; did you mean 'algos'" in wrong.stderr) == (2, True)
    assert "expected JSON" in run("sweep.py", f"--config={tmp_path / 'bad.json'}", f"--output={tmp_path / 'three'}").stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--formats=safetensor"], "--formats: 'safetensor' is unknown; expected some of safetensors, onnx"),
        (["--tolerance=nan"], "--tolerance=nan: expected a fraction of the dense return"),
        (["--config=CONFIG"], "has criteria=snip,random; a sparsity is found for one of them"),
    ],
)
def test_find_sparsity_refuses_before_it_trains(flags, message, tmp_path):
    config = tmp_path / "two.json"
    config.write_text(json.dumps({"dataset": "jaxprune/hopper/random-n300-s0-v0", "criteria": ["snip", "random"]}))
    done = run("find_sparsity.py", *[flag.replace("CONFIG", str(config)) for flag in flags], f"--output={tmp_path / 'out'}")
    assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1)
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


def test_inspect_mask_shows_what_the_sweep_of_a_config_trains(tmp_path):
    data = small(tmp_path)
    made = [*data, "--criteria=snip", "--sparsities=0.5", "--seeds=3", "--steps=1", "--nocompact", "--noevaluate"]
    assert run("sweep.py", *made, f"--output={tmp_path / 'one'}").returncode == 0
    done = run("inspect_mask.py", f"--config={tmp_path / 'one' / 'config.json'}", f"--output={tmp_path / 'masks'}")
    assert done.returncode == 0, done.stderr
    assert "bc policy, 0.5 of the weights removed, 1 seed(s)" in done.stdout
    described = json.loads((tmp_path / "one" / "runs" / "bc-snip-0.5-3" / "agent.json").read_text())
    rows = [line.split(",") for line in (tmp_path / "masks" / "layers.csv").read_text().splitlines()[1:]]
    assert {f"{layer}/kernel": [int(kept), int(total)] for *_, layer, kept, total in rows} == described["layers"]
    assert {tuple(row[:4]) for row in rows} == {("bc", "snip", "0.5", "3")}


def test_find_sparsity_ends_in_an_answer_and_a_policy(tmp_path):
    out = tmp_path / "found"
    flags = ["--seeds=1", "--sparsities=0.1,0.9", "--rungs=2", "--tolerance=1.5", "--formats=safetensors"]
    done = run("find_sparsity.py", *small(tmp_path), *flags, f"--output={out}")
    assert done.returncode == 0, done.stderr
    answer = json.loads((out / "answer.json").read_text())
    assert [rung["steps"] for rung in answer["rungs"]] == [4, 8]
    assert answer["sparsity"] == 0.9, "a tolerance of more than all of a positive return takes anything"
    assert answer["bounds_over"] == "evaluations"
    assert "bounds are over evaluations of these very runs" in done.stdout
    policy = jp.load_policy(out / "policy" / "policy.safetensors")
    agent, state = jp.load_run(out / answer["run"])
    observations = np.random.default_rng(0).normal(size=(5, 11)).astype(np.float32)
    np.testing.assert_allclose(policy(observations), agent.act(agent.policy(state), observations, jax.random.key(0)), atol=1e-5)
