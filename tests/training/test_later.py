"""Sweeps whose runs are pruned in the middle of training."""

from typing import Any

import jax
import numpy as np
import pytest

import jaxprune as jp
from jaxprune.training.early import train_early
from jaxprune.training.grid import Run
from jaxprune.training.loop import sample
from jaxprune.training.start import RunKeys, prune_run
from tests.agents.small import SETTINGS
from tests.conftest import make_dataset

SMALL: dict[str, Any] = dict(steps=30, eval_every=10, episodes=2, prune_rows=64, evaluate=False, settings={"hidden": (16, 12)})


@pytest.fixture(scope="module")
def dataset():
    return make_dataset()


def rows_of(records, run_id):
    return [record for record in records if record["run_id"] == run_id]


def kept_weights(masks):
    return sum(int(leaf.sum()) for path, leaf in jax.tree_util.tree_leaves_with_path(masks) if path[-1].key == "kernel")


@pytest.mark.parametrize("compacts", [False, True])
@pytest.mark.parametrize("check", ["shuffled", "reinit"])
def test_a_sanity_check_leaves_networks_pruned_earlier_alone(dataset, check, compacts):
    config = jp.SweepConfig("a", algos=("td3_bc",), criteria=("snip",), when="step:5", scope="network", **SMALL)
    run = Run("td3_bc", f"snip_{check}", 0.9, 0)
    agent = jp.agents.make("td3_bc", dataset.spec, **config.settings)
    dense = agent.init(RunKeys.of(0).init, dataset.statistics)

    def pruned(agent, state, network):
        return prune_run(agent, state, run, config, dataset.transitions, dataset.statistics, networks=(network,))

    state, info = pruned(agent, dense, "critic")
    assert info.kept == kept_weights(state.masks["critic"]) < info.total / 5
    for field in ("params", "masks", "opt_state"):
        jax.tree.map(np.testing.assert_array_equal, getattr(state, field)["actor"], getattr(dense, field)["actor"])
    if compacts:
        agent, state = jp.compact(agent, state, multiple=1)
        assert agent.widths
    after, _ = pruned(agent, state, "actor")
    for field in ("params", "targets", "masks", "opt_state", "units", "total"):
        jax.tree.map(np.testing.assert_array_equal, getattr(after, field)["critic"], getattr(state, field)["critic"])
    kernels = [np.asarray(leaf) for leaf in jax.tree.leaves(after.params["actor"]) if leaf.ndim == 2]
    assert sum((kernel != 0).sum() for kernel in kernels) == kept_weights(after.masks["actor"]) > 0
    assert (check == "reinit") == any(
        (kernel != np.asarray(old))[kernel != 0].any()
        for kernel, old in zip(kernels, (leaf for leaf in jax.tree.leaves(state.params["actor"]) if leaf.ndim == 2), strict=True)
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"when": "step:15"},
        {"when": "early", "check_every": 4},
        {"when": "early", "check_every": 4, "scope": "network", "threshold": "paper", "reference": "init", "restart_optimizer": True},
        {"when": "early", "check_every": 7, "structure": "units", "criteria": ("crop", "l1"), "cap": 12},
        {"when": "step:15", "total": "full-after", "structure": "hybrid"},
    ],
)
def test_a_run_of_a_sweep_is_the_run_alone(dataset, tmp_path, changes):
    config = jp.SweepConfig("a", **{"criteria": ("snip", "random"), "sparsities": (0, 0.7), "seeds": (3, 1), **SMALL, **changes})
    records = jp.sweep(config, tmp_path / "out", dataset=dataset)
    agent = jp.agents.make("bc", dataset.spec, **config.settings)
    for criterion in config.criteria:
        keys = RunKeys.of(1)
        arms = {"unit_criterion": criterion} if config.structure == "units" else {"criterion": criterion}
        small, expected, report = train_early(
            agent,
            agent.init(keys.init, dataset.statistics),
            dataset.transitions,
            steps=30,
            key=keys.train,
            prune_rows=lambda i, keys=keys: sample(dataset.transitions, jax.random.fold_in(jax.random.fold_in(keys.prune, 0), i), 64),
            prune_key=jax.random.fold_in(keys.prune, 1),
            sparsity=0.7,
            structure=config.structure,
            **arms,
            **vars(config.when_rule),
        )
        run_id = f"bc-{criterion}-0.7-1"
        loaded = jp.expand(*jp.load_run(tmp_path / "out" / "runs" / run_id))[1]
        full = jp.expand(small, expected)[1]
        jax.tree.map(np.testing.assert_array_equal, loaded.masks, full.masks)
        for one, other in zip(jax.tree.leaves(loaded.params), jax.tree.leaves(full.params), strict=True):
            assert np.linalg.norm(one - other) <= 1e-4 * np.linalg.norm(other)
        (at,) = set(report.pruned_at.values())
        rows = rows_of(records, run_id)
        end = at + 30 if config.total == "full-after" else 30
        assert [row["step"] for row in rows] == [*range(10, end, 10), end]
        assert [row["pruned_at"] for row in rows] == [at if row["step"] >= at else 0 for row in rows]
        assert [row["kept"] < row["total"] for row in rows] == [row["step"] >= at for row in rows]
        assert {row["when"] for row in rows} == {config.when}
        dense = rows_of(records, "bc-dense-1")
        if at > 10:
            assert rows[0]["policy_loss"] == pytest.approx(dense[0]["policy_loss"], rel=1e-5), "before pruning it is its seed's dense run"
        assert {row["when"] for row in dense} == {"init"}


def test_networks_that_are_pruned_apart_are_counted_by_their_original_weights(dataset, tmp_path):
    """Though the arrays are cut as soon as the first of them is pruned."""
    settings = SETTINGS["bcq"]
    common = {
        **SMALL,
        "algos": ("bcq",),
        "criteria": ("magnitude",),
        "sparsities": (0, 0.9),
        "seeds": (0,),
        "steps": 4,
        "settings": settings,
    }
    config = jp.SweepConfig("a", **{**common, "eval_every": 1}, when="early", scope="network", check_every=2, cap=3)
    records = jp.sweep(config, tmp_path / "out", dataset=dataset)
    (total,) = {row["total"] for row in rows_of(records, "bcq-dense-0")}
    at_once = jp.sweep(jp.SweepConfig("a", **{**common, "sparsities": (0.9,)}), tmp_path / "at_once", dataset=dataset)
    rows = rows_of(records, "bcq-magnitude-0.9-0")
    assert {row["total"] for row in rows} == {total}
    assert rows[-1]["kept"] == at_once[-1]["kept"]
    assert rows[0]["kept"] == total


def test_pruned_at_the_last_update_it_is_evaluated_as_pruned(dataset, tmp_path):
    config = jp.SweepConfig("a", sparsities=(0.7,), seeds=(0,), when="step:30", **SMALL)
    records = jp.sweep(config, tmp_path / "out", dataset=dataset)
    assert [(row["step"], row["kept"] < row["total"]) for row in records] == [(10, False), (20, False), (30, True)]


def test_a_run_that_cannot_be_pruned_later_leaves_the_others_be(dataset, tmp_path, monkeypatch):
    from jaxprune.training import later

    def prune(agent, state, run, *rest, **kwargs):
        if run.seed == 1 and run.criterion == "snip":
            raise ValueError("every score is zero")
        return prune_run(agent, state, run, *rest, **kwargs)

    prune_run = later.prune_run
    monkeypatch.setattr(later, "prune_run", prune)
    config = jp.SweepConfig("a", criteria=("snip", "random"), sparsities=(0.7,), seeds=(0, 1), when="step:15", **SMALL)
    records = jp.sweep(config, tmp_path / "out", dataset=dataset)
    assert [(row["status"], row.get("reason")) for row in rows_of(records, "bc-snip-0.7-1")] == [("failed", "every score is zero")]
    assert {row["status"] for row in records if row["run_id"] != "bc-snip-0.7-1"} == {"ok"}
    assert len({row["run_id"] for row in records}) == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"when": "late"}, "when='late' is unknown; expected init, early or step:N"),
        ({"when": "step:31"}, "pruning after 31 updates is beyond the 30 of the run"),
        ({"when": "early", "cap": 40}, "pruning after 40 updates is beyond the 30"),
        (
            {"when": "early", "structure": "units", "criteria": ("crop",), "sparsities": (0.95,)},
            "can never fire for units at sparsity 0.95",
        ),
        ({"when": "early", "check_every": 0}, "check_every of at least one"),
        ({"total": "half"}, "total='half' is unknown"),
    ],
)
def test_refusals(changes, message):
    with pytest.raises(ValueError, match=message):
        jp.SweepConfig(**{"dataset": "x", **SMALL, **changes})


def test_programs_are_few(dataset, tmp_path):
    """One program a stack, and one for the dense training that all seeds share, however many pieces and evaluations there are."""
    from jaxprune.training.loop import train_blocks

    before = train_blocks._cache_size()
    settings = {"hidden": (24, 24)}
    config = jp.SweepConfig(
        "a",
        criteria=("snip", "random", "magnitude"),
        sparsities=(0, 0.5, 0.6, 0.98),
        seeds=(0, 1, 2),
        when="step:15",
        **{**SMALL, "settings": settings},
    )
    records = jp.sweep(config, tmp_path / "out", dataset=dataset)
    stacks = {(record["executed"], record["stack"], record["pruned_at"]) for record in records if record["step"] == 30}
    assert len({record["run_id"] for record in records}) == 30
    assert train_blocks._cache_size() - before <= len(stacks) + 1
    assert len(stacks) <= 6
