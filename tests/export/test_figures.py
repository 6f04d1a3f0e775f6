"""Bytes and returns of exported policies, drawn."""

import itertools

import pytest

from jaxprune.export.figures import against_sparsity, return_against_bytes


def test_labels_of_crowded_points_stay_apart():
    rows = [
        {"format": name, "sparsity": sparsity, "bytes": 1000 * (1 - sparsity) + shift, "return": 100 - 20 * (sparsity > 0.9) + shift / 100}
        for shift, name in enumerate(("float32", "int8", "units"))
        for sparsity in (0.5, 0.8, 0.9, 0.95)
    ]
    figure = return_against_bytes(rows)
    figure.canvas.draw()
    (axes,) = figure.axes
    boxes = [text.get_window_extent() for text in axes.texts]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    told = {(text.xy[0], text.get_text()) for text in axes.texts}
    # The front goes first: the smallest at 95 % of the two heights, and of 90 % the smallest and two that return a trifle more.
    assert {(50.0, "95 %"), (100.0, "90 %"), (502.0, "50 %")} <= {(round(x, 6), text) for x, text in told}
    front = axes.lines[-1]
    assert front.get_xdata()[0] == pytest.approx(50)
    assert axes.get_ylabel() == "Return"


def test_a_range_is_told():
    row = {"format": "float32", "sparsity": 0.9, "bytes": 100, "return": 5.0}
    assert return_against_bytes([row | {"low": 4.0, "high": 6.0}]).axes[0].get_ylabel() == "Return, with its range over seeds"


@pytest.mark.parametrize("draw", [return_against_bytes, lambda rows: against_sparsity(rows, label="Bytes")])
def test_nothing_to_draw(draw):
    with pytest.raises(ValueError, match="expected rows to draw, got none"):
        draw([])
