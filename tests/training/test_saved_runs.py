"""What a report reads of the folders of runs."""

from typing import Any

import numpy as np
import pytest

import jaxprune as jp
from jaxprune.export.c99 import c_source
from jaxprune.export.sizes import policy_bytes
from jaxprune.parameters import prunable_leaves
from jaxprune.training.records import read_records
from jaxprune.training.saved_runs import report_inputs
from tests.conftest import make_dataset

SMALL: dict[str, Any] = dict(steps=20, eval_every=10, prune_rows=64, evaluate=False, settings={"hidden": (16, 12)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("sweep") / "out"
    config = jp.SweepConfig("arrays", criteria=("snip", "random", "small_dense"), sparsities=(0, 0.5, 0.9), seeds=(4, 2), **SMALL)
    jp.sweep(config, out, dataset=make_dataset(300), progress=False)
    return out


def test_rows_of_a_sweep(folder):
    found = report_inputs(folder, read_records(folder), states=True, progress=False)
    sizes = {row["run_id"]: row for row in found.sizes}
    assert set(sizes) == {"bc-dense-2", *(f"bc-{c}-{s}-2" for c in ("snip", "random", "small_dense") for s in ("0.5", "0.9"))}
    assert [row["run_id"] for row in found.masks] == ["bc-snip-0.9-2", "bc-random-0.9-2"]
    _, state = jp.expand(*jp.load_run(folder / "runs" / "bc-snip-0.9-2"))
    masks = prunable_leaves(state.masks["policy"])
    kernels = found.masks[0]["kernels"]
    assert {name: kernel.shape for name, kernel in kernels.items()} == {
        "policy/Dense_0/kernel": (4, 16),
        "policy/Dense_2/kernel": (12, 2),
    }
    np.testing.assert_array_equal(kernels["policy/Dense_0/kernel"], masks["Dense_0/kernel"])
    dense = 4 * (4 * 16 + 16 + 16 * 12 + 12 + 12 * 2 + 2)
    assert sizes["bc-dense-2"]["dense_bytes"] == sizes["bc-dense-2"]["stored_bytes"] == sizes["bc-snip-0.9-2"]["dense_bytes"] == dense
    assert sizes["bc-snip-0.9-2"]["stored_bytes"] < dense / 3
    assert len(found.layers) == (1 + 3 * 2) * 2 * 3
    assert report_inputs(folder, read_records(folder), states=False).sizes == []


@pytest.mark.parametrize("weights", ["float32", "int8"])
def test_bytes_are_those_of_the_exported_constants(folder, weights):
    """The C source holds the statistics of the observations and the bounds of the actions beside."""
    for run in ("bc-dense-2", "bc-snip-0.5-2", "bc-snip-0.9-2"):
        policy = jp.export.read_policy(*jp.load_run(folder / "runs" / run))
        beside = c_source(policy, weights=weights).weight_bytes - policy_bytes(policy, weights)
        assert beside == 4 * (2 * 4 + 2 * 2)


def test_the_report_has_them(folder):
    html = (folder / "report.html").read_text()
    assert "14 runs trained, not evaluated" in html
    assert "Where the kept weights are" in html
    assert "Policy loss" in html
    assert "failed" not in html


def test_a_state_that_cannot_be_read_is_left_out(folder, caplog):
    broken = folder / "runs" / "bc-random-0.9-2" / "state"
    moved = broken.rename(broken.with_name("elsewhere"))
    try:
        found = report_inputs(folder, read_records(folder), states=True, progress=False)
    finally:
        moved.rename(broken)
    assert "bc-random-0.9-2 is left out" in caplog.text
    assert [row["run_id"] for row in found.masks] == ["bc-snip-0.9-2"]
    assert "bc-random-0.9-2" not in {row["run_id"] for row in found.sizes}
