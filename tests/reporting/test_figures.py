import math
import sys
from itertools import pairwise

import matplotlib
import pytest

from jaxprune.reporting import layer_fractions, learning_curves, return_against_sparsity, to_svg
from jaxprune.reporting.appearance import looks
from jaxprune.reporting.figures import sparsity_positions, spread_apart
from jaxprune.reporting.summary import Series
from tests.reporting.synthetic import make_layers, make_records


def lines_named(axes):
    return {line.get_label(): line for line in axes.get_lines() if not line.get_label().startswith("_")}


def texts(axes):
    return [text.get_text() for text in axes.texts if text.get_text()]


@pytest.mark.parametrize("seeds", [1, 3, 6])
def test_one_line_a_criterion_and_dense_as_reference(seeds):
    (axes,) = return_against_sparsity(make_records(seeds), behaviour=1400.0).axes
    lines = lines_named(axes)
    assert set(lines) == {"SNIP", "GraSP", "Random", "Dense", "Behaviour"}
    assert sorted(texts(axes)) == ["Behaviour", "Dense", "GraSP", "Random", "SNIP"]
    assert len(lines["SNIP"].get_xdata()) == 3
    assert set(lines["Behaviour"].get_ydata()) == {1400.0}
    assert len(set(lines["Dense"].get_ydata())) == 1
    assert [label.get_text() for label in axes.get_xticklabels()] == ["90 %\n7,142", "95 %\n3,571", "99 %\n714"]
    bands = [each for each in axes.collections if type(each).__name__ in ("PolyCollection", "FillBetweenPolyCollection")]
    points = [each for each in axes.collections if type(each).__name__ == "PathCollection"]
    assert len(bands) == (3 if seeds >= 5 else 0)
    assert len(points) == (9 if seeds == 3 else 0)
    assert all(len(each.get_offsets()) == 3 for each in points)


def test_the_line_goes_through_the_mean_of_the_last_three_evaluations(records):
    (axes,) = return_against_sparsity(records).axes
    rows = [row for row in records if row["criterion"] == "snip" and row["sparsity"] == 0.95 and row["step"] >= 3000]
    assert lines_named(axes)["SNIP"].get_ydata()[1] == pytest.approx(sum(row["return_mean"] for row in rows) / len(rows))


def test_series_differ_in_marker_and_line_not_only_in_colour():
    styles = looks([Series(f"criterion {place}") for place in range(14)])
    assert len({(look.color, look.marker) for look in styles.values()}) == 14
    assert len({look.marker for look in styles.values()}) == 14
    first = list(styles.values())[:7]
    assert len({str(look.line) for look in first}) == len({look.hatch for look in first}) == 7


def test_a_criterion_looks_the_same_whatever_stands_beside_it():
    snip = Series("snip")
    assert looks([snip])[snip] == looks([Series("random"), Series("other"), snip])[snip]


def test_positions_tell_90_95_and_99_apart():
    assert sparsity_positions([0.0, 0.9, 0.95, 0.99, 1.0]) == pytest.approx([0, 1, 1 + math.log10(2), 2, 2.5])


def test_labels_are_pushed_apart_in_order():
    heights = spread_apart([0.5, 0.51, 0.52, 1.0, 0.99], gap=0.1)
    ordered = sorted(heights)
    assert all(upper - lower > 0.0999 for lower, upper in pairwise(ordered))
    assert heights[0] < heights[1] < heights[2] < heights[4] < heights[3] <= 1
    assert spread_apart([0.2, 0.8], gap=0.1) == [0.2, 0.8]
    assert spread_apart([0.5] * 30, gap=0.1) == pytest.approx([place / 29 for place in range(30)])


@pytest.mark.parametrize("criteria", [("snip", "grasp"), ("snip", "a_criterion_of_a_long_name", *(f"criterion_{i}" for i in range(10)))])
def test_labels_stand_outside_the_plot_and_points_inside(criteria):
    figure = return_against_sparsity(make_records(criteria=criteria, sparsities=(0.95, 0.99)))
    figure.canvas.draw()
    (axes,) = figure.axes
    assert all(text.get_window_extent().x0 > axes.get_window_extent().x1 for text in axes.texts if text.get_text())
    assert all(text.get_window_extent().x1 < figure.bbox.x1 for text in axes.texts if text.get_text())
    left, right = axes.get_xlim()
    assert all(left < x < right for line in lines_named(axes).values() if line.get_marker() not in ("", "None") for x in line.get_xdata())


def test_missing_dense_single_sparsity_and_dense_alone():
    records = make_records(sparsities=(0.95,))
    (axes,) = return_against_sparsity([row for row in records if row["criterion"] != "dense"]).axes
    assert set(lines_named(axes)) == {"SNIP", "GraSP", "Random"}
    assert len(axes.get_xticks()) == 1
    (axes,) = return_against_sparsity([row for row in records if row["criterion"] == "dense"]).axes
    assert set(lines_named(axes)) == {"Dense"}
    assert len(learning_curves([row for row in records if row["criterion"] == "dense"]).axes) == 1


def test_scores_of_several_data_sets_are_pooled_and_returns_are_not():
    records = make_records(seeds=5, datasets=("x/hopper/medium-v0", "x/walker2d/medium-v0"))
    (axes,) = return_against_sparsity(records, value="score").axes
    assert set(lines_named(axes)) == {"SNIP", "GraSP", "Random", "Dense"}
    with pytest.raises(ValueError, match="one data set"):
        return_against_sparsity(records)
    with pytest.raises(ValueError, match="one algorithm"):
        return_against_sparsity(make_records(algos=("bc", "bcq")))


def test_no_score_is_an_error(records):
    with pytest.raises(ValueError, match="reference scores"):
        return_against_sparsity([row | dict(score=None) for row in records], value="score")


def test_failed_runs_are_not_drawn(records):
    for row in records:
        if row["criterion"] == "snip":
            row["return_mean"] = math.nan
    (axes,) = return_against_sparsity(records).axes
    assert "SNIP" not in lines_named(axes)
    with pytest.raises(ValueError, match="every run failed"):
        learning_curves([row | dict(status="failed") for row in records])


def test_learning_curves_by_sparsity_and_by_criterion(records):
    by_sparsity = learning_curves(records)
    assert [axes.get_title(loc="left") for axes in by_sparsity.axes] == ["90 % sparsity", "95 % sparsity", "99 % sparsity"]
    assert [text.get_text() for text in by_sparsity.legends[0].texts] == ["Dense", "SNIP", "GraSP", "Random"]
    assert all(set(lines_named(axes)) == {"Dense", "SNIP", "GraSP", "Random"} for axes in by_sparsity.axes)
    assert len(by_sparsity.axes[0].get_lines()) == 4 * (1 + 3)  # a mean and three seeds each
    by_criterion = learning_curves(records, by="criterion")
    assert [axes.get_title(loc="left") for axes in by_criterion.axes] == ["SNIP", "GraSP", "Random"]
    assert len(by_criterion.legends[0].texts) == 4


def test_learning_curves_with_no_shared_step_draw_the_seeds():
    records = make_records(sparsities=(0.9,))
    moved = [row | dict(step=row["step"] + row["seed"]) for row in records]
    (axes,) = learning_curves(moved).axes
    assert sum(len(line.get_xdata()) > 0 for line in axes.get_lines()) == 4 * 3


@pytest.mark.parametrize("criteria", [("snip",), ("snip", "grasp", "random", "magnitude"), tuple(f"criterion_{i}" for i in range(12))])
@pytest.mark.parametrize("draw", ["curves", "layers"])
def test_the_legend_fits_a_narrow_figure(criteria, draw):
    if draw == "curves":
        figure = learning_curves(make_records(criteria=criteria, sparsities=(0.95,)))
    else:
        figure = layer_fractions(make_layers(criteria=criteria, sparsities=(0.95,)))
    figure.canvas.draw()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
    assert len(legend.texts) == len(criteria) + (draw == "curves")


def test_losses_are_drawn_like_returns(records):
    unseen = [row | dict(return_mean=None) for row in records]
    figure = learning_curves(unseen, value="policy_loss")
    assert figure.get_supylabel() == "Policy loss"
    mean = lines_named(figure.axes[0])["SNIP"].get_ydata()
    assert mean[0] == pytest.approx(0.1 + math.exp(-1) + 0.01)
    with pytest.raises(ValueError, match="no row has a critic_loss"):
        learning_curves(unseen, value="critic_loss")
    with pytest.raises(ValueError, match="was not evaluated"):
        learning_curves(unseen)


@pytest.mark.parametrize("kept", [5, 9, 10, 699])
def test_layer_fractions_that_agree(kept):
    # math.fsum([5 / 704] * 5) / 5 is no longer 5 / 704, on one side for some numbers and on the other for others.
    rows = [dict(row, kept=kept, total=704) for row in make_layers(seeds=5)]
    bars = [bar.get_width() for bar in layer_fractions(rows).axes[0].patches]
    assert bars == pytest.approx([100 * kept / 704] * len(bars))


def test_layer_fractions():
    figure = layer_fractions(make_layers())
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["90 % sparsity", "95 % sparsity"]
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["actor Dense_0", "actor Dense_1", "actor Dense_2"]
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([4.0, 2.0, 60.0] * 2)  # per cent, the mean of 1, 2 and 3 times
    whole = layer_fractions(make_layers(criteria=("dense", "snip", "small_dense", "grasp")))
    assert [text.get_text() for text in whole.legends[0].texts] == ["SNIP", "GraSP"]
    with pytest.raises(ValueError, match="no column layer"):
        layer_fractions([{key: value for key, value in row.items() if key != "layer"} for row in make_layers()])
    with pytest.raises(ValueError, match="not between 0 and the total"):
        layer_fractions([row | dict(kept=1001) for row in make_layers()])
    with pytest.raises(ValueError, match="got none"):
        layer_fractions([])


def test_figures_leave_the_callers_settings_and_pyplot_alone(records):
    before = dict(matplotlib.rcParams)
    learning_curves(records)
    assert dict(matplotlib.rcParams) == before
    if "matplotlib.pyplot" in sys.modules:
        assert sys.modules["matplotlib.pyplot"].get_fignums() == []


def test_svg_is_light_deterministic_and_asks_for_nothing(records):
    first = to_svg(return_against_sparsity(records), prefix="p", title="A & B", description="<shape>")
    assert first == to_svg(return_against_sparsity(records), prefix="p", title="A & B", description="<shape>")
    assert len(first) < 60_000
    assert "A &amp; B" in first
    assert "&lt;shape&gt;" in first
    assert ">SNIP</text>" in first
    assert "metadata" not in first
    assert "var(--ink, " in first
    assert first.replace("http://www.w3.org/2000/svg", "").count("http") == 0
