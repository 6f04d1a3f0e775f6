"""What scripts of several sweeps share."""

import pytest
from arm_runs import KeptRows, authors_settings, cell_rows, failures_told, numbers_of, returns_of

from jaxprune.reporting.summary import runs_of
from tests.conftest import make_dataset


def records(criterion, sparsity, seed, returns, status="ok"):
    about = {"run_id": f"{criterion}-{sparsity}-{seed}", "algo": "bc", "dataset": "d", "criterion": criterion, "sparsity": sparsity}
    return [{**about, "seed": seed, "step": 10 * (i + 1), "return_mean": r, "status": status} for i, r in enumerate(returns)]


def test_kept_rows_outlive_a_kill_and_refuse_other_settings(tmp_path):
    path = tmp_path / "work" / "rows.jsonl"
    KeptRows(path, {"rows": 3}).add("a", [{"x": 1}])
    with path.open("a") as file:
        file.write('["b", [{"x"')
    again = KeptRows(path, {"rows": 3})
    assert again.rows == {"a": [{"x": 1}]}
    again.add("b", [2])
    assert KeptRows(path, {"rows": 3}).rows == {"a": [{"x": 1}], "b": [2]}
    with pytest.raises(ValueError, match="was begun with"):
        KeptRows(path, {"rows": 4})


def test_returns_are_the_mean_of_three_and_failed_runs_enter_none():
    rows = records("dense", 0.0, 0, [0, 10, 20, 30]) + records("snip", 0.9, 0, [8, 8, 8]) + records("snip", 0.9, 1, [9], status="failed")
    runs = runs_of(rows)
    assert returns_of(runs) == {("dense", 0.0): {0: 20.0}, ("snip", 0.9): {0: 8.0}}
    dense, snip = cell_rows(runs, dataset="d")
    assert (dense["return_mean"], snip["return_mean"], snip["of_dense"], snip["seeds"]) == (20.0, 8.0, 0.4, 1)
    assert failures_told([dense, snip]) == ["Failed, in no number above: d, SNIP at 90 % (seed 1: status is failed)."]


def test_numbers_name_their_flag():
    assert numbers_of("rows", ["1", "4"], int) == (1, 4)
    with pytest.raises(ValueError, match="--rows=1,x: expected int numbers"):
        numbers_of("rows", ["1", "x"], int)


def test_iql_scales_rewards_by_the_spread_of_returns():
    data = make_dataset()
    returns = data.report.return_statistics
    found = authors_settings("iql", data, 7)
    assert found == {"reward_scale": pytest.approx(1000 / (returns["max"] - returns["min"])), "max_steps": 7}
    assert authors_settings("bc", data, 7) == {}
