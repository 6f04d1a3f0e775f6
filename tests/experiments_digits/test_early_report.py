"""Returns over time and the verdicts on EarlyCroP, by numbers worked out by hand."""

import pytest
from early_report import (
    DENSE,
    EARLY_UNITS,
    EARLY_WEIGHTS,
    INIT_WEIGHTS,
    LOOKS,
    TICKET,
    Cell,
    Run,
    figure,
    mean_over_time,
    ratios,
    report,
    returns_over_time,
    seconds_at,
    verdicts,
)

CELLS = [Cell("bc", f"jaxprune/{task}/medium-v0", 100) for task in ("hopper", "walker2d")]


def made(*, slow_weights=True, seeds=5):
    """Units reach 1,000 at once; weights 600 after one budget of 100 updates and 1,000 after four; an update of units takes a tenth."""
    runs, costs = {}, {}
    for cell in CELLS:
        costs[cell.name] = {
            arm: {"step_ms": 10.0, "state_bytes": 4000, "peak_bytes": 9000, "joules": None, "sensors": None} for arm in (DENSE, *LOOKS)
        }
        costs[cell.name][EARLY_UNITS] |= {"step_ms": 1.0, "state_bytes": 1000, "peak_bytes": 3000}
        for one in costs[cell.name].values():
            one["widths"] = "policy:8-8"
        for arm in (DENSE, *LOOKS):
            first = 600.0 if slow_weights and arm == EARLY_WEIGHTS else 1000.0
            pruned_at = 20 if arm in (EARLY_UNITS, EARLY_WEIGHTS) else 0
            runs[cell.name, arm] = {
                seed: Run(
                    ((50, first + seed), (100, first + seed), (200, 800.0), *((400 + i, 1000.0 + seed) for i in (-2, -1, 0))),
                    pruned_at,
                    3.0,
                    50,
                    80,
                )
                for seed in range(seeds)
            }
    return runs, costs


def outcomes(runs, costs):
    return {text.split(": our runs")[0]: text.split("**")[1] for text in verdicts(runs, costs, CELLS, (1, 4))}


def test_the_return_averaged_over_time():
    # 0 to 10 over the first second, level over the second, held to the fourth: (5 + 10 + 20) / 4.
    assert mean_over_time([1, 2], [10, 10], 4) == pytest.approx(35 / 4)
    # Cut on the way up, at 5: a triangle of ½ × 5 / 2.
    assert mean_over_time([1, 2], [10, 10], 0.5) == pytest.approx(2.5)
    # A lottery ticket that takes until after the horizon has no evaluation within it: on the way from 0 at 0 to 10 at 8.
    assert mean_over_time([8], [10], 4) == pytest.approx(2.5)


def test_seconds_count_dense_updates_before_pruning_and_the_search_for_a_ticket():
    costs = {DENSE: {"step_ms": 10.0}, EARLY_UNITS: {"step_ms": 1.0}, TICKET: {"step_ms": 5.0}}
    run = Run(((100, 1.0),), 20, 7.0, 1, 1)
    assert seconds_at(run, EARLY_UNITS, 100, costs) == pytest.approx(0.2 + 0.08)
    assert seconds_at(run, EARLY_UNITS, 10, costs) == pytest.approx(0.1)
    assert seconds_at(run._replace(pruned_at=0), TICKET, 100, costs) == pytest.approx(7.5)


def test_a_return_is_the_mean_of_the_last_three_evaluations_up_to_a_budget():
    run = Run(((1, 0.0), (2, 3.0), (3, 6.0), (4, 9.0)), 0, 0.0, 1, 1)
    assert (run.at(3), run.at(4), run.at(2)) == (3.0, 6.0, 1.5)


def test_verdicts_where_weights_start_slowly():
    runs, costs = made()
    said = outcomes(runs, costs)
    assert said["Unit pruning wins on return per second: CroP-S early returns more than CroP-U early"] == "support it"
    assert said["… CroP-S early more than dense"] == "support it"
    assert said["Pruned weights are behind at first: after 1 budget CroP-U early returns less than CroP-S early"] == "support it"
    assert said["… and catch up with training: from 1 budget to 4 CroP-U early gains on CroP-S early"] == "support it"
    assert said["After 4 budgets CroP-U early returns as much as dense, to 5 % of dense"] == "support it"
    assert said["CroP-S early trains on with less time an update than dense"] == "support it"
    assert said["CroP-S early trains on with less energy than dense"] == "cannot tell"
    assert ratios(costs, CELLS, EARLY_UNITS, "peak_bytes") == [3.0, 3.0]


def test_verdicts_where_they_do_not():
    runs, costs = made(slow_weights=False)
    for cell in CELLS:
        costs[cell.name][EARLY_UNITS] |= {"step_ms": 20.0, "state_bytes": 8000}
    said = outcomes(runs, costs)
    assert said["Unit pruning wins on return per second: CroP-S early returns more than CroP-U early"] == "contradict it"
    assert said["CroP-S early trains on with less time an update than dense"] == "contradict it"
    assert said["CroP-S early trains on with less state memory than dense"] == "contradict it"


def test_a_run_without_a_pair_tells_nothing():
    runs, costs = made()
    for cell in CELLS:
        del runs[cell.name, TICKET]
    assert outcomes(runs, costs)["… CroP-S early more than the lottery ticket"] == "cannot tell"
    assert set(returns_over_time(runs, costs, CELLS, INIT_WEIGHTS)) == {cell.name for cell in CELLS}


def test_report_and_figure(tmp_path):
    runs, costs = made(seeds=2)
    del runs[CELLS[0].name, TICKET][1]
    lines, rows = report(CELLS, runs, costs, (1, 4), 0.95, "2 seeds", 3)
    assert len(rows) == 16
    assert {row["updates in all"] for row in rows if row["arm"] == TICKET} == {1600}
    assert "BC on Hopper medium, lottery ticket: 1 of 2 seeds failed" in lines[-1]
    assert any("codecarbon is not installed" in line for line in lines)
    figure(CELLS, runs, costs, (1, 4), tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 10_000
