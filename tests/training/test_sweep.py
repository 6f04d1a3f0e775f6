"""Small sweeps end to end, on arrays made here."""

import csv
import json
from typing import Any

import jax
import numpy as np
import pytest

import jaxprune as jp
from jaxprune.training.grid import Run, expand
from jaxprune.training.sweep import RunKeys, stacks
from tests.agents.small import SETTINGS

SMALL: dict[str, Any] = dict(steps=30, eval_every=20, episodes=2, prune_rows=64, evaluate=False, settings={"hidden": (16, 12)})


@pytest.fixture(scope="module")
def dataset():
    rng = np.random.default_rng(0)
    observations = rng.normal(size=(500, 4)).astype(np.float32)
    actions = np.tanh(observations[:, :2]).astype(np.float32)
    ends = np.arange(500) % 50 == 49
    return jp.data.from_arrays(
        observations, actions, rng.normal(size=500).astype(np.float32), ends, np.zeros(500, bool), low=[-1, -1], high=[1, 1]
    )


def test_a_grid_has_one_dense_run_a_seed():
    config = jp.SweepConfig("x", algos=("bc", "bcq"), criteria=("snip", "random"), sparsities=(0.95, 0, 0.9), seeds=(3, 5))
    runs = expand(config)
    assert len(runs) == 2 * (2 + 2 * 2 * 2)
    assert runs[:3] == [Run("bc", "dense", 0.0, 3), Run("bc", "dense", 0.0, 5), Run("bc", "snip", 0.9, 3)]
    assert len({run.id for run in runs}) == len(runs)
    assert Run("bc", "snip", 0.95, 0).id == "bc-snip-0.95-0"
    assert [len(stack) for stack in stacks(runs, 4)] == [4, 4, 2, 4, 4, 2]


def test_the_output_folder(dataset, tmp_path):
    config = jp.SweepConfig("arrays", algos=("bc",), criteria=("snip", "random"), sparsities=(0, 0.9), seeds=(0, 1), **SMALL)
    records = jp.sweep(config, tmp_path / "out", dataset=dataset, progress=False)
    out = tmp_path / "out"
    assert {path.name for path in out.iterdir()} == {"config.json", "records.jsonl", "records.csv", "report.html", "runs"}
    assert len(records) == 6 * 2
    assert [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()] == records
    rows = list(csv.DictReader((out / "records.csv").open()))
    assert len(rows) == len(records)
    columns = {
        "algo",
        "criterion",
        "structure",
        "when",
        "sparsity",
        "seed",
        "step",
        "return_mean",
        "score",
        "wall_s",
        "status",
        "policy_loss",
    }
    assert columns <= set(rows[0])
    assert {row["step"] for row in rows} == {"20", "30"}
    assert json.loads((out / "config.json").read_text())["sparsities"] == [0, 0.9]
    assert "SNIP" in (out / "report.html").read_text()
    total = 4 * 16 + 16 * 12 + 12 * 2
    for record in records:
        assert record["total"] == total
        assert record["kept"] == jp.kept_count(record["sparsity"], total)
        assert record["status"] == "ok"
    agent, state = jp.load_run(out / "runs" / "bc-snip-0.9-1")
    assert int(state.step) == 30
    assert int(sum((np.asarray(leaf) != 0).sum() for name, leaf in _kernels(state.params))) <= jp.kept_count(0.9, total)
    actions = agent.act(agent.policy(state), dataset.transitions.observations[:5], jax.random.key(0))
    assert actions.shape == (5, 2)


def _kernels(params):
    return [(path, leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(params) if path[-1].key == "kernel"]


def test_a_run_in_a_sweep_is_the_run_alone(dataset, tmp_path):
    """The same masks bit for bit, and parameters up to rounding, alone and among others; the same sweep twice gives the same bits."""
    common: dict[str, Any] = dict(algos=("bcq",), seeds=(0, 1), **{**SMALL, "steps": 20, "settings": SETTINGS["bcq"]})
    jp.sweep(jp.SweepConfig("a", criteria=("snip", "random"), sparsities=(0, 0.9), **common), tmp_path / "many", dataset=dataset)
    jp.sweep(jp.SweepConfig("a", criteria=("snip", "random"), sparsities=(0, 0.9), **common), tmp_path / "again", dataset=dataset)
    alone = {**common, "seeds": (1,), "strategy": "vectorized"}
    jp.sweep(jp.SweepConfig("a", criteria=("snip",), sparsities=(0.9,), **alone), tmp_path / "one", dataset=dataset)
    states = [jp.load_run(tmp_path / folder / "runs" / "bcq-snip-0.9-1")[1] for folder in ("many", "again", "one")]
    jax.tree.map(np.testing.assert_array_equal, states[0], states[1])
    jax.tree.map(np.testing.assert_array_equal, states[0].masks, states[2].masks)
    for a, b in zip(jax.tree.leaves(states[0].params), jax.tree.leaves(states[2].params), strict=True):
        assert np.linalg.norm(a - b) <= 1e-4 * np.linalg.norm(b)


def test_runs_of_one_seed_start_from_the_same_parameters(dataset, tmp_path):
    config = jp.SweepConfig(
        "arrays",
        criteria=("random",),
        sparsities=(0, 0.5),
        seeds=(4,),
        **{**SMALL, "steps": 1, "settings": {"hidden": (8,), "learning_rate": 1e-30}},
    )
    jp.sweep(config, tmp_path / "out", dataset=dataset)
    dense, pruned = (jp.load_run(tmp_path / "out" / "runs" / name)[1] for name in ("bc-dense-4", "bc-random-0.5-4"))
    masked = jp.apply_masks(dense.params["policy"], pruned.masks["policy"])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), masked, pruned.params["policy"])
    assert len({tuple(np.asarray(jax.random.key_data(k)).tolist()) for k in vars(RunKeys.of(4)).values()}) == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"criteria": ("snap",)}, "criteria: 'snap' is unknown; expected one of crop"),
        ({"algos": ("sac",)}, "algos: 'sac' is unknown; expected one of bc"),
        ({"sparsities": (0.5, 1.2)}, r"expected a sparsity in \[0, 1\].* got 1.2"),
        ({"sparsities": ()}, "sparsities is empty"),
        ({"seeds": (1, 1)}, "seeds names a value twice"),
        ({"seeds": (-1,)}, "expected seeds in"),
        ({"criteria": (), "sparsities": (0.5,)}, "criteria is empty"),
        ({"steps": 0}, "expected steps of at least 1, got 0"),
        ({"budget": "layer"}, "budget: 'layer' is unknown; expected one of mlp, network, pooled"),
        ({"strategy": "parallel"}, "strategy: 'parallel' is unknown"),
    ],
)
def test_bad_settings_name_the_remedy(changes, message):
    with pytest.raises(ValueError, match=message):
        jp.SweepConfig(**{"dataset": "x", **changes})


def test_a_used_folder_and_a_missing_environment_are_refused_before_anything_is_written(dataset, tmp_path):
    config = jp.SweepConfig("arrays", sparsities=(0,), seeds=(0,), **{**SMALL, "evaluate": True})
    with pytest.raises(ValueError, match="does not say which environment it is from; pass env_id"):
        jp.sweep(config, tmp_path / "out", dataset=dataset)
    assert not (tmp_path / "out").exists()
    used = tmp_path / "used"
    used.mkdir()
    (used / "records.jsonl").write_text("precious")
    config = jp.SweepConfig("arrays", sparsities=(0,), seeds=(0,), **SMALL)
    with pytest.raises(ValueError, match="already holds a sweep .*--overwrite"):
        jp.sweep(config, used, dataset=dataset)
    assert (used / "records.jsonl").read_text() == "precious"
    jp.sweep(config, used, dataset=dataset, overwrite=True)
    assert "precious" not in (used / "records.jsonl").read_text()


def test_a_diverged_run_is_marked_failed_and_leaves_the_others_be(dataset, tmp_path):
    poisoned = dataset.transitions.replace(rewards=dataset.transitions.rewards.copy())
    poisoned.rewards[:] = np.float32(3e38)
    broken = jp.data.Dataset(**{**vars(dataset), "transitions": poisoned})
    settings = {**SETTINGS["bcq"], "learning_rate": 1e4}
    config = jp.SweepConfig("a", algos=("bcq",), sparsities=(0,), seeds=(0,), **{**SMALL, "settings": settings})
    records = jp.sweep(config, tmp_path / "out", dataset=broken)
    assert records[-1]["status"] == "failed"
