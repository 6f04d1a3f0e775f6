"""Runs found by what they are, and logs beside the records."""

import json
import struct

import numpy as np
import pytest

import jaxprune as jp
from jaxprune.training.records import read_records
from tests.conftest import make_dataset


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    config = jp.SweepConfig(
        "arrays",
        criteria=("snip", "random"),
        sparsities=(0, 0.5),
        seeds=(0, 1),
        steps=4,
        eval_every=1,
        evaluate=False,
        settings={"hidden": (8, 8)},
    )
    folder = tmp_path_factory.mktemp("sweep") / "out"
    jp.sweep(config, folder, dataset=make_dataset(), tensorboard=True)
    return folder


def with_returns(output, tmp_path, returns):
    """The records with other returns, {run: the returns of its evaluations}, and the same runs."""
    rows = read_records(output)
    for run, values in returns.items():
        for row, value in zip([row for row in rows if row["run_id"] == run], values, strict=True):
            row["return_mean"] = value
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "runs").symlink_to(output / "runs")
    return tmp_path


def test_a_run_by_what_it_is(output):
    agent, state = jp.load_run(output, criterion="snip", seed=1)
    assert (agent, int(state.step)) == (jp.load_run(output / "runs" / "bc-snip-0.5-1")[0], 4)
    expected = jp.load_run(output / "runs" / "bc-snip-0.5-1")[1]
    np.testing.assert_array_equal(state.params["policy"]["Dense_0"]["kernel"], expected.params["policy"]["Dense_0"]["kernel"])
    with pytest.raises(ValueError, match="holds 2 runs with algo=bc, criterion=dense: bc-dense-0, bc-dense-1"):
        jp.load_run(output, algo="bc", criterion="dense")
    with pytest.raises(FileNotFoundError, match="no finished run with sparsity=0.7"):
        jp.load_run(output, sparsity=0.7)
    with pytest.raises(FileNotFoundError, match="holds no sweep"):
        jp.load_run(output / "runs", seed=1)


def test_the_best_run_is_by_its_last_three_evaluations(output, tmp_path):
    returns = {
        "bc-dense-0": [9, 9, 9, 9],
        "bc-dense-1": [0, 0, 0, 0],
        "bc-snip-0.5-0": [50, 1, 1, 1],
        "bc-snip-0.5-1": [0, 1, 1, 2],
        "bc-random-0.5-0": [0, 0, 0, 3],
        "bc-random-0.5-1": [7, 7, 7, None],
    }
    folder = with_returns(output, tmp_path, returns)
    assert jp.best(folder).name == "bc-snip-0.5-1"
    assert jp.best(folder, criterion="random").name == "bc-random-0.5-0"
    assert jp.best(folder, sparsity=0.0).name == "bc-dense-0"
    with pytest.raises(FileNotFoundError, match="no finished run with a return"):
        jp.best(output)


def test_the_best_run_is_by_what_it_earned_since_it_was_pruned(output, tmp_path):
    folder = with_returns(output, tmp_path, {"bc-snip-0.5-0": [90, 90, 90, 1], "bc-snip-0.5-1": [0, 5, 5, 5]})
    rows = [row | {"pruned_at": 3 * (row["run_id"] == "bc-snip-0.5-0" and row["step"] > 3)} for row in read_records(folder)]
    (folder / "records.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert jp.best(folder, criterion="snip").name == "bc-snip-0.5-1"


def test_tensorboard_holds_the_numbers_of_the_records(output):
    event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2")
    for run in {row["run_id"] for row in read_records(output)}:
        (path,) = (output / "tensorboard" / run).iterdir()
        content, found = path.read_bytes(), []
        while content:
            (length,) = struct.unpack("<Q", content[:8])  # then a checksum of four bytes, the event, and its checksum
            event = event_pb2.Event.FromString(content[12 : 12 + length])
            found += [(event.step, value.simple_value) for value in event.summary.value if value.tag == "policy_loss"]
            content = content[16 + length :]
        expected = [(row["step"], row["policy_loss"]) for row in read_records(output) if row["run_id"] == run]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
