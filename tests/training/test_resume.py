"""A sweep that is stopped anywhere goes on to the same bits, with every row once."""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from typing import Any

import jax
import numpy as np
import pytest

import jaxprune as jp
from jaxprune.training import journal, records, stack_run
from jaxprune.training.stopping import Stopped
from tests.conftest import make_dataset

TIMES = ("start_s", "dense_s", "wall_s", "eval_s")


@pytest.fixture(scope="module")
def dataset():
    return make_dataset()


def config(**changes) -> jp.SweepConfig:
    small: dict[str, Any] = dict(steps=30, eval_every=10, episodes=2, prune_rows=64, evaluate=False, settings={"hidden": (16, 12)})
    return jp.SweepConfig("arrays", **{"criteria": ("snip",), "sparsities": (0, 0.8), "seeds": (0, 1), **small, **changes})


LATER = {"when": "step:15", "criteria": ("snip", "random"), "max_stack": 2}


def same_sweep(one: pathlib.Path, other: pathlib.Path):
    """All rows but their times, in order, and every bit of every run."""
    rows = [[{k: v for k, v in row.items() if k not in TIMES} for row in records.read_records(path)] for path in (one, other)]
    assert rows[0] == rows[1]
    names = sorted(path.name for path in (one / "runs").iterdir())
    assert names == sorted(path.name for path in (other / "runs").iterdir())
    for name in names:
        (agent, state), (expected_agent, expected) = (jp.load_run(path / "runs" / name) for path in (one, other))
        assert agent == expected_agent
        jax.tree.map(np.testing.assert_array_equal, state, expected)
    assert not (one / "checkpoints").exists()


@pytest.fixture(scope="module")
def whole(dataset, tmp_path_factory):
    """Uninterrupted sweeps."""
    folder = tmp_path_factory.mktemp("whole")
    jp.sweep(config(), folder / "init", dataset=dataset)
    jp.sweep(config(**LATER), folder / "later", dataset=dataset)
    return folder


class Killed(BaseException):
    """Nothing catches it, as nothing catches SIGKILL."""


class Countdown:
    """A function that raises at its n-th call, before or after it has done its work."""

    def __init__(self, function, calls: int, *, after: bool):
        self.function, self.left, self.after = function, calls, after

    def __call__(self, *args, **kwargs):
        self.left -= 1
        if self.left == 0 and not self.after:
            raise Killed
        result = self.function(*args, **kwargs)
        if self.left == 0:
            raise Killed
        return result


@pytest.mark.parametrize("name", ["init", "later", "overlap"])
@pytest.mark.parametrize(
    ("owner", "function", "calls", "after"),
    [
        (stack_run, "advance", (2, 5), True),
        (stack_run, "save_run", (1, 2), True),
        (journal, "write_whole", (1, 2, 3, 4), False),
        (journal, "write_whole", (2, 3), True),
        (records.OutputFolder, "append", (2, 3), True),
    ],
)
def test_killed_at_any_step(dataset, whole, tmp_path, monkeypatch, name, owner, function, calls, after):
    chosen = config(**{"init": {}, "later": LATER, "overlap": {"overlap": True}}[name])
    for number in calls:
        with monkeypatch.context() as patch:
            counted = Countdown(getattr(owner, function), number, after=after)
            patch.setattr(owner, function, counted if owner is not records.OutputFolder else lambda *args, _c=counted: _c(*args))
            try:
                jp.sweep(chosen, tmp_path / "out", dataset=dataset, resume=True)
            except Killed:
                continue
            break
    jp.sweep(chosen, tmp_path / "out", dataset=dataset, resume=True)
    same_sweep(tmp_path / "out", whole / ("init" if name == "overlap" else name))
    before = records.read_records(tmp_path / "out")
    assert jp.sweep(chosen, tmp_path / "out", dataset=dataset, resume=True) == before, "a finished sweep is left as it is"


def test_a_signal_saves_and_stops_and_a_broken_checkpoint_falls_back(dataset, whole, tmp_path, monkeypatch):
    made = 0

    def interrupted(*args, **kwargs):
        nonlocal made
        made += 1
        if made == 5:
            os.kill(os.getpid(), signal.SIGTERM)
        return advance(*args, **kwargs)

    advance = stack_run.advance
    with monkeypatch.context() as patch:
        patch.setattr(stack_run, "advance", interrupted)
        patch.setattr(stack_run, "PIECE", 4)
        with pytest.raises(Stopped, match="--resume goes on"):
            jp.sweep(config(), tmp_path / "out", dataset=dataset)
    entry = json.loads((tmp_path / "out" / "progress.json").read_text())
    assert len(entry["checkpoints"]) == 2
    assert json.loads((tmp_path / "out" / "checkpoints" / f"{entry['checkpoints'][0]}.json").read_text())["step"] == 18
    assert "2 runs, not evaluated" in (tmp_path / "out" / "report.html").read_text(), "the report is of what there is"
    newest = tmp_path / "out" / "checkpoints" / entry["checkpoints"][0]
    for file in newest.rglob("*"):
        if file.is_file() and file.stat().st_size:
            file.write_bytes(b"")
    with monkeypatch.context() as patch:
        patch.setattr(stack_run, "PIECE", 4)
        jp.sweep(config(), tmp_path / "out", dataset=dataset, resume=True)
        jp.sweep(config(), tmp_path / "pieces", dataset=dataset)
    same_sweep(tmp_path / "out", tmp_path / "pieces")


def test_what_differs_is_named(dataset, tmp_path):
    jp.sweep(config(), tmp_path / "out", dataset=dataset)
    with pytest.raises(ValueError, match=r"was begun with steps=30, not 40; resume with the same"):
        jp.sweep(config(steps=40), tmp_path / "out", dataset=dataset, resume=True)
    other = dataclasses.replace(dataset, transitions=dataset.transitions.replace(rewards=dataset.transitions.rewards + 1))
    with pytest.raises(ValueError, match="was begun with data="):
        jp.sweep(config(), tmp_path / "out", dataset=other, resume=True)
    with pytest.raises(ValueError, match="already holds a sweep .* pass --resume to go on with it or --overwrite"):
        jp.sweep(config(), tmp_path / "out", dataset=dataset)


def test_records_that_were_edited_are_refused(dataset, tmp_path):
    out = tmp_path / "out"
    before = jp.sweep(config(), out, dataset=dataset)
    rows = (out / "records.jsonl").read_text()
    (out / "records.jsonl").write_text(rows[:-7])
    with pytest.raises(ValueError, match=f"has {len(rows) - 7} bytes where {len(rows)} were written: .* put the whole file back"):
        jp.sweep(config(), out, dataset=dataset, resume=True)
    assert (out / "records.jsonl").read_text() == rows[:-7], "nothing is lost"
    with pytest.raises(ValueError, match=f"line {len(before)} of .*records.jsonl is not JSON .*: put the unedited file back"):
        records.read_records(out)
    (out / "records.jsonl").write_text(rows)
    assert jp.sweep(config(), out, dataset=dataset, resume=True) == before


def test_a_full_disk_loses_nothing(dataset, whole, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk takes rights that this process has not")
    try:
        told = []
        for free in (20_000, 120_000, 400_000):
            (disk / "filler").write_bytes(bytes(int(os.statvfs(disk).f_bavail * os.statvfs(disk).f_bsize) - free))
            try:
                jp.sweep(config(), disk / "out", dataset=dataset, resume=True)
            except (OSError, ValueError) as error:
                told.append(str(error))
            (disk / "filler").unlink()
        assert told
        assert all("No space left" in line or "cannot write" in line for line in told)
        jp.sweep(config(), disk / "out", dataset=dataset, resume=True)
        same_sweep(disk / "out", whole / "init")
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_folder_that_cannot_be_written(dataset, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot write to .* name a folder that can be written"):
        jp.sweep(config(), tmp_path / "file" / "out", dataset=dataset)


SCRIPT = """
import sys, numpy as np, jaxprune as jp
rng = np.random.default_rng(0)
observations = rng.normal(size=(300, 4)).astype(np.float32)
dataset = jp.data.from_arrays(observations, np.tanh(observations[:, :2]), rng.normal(size=300).astype(np.float32),
    np.arange(300) % 50 == 49, np.zeros(300, bool), low=-1, high=1)
config = jp.SweepConfig("arrays", criteria=("snip",), sparsities=(0, 0.8), seeds=(0, 1), steps=200_000, eval_every=500, episodes=2,
    prune_rows=64, evaluate=False, settings={"hidden": (16, 12)})
jp.sweep(config, sys.argv[1], dataset=dataset, resume=True)
"""


def test_killed_for_real(tmp_path):
    """SIGKILL while it trains, then SIGTERM, which exits with 143 after a checkpoint."""

    def started():
        return subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path / "out")], stderr=subprocess.PIPE, text=True)

    def steps():
        path = tmp_path / "out" / "records.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return max((json.loads(line)["step"] for line in lines if line.endswith("}")), default=0)

    reached = 0
    for number, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 1)):
        process = started()
        deadline = time.time() + 180
        while steps() < reached + 1500 and time.time() < deadline and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(number)
        _, told = process.communicate(timeout=120)
        assert process.returncode == code, told
        assert steps() >= reached + 1500
        reached = steps()
    assert "--resume goes on from there" in told
    rows = records.read_records(tmp_path / "out")
    seen = [(row["run_id"], row["step"]) for row in rows]
    assert len(seen) == len(set(seen))
    assert [step for run, step in seen if run == "bc-dense-0"] == list(range(500, reached + 500, 500))[: len(seen) // 2]
