import math

import pytest

from jaxprune.reporting import cells_of, pooled_cells, runs_of, text_table
from jaxprune.reporting.summary import series_labels
from jaxprune.reporting.tables import csv_text
from tests.reporting.synthetic import make_records


def rows_of_a_run(returns, *, run_id="a", seed=0, **columns):
    base = dict(run_id=run_id, algo="bc", dataset="d", criterion="snip", sparsity=0.95, seed=seed, kept=5, total=100)
    return [base | dict(step=100 * place, return_mean=value, score="n/a") | columns for place, value in enumerate(returns, 1)]


def test_a_runs_score_is_the_mean_of_its_last_three_evaluations():
    (run,) = runs_of(rows_of_a_run([50.0, 1.0, 2.0, 6.0]))
    assert run.final == 3.0
    assert run.best == 50.0
    assert run.final_score is None
    (short,) = runs_of(rows_of_a_run([1.0, 2.0]))
    assert short.final == 1.5


@pytest.mark.parametrize(("pruned_at", "final", "best"), [(250, 13.5, 20.0), (300, 20.0, 20.0), (400, 20.0, 20.0)])
def test_what_a_run_returned_before_it_was_pruned_counts_nowhere(pruned_at, final, best):
    rows = rows_of_a_run([900.0, 800.0, 7.0, 20.0], pruned_at=pruned_at)
    dense = [row | (dict(pruned_at=0, kept=100) if row["step"] < pruned_at else {}) for row in rows]
    (run,) = runs_of(row | dict(score=row["return_mean"] / 10) for row in dense)
    assert (run.final, run.best, run.kept) == (final, best, 5)
    assert run.final_score == pytest.approx(final / 10)
    assert run.returns == (900.0, 800.0, 7.0, 20.0), "the curve has all"


def test_rows_may_come_in_any_order_and_the_later_of_two_counts():
    rows = rows_of_a_run([1.0, 2.0, 3.0, 4.0])
    (run,) = runs_of([*rows[::-1], rows[0] | dict(return_mean=7.0)])
    assert run.steps == (100, 200, 300, 400)
    assert run.returns == (7.0, 2.0, 3.0, 4.0)


def test_tables_read_back_from_csv_have_strings():
    rows = [{key: str(value) for key, value in row.items()} for row in rows_of_a_run([1.0, 2.0], score="30.5")]
    (run,) = runs_of(rows)
    assert (run.final, run.final_score, run.kept, run.sparsity) == (1.5, 30.5, 5, 0.95)


def test_failed_and_nan_seeds_are_named_and_in_no_number():
    rows = rows_of_a_run([1.0, 3.0]) + rows_of_a_run([1.0, math.nan], run_id="b", seed=1)
    rows += rows_of_a_run([100.0], run_id="c", seed=2, status="failed", error="out of memory")
    (cell,) = cells_of(runs_of(rows))
    assert cell.returns is not None
    assert cell.returns.values == (2.0,)
    assert [(run.run_id, run.failure) for run in cell.failed] == [("b", "there is no return at step 200"), ("c", "out of memory")]
    table = text_table(rows)
    assert "1 of 3 (seeds 1, 2 failed)" in table
    assert "b (seed 1): there is no return at step 200" in table


def test_a_cell_where_all_failed_has_no_number():
    (cell,) = cells_of(runs_of(rows_of_a_run([math.nan])))
    assert cell.returns is None
    assert cell.of_dense is None
    assert "n/a" in text_table(rows_of_a_run([math.nan]))


def test_where_no_row_has_a_return_nothing_was_evaluated():
    rows = rows_of_a_run([None, None]) + rows_of_a_run(["n/a", ""], run_id="b", seed=1)
    rows += rows_of_a_run([None], run_id="c", seed=2, status="failed", reason="out of memory")
    (cell,) = cells_of(runs_of(rows))
    assert [(run.run_id, run.evaluated, run.failure) for run in cell.runs] == [("a", False, None), ("b", False, None)]
    assert [run.failure for run in cell.failed] == ["out of memory"]
    assert cell.returns is cell.best is cell.scores is cell.of_dense is None
    table = text_table(rows)
    assert "Not evaluated" in table
    assert "2 of 3 (seed 2 failed)" in table
    # Beside runs that have returns, one without has failed.
    (cell,) = cells_of(runs_of([*rows, *rows_of_a_run([1.0], run_id="d", seed=3)]))
    assert [run.run_id for run in cell.runs] == ["d"]
    assert cell.failed[0].failure == "there is no return at step 100"


def test_of_dense_is_the_ratio_of_means():
    rows = rows_of_a_run([90.0]) + rows_of_a_run([110.0], run_id="b", seed=1)
    rows += rows_of_a_run([200.0], run_id="c", criterion="dense", sparsity=0.0)
    dense, pruned = cells_of(runs_of(rows))
    assert dense.series.dense
    assert pruned.of_dense is not None
    assert pruned.of_dense.value == 0.5


def test_without_dense_there_is_no_ratio():
    (cell,) = cells_of(runs_of(rows_of_a_run([90.0])))
    assert cell.of_dense is None


def test_one_seed_twice_is_refused():
    with pytest.raises(ValueError, match=r"a and b are both seed 0 .*rounds"):
        cells_of(runs_of(rows_of_a_run([1.0]) + rows_of_a_run([1.0], run_id="b")))


def test_settings_that_differ_set_series_apart_and_are_named():
    rows = rows_of_a_run([1.0], structure="weights", when="init", rounds=1)
    rows += rows_of_a_run([1.0], run_id="b", structure="units", when="init", rounds=10)
    cells = cells_of(runs_of(rows))
    assert len(cells) == 2
    assert list(series_labels(cell.series for cell in cells).values()) == ["SNIP (weights, rounds 1)", "SNIP (units, rounds 10)"]
    assert list(series_labels([cells[0].series]).values()) == ["SNIP"]


def test_pooled_cells_need_every_data_set():
    rows = make_records(seeds=5, datasets=("x/hopper/medium-v0", "x/walker2d/medium-v0"))
    lost = [row for row in rows if not ("walker2d" in row["dataset"] and row["criterion"] == "random" and row["sparsity"] == 0.99)]
    cells = pooled_cells(runs_of(lost))
    assert len(cells) == 1 + 3 * 3 - 1
    assert all(cell.scores is not None and cell.scores.label.startswith("5 seeds × 2 tasks") for cell in cells)
    assert pooled_cells(runs_of([row | dict(score="n/a") for row in rows])) == []


def test_no_records_is_an_error():
    with pytest.raises(ValueError, match="no records"):
        text_table([])


def test_a_missing_column_and_a_bad_number_are_named():
    with pytest.raises(ValueError, match="row 0 has no column algo, seed"):
        runs_of([{key: value for key, value in rows_of_a_run([1.0])[0].items() if key not in ("algo", "seed")}])
    with pytest.raises(ValueError, match="row 1: expected a number in column return_mean, got 'much'"):
        runs_of(rows_of_a_run([1.0, "much"]))
    with pytest.raises(ValueError, match="row 0: expected a number in column sparsity, got None"):
        runs_of(rows_of_a_run([1.0], sparsity=None))


def test_text_table_is_aligned_and_says_what_brackets_are(records):
    lines = text_table(records).splitlines()
    assert lines[0] == "BC on Hopper medium (71,424 prunable weights)"
    assert lines[2] == "-" * len(lines[1])
    assert len({len(line) for line in lines[3:13]}) == 1
    assert "range [min, max]" in lines[-1]
    assert "bootstrap interval" in text_table(make_records(seeds=5)).splitlines()[-1]
    assert any(line.startswith("SNIP") and "95 %" in line and "3,571" in line for line in lines)


def test_csv_has_every_column_once():
    text = csv_text([{"a": 1, "b": "x,y"}, {"a": 2, "c": 'say "hi"'}])
    assert text == 'a,b,c\n1,"x,y",\n2,,"say ""hi"""\n'
