"""The data scripts, run as a person would."""

import pathlib
import subprocess
import sys

import h5py
import numpy as np
import pytest

from tests.data.logs import TERMINAL, TIMEOUT, columns_of
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


def one_line(done):
    """What a script that refused its input printed."""
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr.strip()


@pytest.mark.parametrize(
    ("env_id", "reason"),
    [
        ("Nope-v1", "Environment `Nope` doesn't exist."),
        ("InvertedPendulum-v2", ""),  # a version that is gone
        ("no_such_package:Nope-v1", ""),
    ],
)
def test_environments_that_cannot_be_made(run, env_id, reason):
    line = one_line(run("collect.py", "--dataset=mine-v0", f"--env_id={env_id}", "--policy=builtins:print"))
    assert f"collect.py: env_id: expected an environment that can be made here, got '{env_id}' ({reason}" in line


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--dataset=mine-v0"], "mine-v0 is a set of your own, which needs --policy and --env_id"),
        (["--dataset=jaxprune/hopper/random-v0", "--replace"], "--policy, --env_id and --replace are for a set of your own"),
        (["--dataset=mine-v0", "--env_id=Hopper-v5", "--policy=gone.npz"], "gone.npz"),
        (["mine-v0", "--dataset=mine-v0"], "unexpected argument 'mine-v0'; every setting is a --flag=value"),
    ],
)
def test_collect_refuses_in_one_line(run, flags, message):
    assert message in one_line(run("collect.py", *flags))


def test_describe_refuses_in_one_line(run, minari_folder):
    assert "describe.py: nothing.hdf5: no such file" in one_line(run("describe.py", "nothing.hdf5"))
    assert "expected one data set (the path of an HDF5 file" in one_line(run("describe.py"))
    assert "unexpected argument 'b'; every other setting is a --flag=value" in one_line(run("describe.py", "a", "b"))
    minari_folder.write_text("")
    line = one_line(run("describe.py", "jaxprune/hopper/random-v0"))
    assert f"expected a folder for Minari's data sets, got MINARI_DATASETS_PATH={minari_folder}, where none can be made" in line


def test_describe_where_it_cannot_write(run, tmp_path):
    with h5py.File("log.hdf5", "w") as file:
        for key, array in columns_of([(5, TERMINAL), (4, TIMEOUT)]).items():
            file[key] = array
    (tmp_path / "out" / "log.png").mkdir(parents=True)
    line = one_line(run("describe.py", "log.hdf5", f"--output={tmp_path / 'out'}"))
    assert "log.png: expected to write a file there, found a folder; move it or name another --output" in line
    assert len(list((tmp_path / "out").iterdir())) == 1
    line = one_line(run("describe.py", "log.hdf5", "--output=log.hdf5"))
    assert "cannot write to log.hdf5: File exists; name another --output" in line


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
