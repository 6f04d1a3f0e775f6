"""The scripts as one types them."""

import pathlib
import subprocess
import sys

import pytest

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
