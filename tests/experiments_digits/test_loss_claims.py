"""The rules on losses, by numbers worked out by hand."""

import math

import numpy as np
import pytest
from loss_claims import best_by_the_others, correlation_sentence, log_ratios, rank_correlation, ratio_sentence


def around(ratio, seeds=5, spread=0.02):
    """Logarithms of ratios whose mean is that of `ratio`."""
    return [math.log(ratio) + spread * (i - (seeds - 1) / 2) for i in range(seeds)]


def test_a_seed_takes_the_setting_that_was_best_for_the_others():
    # Others of seed 0: means 5.5 and 5.5, a tie; of seed 1 the same; of seed 2: 1 and 10, though its own best is the second.
    assert best_by_the_others(np.array([[1.0, 10.0], [1.0, 10.0], [10.0, 1.0]])).tolist() == [0, 0, 0]
    assert best_by_the_others(np.array([[1.0, 2.0], [5.0, 1.0], [6.0, 1.0]])).tolist() == [1, 1, 1]
    assert best_by_the_others(np.array([[3.0, 2.0]])).tolist() == [1]
    assert best_by_the_others(np.array([[np.nan, 9.0], [1.0, 9.0], [1.0, 9.0]])).tolist() == [0, 1, 1]


def test_ratios_of_losses_leave_out_what_has_no_logarithm():
    assert log_ratios([2.0, 1.0, np.nan, 0.0, 3.0], [1.0, 4.0, 1.0, 1.0, np.inf]) == [math.log(2), math.log(0.25)]


def test_rank_correlation_by_hand():
    # Ranks 1 2 3 4 and 1 3 2 4: 1 − 6·(1 + 1)/(4·15).
    assert rank_correlation([1, 2, 3, 4], [10, 30, 20, 40]) == pytest.approx(0.8)
    assert rank_correlation([1, 2, 3, math.nan, 4], [4, 3, 2, 0, -1]) == pytest.approx(-1)
    assert math.isnan(rank_correlation([1, 1, 1], [1, 2, 3]))
    assert math.isnan(rank_correlation([1, 2], [1, 2]))


@pytest.mark.parametrize(
    ("ratio", "bounds", "outcome"),
    [
        (0.5, {"below": 1}, "support it"),
        (2.0, {"below": 1}, "contradict it"),
        (1.0, {"below": 1}, "cannot tell"),
        (1.02, {"below": 1.1}, "support it"),
        (1.02, {"below": 1.1, "above": 1 / 1.1}, "support it"),
        (0.7, {"below": 1.1, "above": 1 / 1.1}, "contradict it"),
        (1.1, {"below": 1.1, "above": 1 / 1.1}, "cannot tell"),
    ],
)
def test_ratio_sentences(ratio, bounds, outcome):
    said = ratio_sentence("Rounds help", {"digits": around(ratio), "bc": around(ratio)}, **bounds)
    assert said.startswith(f"Rounds help: our runs **{outcome}** ({ratio:.3g} times [")
    assert said.endswith("; 2 tasks × 5 seeds).")


def test_tasks_that_disagree_decide_nothing():
    said = ratio_sentence("It helps", {"digits": around(0.5), "bc": around(1.2)}, below=1)
    assert said.startswith("It helps: our runs **cannot tell** (0.775 times [")  # √0.6
    assert "; digits 0.5 times [" in said
    assert "; bc 1.2 times [" in said
    # One that cannot tell by itself stands in nobody's way.
    assert "**support it**" in ratio_sentence("It helps", {"digits": around(0.5), "bc": around(1.0)}, below=1)


def test_four_seeds_of_one_task_decide_nothing():
    assert "**cannot tell**" in ratio_sentence("It helps", {"digits": around(0.1, seeds=4)}, below=1)
    assert "**cannot tell** (n/a; no pair of runs)" in ratio_sentence("It helps", {"digits": []}, below=1)


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ([0.1, 0.2, 0.3, 0.2, 0.1], "support it"),
        ([0.9, 0.8, 0.9, 0.95, 0.9], "contradict it"),
        ([-0.9, -0.8, -0.9, -0.95, -0.9], "contradict it"),
        ([0.3, 0.7, 0.4, 0.6, 0.5], "cannot tell"),
        ([0.1, 0.2, 0.3, 0.2, math.nan], "cannot tell"),
    ],
)
def test_weak_is_between_minus_a_half_and_a_half(values, outcome):
    assert f"our runs **{outcome}** (ρ = " in correlation_sentence("It is weak", {"digits": values})
