"""Small sweeps end to end, on arrays made here."""

import csv
import dataclasses
import json
import os
from typing import Any

import jax
import numpy as np
import optax
import pytest

import jaxprune as jp
from jaxprune.training.grid import Run, expand
from jaxprune.training.records import OutputFolder
from jaxprune.training.stacks import grouped
from jaxprune.training.start import RunKeys, start_run
from tests.agents.small import SETTINGS
from tests.conftest import make_dataset

SMALL: dict[str, Any] = dict(steps=30, eval_every=20, episodes=2, prune_rows=64, evaluate=False, settings={"hidden": (16, 12)})


@pytest.fixture(scope="module")
def dataset():
    return make_dataset(500)


def test_a_grid_has_one_dense_run_a_seed():
    config = jp.SweepConfig("x", algos=("bc", "bcq"), criteria=("snip", "random"), sparsities=(0.95, 0, 0.9), seeds=(3, 5))
    runs = expand(config)
    assert len(runs) == 2 * (2 + 2 * 2 * 2)
    assert runs[:3] == [Run("bc", "dense", 0.0, 3), Run("bc", "dense", 0.0, 5), Run("bc", "snip", 0.9, 3)]
    assert len({run.id for run in runs}) == len(runs)
    assert Run("bc", "snip", 0.95, 0).id == "bc-snip-0.95-0"


def test_the_output_folder(dataset, tmp_path):
    config = jp.SweepConfig("arrays", algos=("bc",), criteria=("snip", "random"), sparsities=(0, 0.9), seeds=(0, 1), **SMALL)
    records = jp.sweep(config, tmp_path / "out", dataset=dataset, progress=False)
    out = tmp_path / "out"
    assert {path.name for path in out.iterdir()} == {
        "config.json",
        "progress.json",
        "records.jsonl",
        "records.csv",
        "report.html",
        "runs",
    }
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
    full = [jp.expand(*jp.load_run(tmp_path / folder / "runs" / "bcq-snip-0.9-1"))[1] for folder in ("many", "one")]
    jax.tree.map(np.testing.assert_array_equal, full[0].masks, full[1].masks)
    for a, b in zip(jax.tree.leaves(full[0].params), jax.tree.leaves(full[1].params), strict=True):
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
    _, dense = jp.load_run(tmp_path / "out" / "runs" / "bc-dense-4")
    _, pruned = jp.expand(*jp.load_run(tmp_path / "out" / "runs" / "bc-random-0.5-4"))
    assert pruned.masks["policy"]["Dense_0"]["kernel"].any()
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
        ({"criteria": ("snip", "snip")}, "criteria names a value twice: snip, snip"),
        ({"criteria": ("snap",)}, "it ranks units: add --structure=units"),
        (
            {"criteria": ("snip",), "structure": "units"},
            "'snip' does not rank units; with structure=units expected one of crop, snap, l1, random",
        ),
        ({"criteria": ("crop",), "structure": "units", "sanity": True}, "sanity checks are of masks over single weights"),
        ({"floor": -1}, "expected floor of at least 0, got -1"),
        ({"inner_density": 2}, "expected inner_density in"),
        ({"settings": {"learning_rate": -1.0}}, "expected a learning_rate above 0, got -1.0"),
        ({"settings": {"init": "foo"}}, "init: 'foo' is unknown; expected one of"),
        ({"budget": "layer"}, "budget: 'layer' is unknown; expected one of mlp, network, pooled"),
        ({"strategy": "parallel"}, "strategy: 'parallel' is unknown"),
        ({"networks": ()}, "networks is empty; name at least one, or leave it out for all"),
        ({"steps": 1e3}, r"steps: expected a whole number, got 1000.0"),
        ({"steps": "20"}, r"steps: expected a whole number, got '20'"),
        ({"batch_size": 16.5}, r"batch_size: expected a whole number, got 16.5"),
        ({"seeds": (0.5,)}, r"seeds: expected a whole number, got 0.5"),
        ({"seeds": None}, r"seeds: expected a list, got None"),
        ({"sparsities": ("0.5",)}, r"sparsities: expected a number, got '0.5'"),
        ({"criteria": (1,)}, r"criteria: expected a name, got 1"),
        ({"lambda_": float("nan")}, r"lambda_: expected a number, got nan"),
        ({"settings": None}, r"settings: expected \{setting: value\}, got None"),
        ({"settings": {"learning_rate": "a"}}, r"learning_rate: expected a number, got 'a'"),
    ],
)
def test_bad_settings_name_the_remedy(changes, message):
    with pytest.raises(ValueError, match=message):
        jp.SweepConfig(**{"dataset": "x", **changes})


def test_numbers_of_numpy_become_pythons():
    given = {
        "steps": np.int64(5),
        "batch_size": np.int32(4),
        "sparsities": np.array([0.5]),
        "seeds": np.arange(2),
        "lambda_": np.float32(0.5),
    }
    config = jp.SweepConfig("x", **given, settings={"learning_rate": np.float64(0.1)})
    plain = jp.SweepConfig("x", steps=5, batch_size=4, sparsities=(0.5,), seeds=(0, 1), lambda_=0.5, settings={"learning_rate": 0.1})
    assert json.dumps(dataclasses.asdict(config)) == json.dumps(dataclasses.asdict(plain))


def test_a_setting_that_is_none_is_named():
    assert jp.SweepConfig.from_json({"dataset": "x", "steps": 3, "command": "python x.py"}).steps == 3
    with pytest.raises(ValueError, match="'sparsity' is no setting of a sweep; did you mean 'sparsities'"):
        jp.SweepConfig.from_json({"dataset": "x", "sparsity": 0.9})


def test_files_that_no_sweep_wrote_are_never_deleted(dataset, tmp_path):
    config = jp.SweepConfig("arrays", sparsities=(0,), seeds=(0,), **SMALL)
    for name, content in (("config.json", "{}"), ("report.html", "mine"), ("runs/tb/events", "mine")):
        folder = tmp_path / name.partition("/")[0].partition(".")[0]
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(content)
        for options in ({}, {"overwrite": True}, {"resume": name != "config.json"}):
            with pytest.raises(ValueError, match=f"holds {name.partition('/')[0]}, which no sweep wrote; name another output folder"):
                jp.sweep(config, folder, dataset=dataset, **options)
        assert (folder / name).read_text() == content
        assert [path for path in folder.rglob("*") if path.is_file()] == [folder / name]


def test_a_folder_that_another_process_writes_is_refused(dataset, tmp_path):
    config, out = jp.SweepConfig("arrays", sparsities=(0,), seeds=(0,), **SMALL), tmp_path / "out"
    expected = jp.sweep(config, out, dataset=dataset)
    holder = OutputFolder(out, resume=True)
    try:
        for options in ({"resume": True}, {"overwrite": True}):
            with pytest.raises(ValueError, match=rf"another process \({os.getpid()} on .*\) is writing to .*out; wait for its end"):
                jp.sweep(config, out, dataset=dataset, **options)
    finally:
        holder.close()
    assert jp.sweep(config, out, dataset=dataset, resume=True) == expected
    assert not (out / "sweep.lock").exists()


def test_a_folder_left_before_its_config_was_written_is_begun(dataset, tmp_path):
    config = jp.SweepConfig("arrays", sparsities=(0,), seeds=(0,), **SMALL)
    (tmp_path / "records.jsonl").touch()
    assert jp.sweep(config, tmp_path, dataset=dataset, resume=True)


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


def test_runs_of_similar_width_share_a_program(dataset):
    settings = {"hidden": (64, 64)}
    config = jp.SweepConfig(
        "a", criteria=("snip", "small_dense"), sparsities=(0, 0.5, 0.99), seeds=(0, 1), **{**SMALL, "settings": settings}
    )
    agent = jp.agents.make("bc", dataset.spec, **settings)
    starts = [start_run(agent, run, config, dataset, dataset.transitions) for run in expand(config)]
    groups = [[start.run.id for start in group] for group in grouped(starts, most=5)]
    assert [name for group in groups for name in group] == [run.id for run in expand(config)]
    assert max(map(len, groups)) <= 5
    dense = next(group for group in groups if "bc-dense-0" in group)
    assert not any("0.99" in name for name in dense)
    assert len(list(grouped(starts, most=1))) == len(starts)


def test_compaction_changes_no_result(dataset, tmp_path):
    settings = {"hidden": (64, 64)}
    returned = []
    for compact in (True, False):
        config = jp.SweepConfig("a", criteria=("snip",), sparsities=(0.98,), seeds=(0,), compact=compact, **{**SMALL, "settings": settings})
        records = jp.sweep(config, tmp_path / str(compact), dataset=dataset)
        agent, state = jp.load_run(tmp_path / str(compact) / "runs" / "bc-snip-0.98-0")
        returned.append((records[-1], agent.act(agent.policy(state), dataset.transitions.observations, jax.random.key(0)), agent))
    (small, actions, thin), (large, expected, full) = returned
    np.testing.assert_allclose(actions, expected, atol=1e-4)
    np.testing.assert_allclose(small["policy_loss"], large["policy_loss"], rtol=1e-4)
    assert small["kept"] == large["kept"]
    assert small["executed"] < 0.5 * large["executed"] == 0.5 * (4 * 64 + 64 * 64 + 64 * 2)
    assert thin.widths
    assert not full.widths


def test_sanity_checks_and_baselines(dataset, tmp_path):
    settings = {"hidden": (16, 12)}
    arms = ("snip", "small_dense", "lottery_ticket", "gradual")
    config = jp.SweepConfig(
        "a", criteria=arms, sparsities=(0.5,), seeds=(0,), sanity=True, lottery_rounds=2, compact=False, **{**SMALL, "settings": settings}
    )
    assert config.criteria == ("snip", "snip_shuffled", "snip_reinit", "snip_inverted", "small_dense", "lottery_ticket", "gradual")
    records = jp.sweep(config, tmp_path / "out", dataset=dataset)
    last = {record["criterion"]: record for record in records if record["step"] == 30}
    assert set(last) == set(config.criteria)
    total = 4 * 16 + 16 * 12 + 12 * 2
    for name, record in last.items():
        if name != "small_dense":
            assert (record["kept"], record["total"]) == (total // 2, total)
    assert last["small_dense"]["total"] <= total // 2
    masks = {
        name: jp.load_run(tmp_path / "out" / "runs" / f"bc-{name}-0.5-0")[1].masks["policy"] for name in config.criteria if "snip" in name
    }
    kernels = {name: [np.asarray(mask[layer]["kernel"]) for layer in ("Dense_0", "Dense_1", "Dense_2")] for name, mask in masks.items()}
    same = {name: all((a == b).all() for a, b in zip(kernels["snip"], kernels[name], strict=True)) for name in kernels}
    assert same == {"snip": True, "snip_shuffled": False, "snip_reinit": True, "snip_inverted": False}
    assert [k.sum() for k in kernels["snip"]] == [k.sum() for k in kernels["snip_shuffled"]]
    # Half the weights are kept: what the inverted scores keep is what the others remove.
    assert all((a ^ b).all() for a, b in zip(kernels["snip"], kernels["snip_inverted"], strict=True))
    for arm in ("snip_other", "shuffled", "small_dense_shuffled"):
        with pytest.raises(ValueError, match=f"criteria: '{arm}' is unknown"):
            jp.SweepConfig("a", criteria=(arm,))


def test_the_curvature_that_a_loss_model_used_is_kept_with_the_run(dataset, tmp_path):
    settings = {**SETTINGS["bcq"], "hidden": (6, 5), "vae_hidden": (6, 5)}
    small = {**SMALL, "steps": 1, "prune_rows": 8, "settings": settings}
    config = jp.SweepConfig("a", algos=("bcq",), criteria=("qm",), sparsities=(0.5,), seeds=(0,), lambda_=0.1, **small)
    jp.sweep(config, tmp_path / "out", dataset=dataset)
    described = json.loads((tmp_path / "out" / "runs" / "bcq-qm-0.5-0" / "agent.json").read_text())
    assert described["curvature"] == {"vae": "ggn", "critic": "ggn", "actor": "hutchinson"}
    with pytest.raises(ValueError, match="curvature='ggn' needs a loss that is convex"):
        jp.sweep(dataclasses.replace(config, curvature="ggn"), tmp_path / "other", dataset=dataset)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"env_id": "Hoper-v5", "evaluate": True}, "'Hoper-v5' is not an environment that is installed here"),
        ({"env_id": "InvertedPendulum-v2", "evaluate": True, "backend": "gymnasium"}, "'InvertedPendulum-v2' cannot be made here with"),
        ({"env_id": "Hopper-v5", "evaluate": True}, "Hopper-v5 has 11 observation features but the data have 4"),
        (
            {"env_id": "InvertedPendulum-v5", "evaluate": True},
            "InvertedPendulum-v5 has 1 action features but the data have 2 action features",
        ),
        ({"env_id": "CartPole-v1", "evaluate": True}, "CartPole-v1 has 2 discrete actions but the data have 2 action features"),
        ({"algos": ("iql",), "settings": {"max_steps": 29}}, "iql: its learning rate is 0 after max_steps=29 updates, but .* up to 30"),
        (
            {"algos": ("iql",), "settings": {"max_steps": 30}, "when": "step:10", "total": "full-after"},
            "after max_steps=30 updates, but runs of this sweep make up to 40; set max_steps to that",
        ),
        ({"settings": {"hidden": (8, 8), "optimizer": optax.sgd(0.1)}}, "config.json cannot hold them"),
        ({"networks": ("foo",)}, "bc has no network 'foo'; expected some of policy"),
        ({"floor": 10_000, "sparsities": (0.9,)}, "lower it"),
    ],
)
def test_what_cannot_start_leaves_nothing_behind(dataset, tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        jp.sweep(jp.SweepConfig(**{"dataset": "a", "seeds": (0,), **SMALL, **changes}), tmp_path / "out", dataset=dataset)
    assert not (tmp_path / "out").exists()


def test_unit_criteria_are_the_arms_of_a_sweep_over_units(dataset, tmp_path):
    config = jp.SweepConfig("a", criteria=("crop", "l1"), structure="units", sparsities=(0.7,), seeds=(0,), compact=False, **SMALL)
    records = jp.sweep(config, tmp_path / "out", dataset=dataset)
    assert {record["criterion"] for record in records} == {"crop", "l1"}
    masks = [jp.load_run(tmp_path / "out" / "runs" / f"bc-{name}-0.7-0")[1].masks["policy"]["Dense_0"]["kernel"] for name in ("crop", "l1")]
    assert all((np.asarray(m).all(axis=0) | ~np.asarray(m).any(axis=0)).all() for m in masks)
    assert (np.asarray(masks[0]) != np.asarray(masks[1])).any()


def test_a_run_that_cannot_be_pruned_leaves_the_others_be(dataset, tmp_path):
    settings = {"hidden": (8, 8)}
    config = jp.SweepConfig("a", criteria=("snip",), sparsities=(0, 0.97), seeds=(0, 1), **{**SMALL, "steps": 1, "settings": settings})
    broken = {"bc-snip-0.97-1"}

    def start(agent, run, *rest):
        if run.id in broken:
            raise ValueError("every score is zero")
        return start_run(agent, run, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jaxprune.training.sweep.start_run", start)
        records = jp.sweep(config, tmp_path / "out", dataset=dataset)
    status = {record["run_id"]: (record["status"], record.get("reason")) for record in records}
    assert status.pop("bc-snip-0.97-1") == ("failed", "every score is zero")
    assert set(status.values()) == {("ok", None)}
    assert len(status) == 3
    assert "bc-snip-0.97-1" in (tmp_path / "out" / "report.html").read_text()
    assert len((tmp_path / "out" / "records.jsonl").read_text().splitlines()) == len(records)
