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
given = dict(criteria=("snip", "random"), sparsities=(0, 0.8), seeds=(0, 1, 2), steps=20, eval_every=10, episodes=2, prune_rows=64,
    evaluate=False, settings={"hidden": (16, 12)})
config = jp.SweepConfig("arrays", **given | settings["config"])
if settings["interrupt"]:
    import os, signal
    from jaxprune.training import stack_run
    advance, stack_run.PIECE = stack_run.advance, 4
    stack_run.advance = lambda *args, **keywords: (os.kill(os.getpid(), signal.SIGINT), advance(*args, **keywords))[1]
print("rows", len(jp.sweep(config, settings["output"], dataset=dataset, resume=settings["resume"])))
"""


def start(output, *, devices=1, join=None, resume=False, interrupt=False, **config):
    settings = json.dumps({"output": str(output), "join": join, "resume": resume, "interrupt": interrupt, "config": config})
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
    """Nine runs over eight devices, padded with discarded copies, and interrupted between two evaluations."""
    _, told = start(tmp_path / "out", devices=8, interrupt=True).communicate(timeout=400)
    assert "--resume goes on from there" in told
    succeed(start(tmp_path / "out", devices=8, resume=True))
    same_runs(tmp_path / "out", alone)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["versions"]["device"].startswith("8 ×")


def join_two():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    return [(f"localhost:{port}", 2, index) for index in range(2)]


def test_two_processes(alone, tmp_path):
    succeed(*(start(tmp_path / "out", join=join) for join in join_two()))
    same_runs(tmp_path / "out", alone)
    assert (tmp_path / "out" / "report.html").exists()
    first, second = ((tmp_path / "out" / f"records-{index}.jsonl").read_text().splitlines() for index in range(2))
    assert (len(first), len(second)) == (10, 8)


@pytest.mark.parametrize("sparsities", [[0.5, 0.99], [0.98, 0.99]])
def test_no_process_waits_for_one_whose_runs_cannot_be_pruned(tmp_path, sparsities):
    """A floor of 5 weights a layer asks for more than is left at 98 and 99 %: of one process's only run, or of both's."""
    grid = {"criteria": ["snip"], "sparsities": sparsities, "seeds": [0], "floor": 5}
    for process in [start(tmp_path / "out", join=join, **grid) for join in join_two()]:
        printed, told = process.communicate(timeout=300)
        if sparsities[0] == 0.5:
            assert process.returncode == 0, told
            assert printed.endswith("rows 3\n")
        else:
            assert process.returncode == 1
            assert "ValueError: none of the 2 runs could be started: " in told
    failed = [row for row in read_records(tmp_path / "out") if row["status"] == "failed"]
    assert {row["sparsity"] for row in failed} == {each for each in sparsities if each > 0.9}
    assert all("floor" in row["reason"] for row in failed)


def test_no_process_waits_for_a_folder_that_the_first_cannot_use(tmp_path):
    (tmp_path / "report.html").write_text("mine")
    for index, process in enumerate([start(tmp_path, join=join) for join in join_two()]):
        _, told = process.communicate(timeout=300)
        assert process.returncode == 1
        assert ("the first process cannot use", "holds report.html, which no sweep wrote")[index == 0] in told
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
