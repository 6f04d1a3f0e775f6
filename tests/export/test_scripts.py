"""The scripts as one types them."""

import pathlib
import subprocess
import sys

import pytest

import jaxprune as jp

ROOT = pathlib.Path(__file__).parents[2]


def run(script, *flags):
    command = [sys.executable, f"experiments/{script}", *flags]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def folder(runs, tmp_path_factory):
    agent, state = runs["bc weights"]
    path = tmp_path_factory.mktemp("out") / "runs" / "bc-magnitude-0.8-0"
    jp.save_run(path, agent, state, {"criterion": "magnitude", "sparsity": 0.8, "seed": 0, "env_id": None, "step": 0})
    return path


def test_export(folder, tmp_path):
    done = run("export.py", f"--run={folder}", f"--output={tmp_path / 'policy'}", "--formats=safetensors,c,c_int8")
    assert done.returncode == 0, done.stderr
    written = {"policy.safetensors", "policy.json", "policy.c", "policy.h", "policy_int8.c", "policy_int8.h"}
    assert {path.name for path in (tmp_path / "policy").iterdir()} == written
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["file", "policy.safetensors", "policy.c", "policy_int8.c"]
    with jp.export.load_c(tmp_path / "policy" / "policy_int8.c", name="policy_int8") as act:
        assert act.observation_size == 4


@pytest.mark.parametrize(
    ("script", "flags", "message"),
    [
        ("export.py", ["--formats=pickle"], "--formats: 'pickle' is unknown; expected some of safetensors, onnx, stablehlo, c, c_int8"),
        ("export.py", ["--run=nowhere"], "nowhere holds no run (no agent.json in it)"),
        ("measure.py", ["--runs=nowhere/*"], "nowhere/* holds no run"),
        ("measure.py", ["--batches=1,x"], "--batches=1,x: expected positive whole numbers"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(script, flags, message, folder, tmp_path):
    name = "runs" if script == "measure.py" else "run"
    given = flags if any(flag.startswith(f"--{name}=") for flag in flags) else [f"--{name}={folder}", *flags]
    done = run(script, *given, f"--output={tmp_path / 'out'}")
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_measure(folder, tmp_path):
    flags = ["--episodes=0", "--rounds=1", "--seconds=0.01", "--batches=1", "--updates=0"]
    done = run("measure.py", f"--runs={folder.parent}/*", f"--output={tmp_path / 'out'}", *flags)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "out").glob("*.csv")} == {"networks.csv", "policies.csv", "latency.csv", "training.csv"}
    text = (tmp_path / "out" / "tables.md").read_text()
    assert "experiments/measure.py" in text
    assert "| bc-magnitude-0.8-0 | 80 % | C constants, int8 |" in text
    assert "ONNX Runtime dense" in done.stdout
