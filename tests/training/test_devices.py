"""Sweeps over several devices, and over several processes, are the sweep on one."""

import json
import os
import socket
import subprocess
import sys

import jax
import numpy as np
import pytest

import jaxprune as jp
from jaxprune.training.records import read_records

SCRIPT = """
import json, sys
import numpy as np
from jaxprune.training import hosts
settings = json.loads(sys.argv[1])
if settings["join"]:
    hosts.connect(*settings["join"])
import jaxprune as jp
rng = np.random.default_rng(0)
observations = rng.normal(size=(300, 4)).astype(np.float32)
dataset = jp.data.from_arrays(observations, np.tanh(observations[:, :2]), rng.normal(size=300).astype(np.float32),
    np.arange(300) % 50 == 49, np.zeros(300, bool), low=-1, high=1)
config = jp.SweepConfig("arrays", criteria=("snip", "random"), sparsities=(0, 0.8), seeds=(0, 1, 2), steps=20, eval_every=10, episodes=2,
    prune_rows=64, evaluate=False, settings={"hidden": (16, 12)})
print("rows", len(jp.sweep(config, settings["output"], dataset=dataset, resume=settings["resume"])))
"""


def start(output, *, devices=1, join=None, resume=False):
    settings = json.dumps({"output": str(output), "join": join, "resume": resume})
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, settings], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def succeed(*processes):
    for process in processes:
        printed, told = process.communicate(timeout=400)
        assert process.returncode == 0, told
        assert "rows 18\n" in printed, "every process is given the rows of all"


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    output = tmp_path_factory.mktemp("alone") / "out"
    succeed(start(output))
    return output


def same_runs(one, other):
    """The same masks bit for bit, and parameters up to rounding."""
    names = sorted(path.name for path in (one / "runs").iterdir())
    assert len(names) == 9
    assert names == sorted(path.name for path in (other / "runs").iterdir())
    for name in names:
        states = [jp.expand(*jp.load_run(path / "runs" / name))[1] for path in (one, other)]
        jax.tree.map(np.testing.assert_array_equal, states[0].masks, states[1].masks)
        for a, b in zip(jax.tree.leaves(states[0].params), jax.tree.leaves(states[1].params), strict=True):
            assert np.linalg.norm(a - b) <= 1e-4 * np.linalg.norm(b)
    keys = [{(row["run_id"], row["step"]): row["policy_loss"] for row in read_records(path)} for path in (one, other)]
    assert len(read_records(one)) == len(keys[0]) == 18
    assert keys[0] == pytest.approx(keys[1], rel=1e-4)


def test_eight_devices(alone, tmp_path):
    """Nine runs over eight devices: the last is padded with discarded copies."""
    succeed(start(tmp_path / "out", devices=8))
    same_runs(tmp_path / "out", alone)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["versions"]["device"].startswith("8 ×")


def test_two_processes(alone, tmp_path):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    succeed(*(start(tmp_path / "out", join=(f"localhost:{port}", 2, index)) for index in range(2)))
    same_runs(tmp_path / "out", alone)
    assert (tmp_path / "out" / "report.html").exists()
    first, second = ((tmp_path / "out" / f"records-{index}.jsonl").read_text().splitlines() for index in range(2))
    assert (len(first), len(second)) == (10, 8)
