"""The verdicts by hand, one arm at a tiny size, and bad input."""

import pathlib
import subprocess
import sys

import convolution_report
import convolutions
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from digits import ConvolutionalNetwork, convolutional_objective, wrong
from masked_training import Problem

from jaxprune.parameters import prunable_size

ROOT = pathlib.Path(__file__).parents[2]


def made(**shift):
    """Rows in which an arm's accuracy is 0.9 at 50 % and 0.8 at 95 %, plus its shift."""
    rows = []
    for seed in range(5):
        noise = 0.001 * seed
        rows.append({"arm": "dense", "sparsity": 0.0, "seed": seed, "accuracy": 0.9 + noise, "difference": None})
        for arm in convolution_report.ARMS:
            for sparsity, accuracy in ((0.5, 0.9), (0.95, 0.8)):
                own = accuracy + shift.get(arm, 0.0) + noise * (1 + 0.1 * seed)
                rows.append({"arm": arm, "sparsity": sparsity, "seed": seed, "accuracy": own, "difference": 1e-7})
    return rows


def timed(fraction):
    """CroP-S takes this fraction of dense's time."""
    times = {"dense-0": [10.0, 11.0, 10.0, 11.0, 10.0]}
    names = {convolution_report.case_name(arm, s) for arm in convolution_report.ARMS for s in (0.5, 0.95)}
    return times | {name: [fraction * t for t in times["dense-0"]] for name in names}


def verdict(claim, rows, times):
    (found,) = [text for text in convolution_report.verdicts(rows, times, (0.5, 0.95)) if text.startswith(claim)]
    return found.split("**")[1]


def test_pairs_are_of_one_seed_and_sparsity_and_dense_is_the_same_at_all():
    rows = made(**{convolution_report.CROP_S: 0.02})
    pairs = convolution_report.accuracy_pairs(rows, convolution_report.CROP_S, convolution_report.L1, at=(0.5, 0.95))
    assert pairs == {"50 %": pytest.approx([0.02] * 5), "95 %": pytest.approx([0.02] * 5)}
    to_dense = convolution_report.accuracy_pairs(rows, convolution_report.CROP_S, "dense", at=(0.95,))
    assert to_dense["95 %"][0] == pytest.approx(-0.08)


def test_verdicts_by_hand():
    rows = made(**{convolution_report.CROP_S: 0.02, convolution_report.SMALL: 0.05})
    assert verdict("CroP-S is more accurate than L1", rows, timed(0.5)) == "support it"
    assert verdict("CroP-S is more accurate than the small dense", rows, timed(0.5)) == "contradict it"
    assert verdict("Single weights (CroP-U) are more accurate", rows, timed(0.5)) == "contradict it"
    assert verdict("CroP-U is at least as accurate as SNIP", rows, timed(0.5)) == "support it"
    assert verdict("CroP-S at 95 % keeps dense's accuracy", rows, timed(0.5)) == "contradict it"
    assert verdict("CroP-S at 50 % trains faster", rows, timed(0.5)) == "support it"
    assert verdict("CroP-S at 50 % trains faster", rows, timed(1.5)) == "contradict it"
    assert verdict("A trained network in cut arrays", rows, timed(0.5)) == "support it"
    rows[1]["difference"] = 0.1
    assert verdict("A trained network in cut arrays", rows, timed(0.5)) == "cannot tell"


@pytest.mark.parametrize("name", [convolution_report.CROP_S, convolution_report.CROP_U])
def test_an_arm_is_pruned_cut_trained_and_compared(name):
    rng = np.random.default_rng(0)
    images, labels = rng.normal(size=(64, 8, 8, 1)).astype(np.float32), np.arange(64, dtype=np.int32) % 10
    rows, dense = {"images": jnp.asarray(images), "labels": jnp.asarray(labels)}, ConvolutionalNetwork((2, 3, 4), 5)
    problem = Problem(convolutional_objective(dense), rows, rows, rows, optax.adam(1e-2), 16, wrong)
    total = 9 * 2 + 9 * 2 * 3 + 9 * 3 * 4 + 4 * 4 * 5 + 5 * 10
    arm = convolutions.Arm(dense, problem, name, 0.5, 2, 32)
    assert 0 < arm.kept <= total // 2
    assert arm.arrays == prunable_size(arm.network.parameters(jax.random.key(0))) <= total
    if name == convolution_report.CROP_S:
        assert arm.arrays < total
    found = convolutions.run_arm(arm, dense, name, 0.5, 16)
    assert [row["seed"] for row in found] == [0, 1]
    assert all(0 <= row["accuracy"] <= 1 and row["difference"] < convolution_report.TOLERANCE for row in found)


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--sparsities=0.5,2", "--sparsities=0.5,2: expected fractions above 0 and below 1"),
        ("--sparsities=half", "--sparsities=half: expected float numbers"),
        ("--channels=3,4", "--channels=3,4: expected three whole numbers above 0"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(flag, message, tmp_path):
    command = [sys.executable, "experiments/convolutions.py", flag, f"--work={tmp_path / 'work'}", f"--output={tmp_path / 'out'}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())
