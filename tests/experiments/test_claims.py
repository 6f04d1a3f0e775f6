"""Verdicts on numbers made by hand."""

import pytest
from claims import (
    CANNOT_TELL,
    CONTRADICT,
    SUPPORT,
    difference_text,
    differences,
    judge,
    judge_majority,
    judge_numbers,
    opposite,
    over,
    sentence,
    share_text,
    spread_of,
)


def returns(**tasks):
    return {task: dict(enumerate(values)) for task, values in tasks.items()}


def test_differences_are_paired_by_seed_and_in_fractions_of_the_mean_dense_return():
    dense = returns(hopper=[100, 300], walker=[50])
    arm = {"hopper": {1: 290.0, 0: 120.0, 7: 5.0}, "walker": {0: 45.0}}
    assert differences(arm, dense, dense) == {"hopper": [0.1, -0.05], "walker": [-0.1]}
    other = returns(hopper=[110, 310], walker=[40])
    assert differences(arm, other, dense) == {"hopper": [0.05, -0.1], "walker": [0.1]}


def test_a_task_that_gives_no_fraction_is_left_out():
    dense = {"cheetah": {0: -10.0, 1: 10.0}, "hopper": {0: 100.0}, "walker": {3: 100.0}}
    arm = {"cheetah": {0: 5.0}, "hopper": {0: 90.0}, "walker": {0: 80.0}, "ant": {0: 1.0}}
    assert differences(arm, dense, dense) == {"hopper": [-0.1]}


def test_five_seeds_of_one_task_decide_and_four_do_not():
    kept = [-0.01, 0.0, 0.01, -0.02, 0.02]
    assert judge(spread_of({"hopper": kept}), low=-0.05) == SUPPORT
    assert judge(spread_of({"hopper": kept[:4]}), low=-0.05) == CANNOT_TELL
    lost = [-0.30, -0.31, -0.29, -0.32, -0.28]
    assert judge(spread_of({"hopper": lost}), low=-0.05) == CONTRADICT
    assert judge(spread_of({"hopper": lost[:4]}), low=-0.05) == CANNOT_TELL


def test_few_seeds_decide_only_pooled_over_tasks():
    three = {"hopper": [0.0, 0.01, -0.01], "walker": [0.02, 0.0, 0.01]}
    assert judge(spread_of(three), low=-0.05) == SUPPORT
    assert all(judge(spread_of({task: values}), low=-0.05) == CANNOT_TELL for task, values in three.items())
    # One task is kept, the other lost: with three seeds their difference is part of the noise.
    torn = {"hopper": [0.0, 0.01, -0.01], "walker": [-0.2, -0.21, -0.19]}
    found = spread_of(torn)
    assert judge(found, low=-0.05) == CANNOT_TELL
    assert found.mean == pytest.approx(-0.1)
    assert found.high - found.low > 0.1
    # With five of each, seeds are resampled within the tasks, and their mean is known well.
    five = {"hopper": [0.0, 0.01, -0.01, 0.0, 0.0], "walker": [-0.2, -0.21, -0.19, -0.2, -0.2]}
    narrow = spread_of(five)
    assert narrow.high - narrow.low < 0.02
    assert judge(narrow, low=-0.05) == CONTRADICT


def test_an_interval_across_the_bound_cannot_tell():
    assert judge(spread_of({"hopper": [-0.2, 0.1, -0.15, 0.12, -0.1]}), low=-0.05) == CANNOT_TELL


def test_a_claim_with_two_bounds_and_its_contrary():
    same, apart = spread_of({"a": [0.01, -0.01, 0.0, 0.02, -0.02]}), spread_of({"a": [0.2, 0.21, 0.19, 0.2, 0.2]})
    assert [judge(found, low=-0.05, high=0.05) for found in (same, apart)] == [SUPPORT, CONTRADICT]
    assert [opposite(judge(found, low=-0.05, high=0.05)) for found in (same, apart)] == [CONTRADICT, SUPPORT]
    assert opposite(CANNOT_TELL) == CANNOT_TELL
    assert [judge(found, high=0.05) for found in (same, apart)] == [SUPPORT, CONTRADICT]


def test_no_runs_decide_nothing():
    assert spread_of({}) is None
    assert spread_of({"hopper": []}) is None
    assert judge(None, low=-0.05) == CANNOT_TELL


def test_numbers_without_noise():
    assert judge_numbers([3.9, 4.1], low=3.8, high=4.2) == SUPPORT
    assert judge_numbers([3.0, 5.0], low=3.8, high=4.2) == CONTRADICT
    assert judge_numbers([3.0, 4.0], low=3.8, high=4.2) == CANNOT_TELL
    assert judge_numbers([], low=3.8, high=4.2) == CANNOT_TELL


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ([SUPPORT] * 4 + [CONTRADICT] * 2, SUPPORT),
        ([SUPPORT] * 3 + [CANNOT_TELL] * 3, CANNOT_TELL),
        ([SUPPORT] * 3 + [CONTRADICT] * 3, CONTRADICT),
        ([CONTRADICT] * 2 + [CANNOT_TELL] * 4, CANNOT_TELL),
        ([], CANNOT_TELL),
    ],
)
def test_most_cases(outcomes, verdict):
    assert judge_majority(outcomes) == verdict


def test_what_is_told():
    five, one = {"a": [-0.012] * 5, "b": [-0.012] * 5}, {"a": [0.5]}
    assert difference_text(spread_of(five)) == "−1.2 % of dense [−1.2, −1.2]"
    assert difference_text(spread_of(one), "points") == "+50.0 points"
    assert difference_text(None) == "n/a"
    assert share_text(spread_of({"a": [-0.2, 0.0]})) == "90 % [80, 100]"
    assert over(five) == "2 tasks × 5 seeds"
    assert over({"a": [0.0] * 3, "b": [0.0] * 4}, "data set") == "2 data sets × 3 to 4 seeds"
    assert over(one) == "1 task × 1 seed, too few to decide"
    assert over({}) == "no pair of runs"


def test_a_sentence():
    pairs = {"hopper": [-0.01] * 5}
    assert sentence("It is kept", pairs, low=-0.05) == (
        "It is kept: our runs **support it** (−1.0 % of dense [−1.0, −1.0]; 1 task × 5 seeds)."
    )
    assert "**contradict it**" in sentence("It differs", pairs, low=-0.05, high=0.05, contrary=True)
    assert sentence("It is kept", {"hopper": [0.0]}, low=-0.05).endswith(
        "**cannot tell** (+0.0 % of dense; 1 task × 1 seed, too few to decide)."
    )
