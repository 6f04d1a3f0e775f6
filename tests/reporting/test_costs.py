import math

import pytest

from jaxprune.reporting.costs import costs_of, pareto_front
from jaxprune.reporting.figures import round_ticks
from jaxprune.reporting.pareto import costly_axes, return_against_cost
from jaxprune.reporting.summary import cells_of, runs_of
from tests.reporting.synthetic import make_records, make_sizes


def row(run, step, **columns):
    base = dict(run_id=run, algo="bc", dataset="d", criterion="snip", sparsity=0.9, seed=ord(run), step=step, return_mean=1.0)
    return base | columns


def test_costs_by_hand():
    rows = [
        row("a", 100, wall_s=3.0, stack=4, dense_s=1.0, start_s=2.0, eval_s=4.0, executed=100),
        row("a", 200, wall_s=8.0, stack=4, dense_s=1.0, start_s=2.0, eval_s=8.0, executed=100),
        row("b", 200, wall_s=10.0, stack=2, dense_s="", start_s=4.0, eval_s=8.0, executed=300),
        row("c", 200, wall_s=99.0, status="failed"),
    ]
    sizes = [dict(run_id="a", dense_bytes=4000, stored_bytes=500, int8_bytes=200)]
    (cell,) = cells_of(runs_of(rows))
    (cost,) = costs_of([cell], rows[::-1], sizes).values()
    assert cost.seconds == (8 / 4 + 1 + 10 / 2) / 2
    assert cost.starting == 3.0
    assert cost.total == cost.seconds + 3.0
    assert cost.evaluating == (8 / 4 + 8 / 2) / 2
    assert cost.together == 4
    assert cost.executed == 200
    assert (cost.dense, cost.stored, cost.int8) == (4000, 500, 200)


def test_what_the_records_do_not_tell_is_none():
    rows = [row("a", 100)]
    (cost,) = costs_of(cells_of(runs_of(rows)), rows).values()
    assert {*vars(cost).values(), cost.total} == {None}


def test_pareto_front_by_hand():
    assert pareto_front([(10, 5.0), (20, 4.0), (5, 1.0), (30, 9.0), (10, 3.0)]) == [(5, 1.0), (10, 5.0), (30, 9.0)]
    assert pareto_front([]) == []


def test_a_panel_for_every_cost_that_differs(records):
    cells = cells_of(runs_of(records))
    costs = costs_of(cells, records, make_sizes(records))
    figure = return_against_cost(cells, costs)
    assert [axes.get_xlabel() for axes in figure.axes] == [
        "Exported policy, bytes",
        "Starting and training, seconds",
        "Weights multiplied in training",
    ]
    assert [text.get_text() for text in figure.legends[0].texts] == ["Dense", "SNIP", "GraSP", "Random", "Pareto front"]
    same = [{**each, "wall_s": 1.0, "start_s": 1.0, "executed": 5} for each in records]
    assert [axis.label for axis in costly_axes(cells, costs_of(cells, same, make_sizes(records)))] == ["Exported policy, bytes"]
    with pytest.raises(ValueError, match="nothing to draw"):
        return_against_cost(cells, costs_of(cells, same))


def test_the_line_is_the_front_of_the_means_and_names_do_not_collide(records):
    cells = cells_of(runs_of(records))
    costs = costs_of(cells, records, make_sizes(records))
    figure = return_against_cost(cells, costs)
    figure.canvas.draw()
    (axes, *_) = figure.axes
    points = [(costs[cell.series, cell.sparsity].stored, cell.returns.mean) for cell in cells]
    lines = [line for line in axes.get_lines() if line.get_drawstyle() == "steps-post"]
    assert list(zip(*lines[0].get_data(), strict=True)) == pareto_front(points)
    for panel in figure.axes:
        places = [place for line in panel.get_lines() for place in panel.transData.transform(line.get_xydata())]
        boxes = [text.get_window_extent() for text in panel.texts]
        assert boxes
        assert not any(a.overlaps(b) for place, a in enumerate(boxes) for b in boxes[:place])
        assert not any(box.contains(*place) for box in boxes for place in places)
        room = panel.get_window_extent()
        assert all(room.x0 <= box.x0 and box.x1 <= room.x1 + 1 for box in boxes)


@pytest.mark.parametrize(("low", "high"), [(3, 11), (20, 900), (1.5e3, 4e6), (1e-3, 1e5), (0.9, 31)])
def test_round_ticks(low, high):
    ticks = round_ticks(low, high)
    assert 1 <= len(ticks) <= 4
    assert all(low <= tick <= high for tick in ticks)
    assert all(round(tick / 10 ** math.floor(math.log10(tick) + 1e-9), 9) in (1, 2, 3, 5) for tick in ticks)


def test_one_setting_has_no_front():
    records = make_records(criteria=(), seeds=1)
    cells = cells_of(runs_of(records))
    assert costly_axes(cells, costs_of(cells, records, make_sizes(records))) == []
