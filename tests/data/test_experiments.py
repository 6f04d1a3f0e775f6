"""The data scripts, run as a person would."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest

from tests.data.test_builtin import snapshot

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def run():
    def run(script, *arguments):
        command = [sys.executable, str(ROOT / "experiments" / script), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    return run


def test_collect_and_describe(run, tmp_path):
    done = run("collect.py", "--dataset=jaxprune/hopper/random-v0", "--size=200", "--seed=4")
    assert "jaxprune/hopper/random-n200-s4-v0\nrows      200 kept of 200" in done.stdout, done.stderr
    done = run("describe.py", "jaxprune/hopper/random-n200-s4-v0", f"--output={tmp_path}")
    assert "env       Hopper-v5" in done.stdout, done.stderr
    assert (tmp_path / "jaxprune_hopper_random_n200_s4_v0.png").stat().st_size > 10_000
    done = run("describe.py", "nothing.hdf5")
    assert (done.returncode, done.stderr.splitlines()[-1][:29]) == (1, "error: nothing.hdf5: no such ")


def test_pack_and_collect_a_snapshot(run, tmp_path):
    paths = []
    for name, metadata in (("a", '{"env_id": "Hopper-v5", "steps": 5, "return_mean": 1.5}'), ("b", '{"env_id": "Walker2d-v5"}')):
        paths.append(tmp_path / f"{name}.npz")
        np.savez(paths[-1], metadata=metadata, **snapshot(0, 0.3))
    packed = tmp_path / "packed.npz"
    done = run(
        "pack_behaviours.py", "--task=hopper", f"--medium={paths[0]}", f"--expert={paths[0]}", f"--replay={paths[0]}", f"--output={packed}"
    )
    assert done.returncode == 0, done.stderr
    with np.load(packed) as arrays:
        np.testing.assert_array_equal(arrays["expert/kernel_1"], snapshot(0, 0.3)["kernel_1"])
    wrong = run("pack_behaviours.py", "--task=hopper", f"--medium={paths[1]}", f"--expert={paths[0]}", f"--replay={paths[0]}")
    assert "plays Walker2d-v5, but hopper is Hopper-v5" in wrong.stdout + wrong.stderr
    done = run("collect.py", "--dataset=mine-v0", "--env_id=Hopper-v5", f"--policy={paths[0]}", "--size=50")
    assert "mine-v0\nrows      50 kept of 50" in done.stdout, done.stderr
