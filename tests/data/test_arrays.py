"""Every defect that would poison a mask or a value is refused or reported, with key, place and remedy."""

from typing import Any

import numpy as np
import pytest

from jaxprune.data import DataError, from_arrays, from_episodes
from jaxprune.data.episodes import JOINED, TIMEOUT
from tests.data import logs

EPISODES = [(3, logs.TERMINAL), (4, logs.TIMEOUT), (2, logs.TERMINAL)]


def build(low: Any = -1.0, high: Any = 1.0, without=(), **changed):
    columns = {key: array for key, array in (logs.columns_of(EPISODES) | changed).items() if key not in without}
    options = {key: columns.pop(key) for key in list(columns) if key not in logs.columns_of(EPISODES)}
    return from_arrays(**columns, low=low, high=high, **options)


def columns():
    return logs.columns_of(EPISODES)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"actions": columns()["actions"][:8]}, r"actions: expected 9 rows as in observations, got 8"),
        ({"timeouts": np.zeros(10, bool)}, r"timeouts: expected 9 rows"),
        ({"observations": columns()["observations"][:, 0]}, r"observations: expected shape \[N, features\], got \[9\]"),
        ({"observations": np.zeros((9, 0))}, r"observations: expected at least one feature"),
        ({"next_observations": np.zeros((9, 3))}, r"next_observations: expected shape \[9, 2\] as observations, got \[9, 3\]"),
        ({"rewards": np.zeros((9, 2))}, r"rewards: expected shape \[N\] or \[N, 1\], got \[9, 2\]"),
        ({"rewards": np.asarray(["a"] * 9)}, r"rewards: expected numbers, got dtype"),
        ({"rewards": 1.0}, r"rewards: expected an array with a row per step, got a single value"),
        ({"observations": [[0.0], [0.0, 1.0]]}, r"observations: expected one rectangular array"),
        ({"actions": columns()["actions"].astype(complex)}, r"actions: expected numbers, got dtype complex128"),
        ({"terminals": np.asarray([0, 0, 2, 0, 0, 0, 0, 0, 1])}, r"terminals: expected 0 or 1 in every row, got 2 at row 2"),
        ({"timeouts": np.full(9, np.nan)}, r"timeouts: expected 0 or 1 in every row, got nan at row 0 \(9 such rows\)"),
        ({"terminals": None}, r"terminals: expected an array, got None"),
        ({key: array[:0] for key, array in columns().items()}, r"observations: expected at least one row, got none; the log is empty"),
    ],
)
def test_malformed_arrays_are_refused(changed, message):
    with pytest.raises(DataError, match=message):
        build(**changed)


def test_errors_are_value_errors():
    assert issubclass(DataError, ValueError)


@pytest.mark.parametrize(("low", "high"), [(None, None), (1.0, -1.0), (-np.inf, np.inf), ([-1, -1, -1], 1.0)])
def test_bounds_that_do_not_fit_are_refused(low, high):
    with pytest.raises(DataError, match="bounds"):
        build(low=low, high=high)


def test_inputs_are_not_changed():
    given = columns()
    given["actions"] = given["actions"] * 1000
    before = {key: array.copy() for key, array in given.items()}
    from_arrays(**given, low=-1, high=1, clip_actions=True)
    for key, array in given.items():
        np.testing.assert_array_equal(array, before[key])


def test_actions_at_and_outside_bounds_are_counted_and_clipped_on_request():
    actions = np.asarray([[1, 0], [-1, 0], [0.5, 3], [0, 0], [0, 0], [0, -1], [0, 0], [0, 0], [2, 0.25]], float)
    dataset = build(actions=actions)
    assert dataset.report.actions_at_bounds.tolist() == [2, 1]
    assert dataset.report.actions_outside.tolist() == [1, 1]
    assert dataset.transitions.actions[2, 1] == 3.0
    assert any("2 of 18 values lie outside" in warning for warning in dataset.report.warnings)
    clipped = build(actions=actions, clip_actions=True)
    assert clipped.report.actions_outside.tolist() == [1, 1]
    assert clipped.transitions.actions[2].tolist() == [0.5, 1.0]
    assert clipped.transitions.actions[8].tolist() == [1.0, 0.25]


def test_bounds_of_each_action_feature():
    dataset = build(low=[-1, -2], high=[3, 4])
    assert (dataset.spec.low, dataset.spec.high) == ((-1.0, -2.0), (3.0, 4.0))
    assert (dataset.spec.observation_size, dataset.spec.action_size) == (2, 2)


def test_a_bound_that_float32_rounds_is_no_outsider():
    dataset = build(actions=np.full((9, 2), 0.4), low=-0.4, high=0.4)
    assert dataset.report.actions_outside.tolist() == [0, 0]
    assert dataset.report.actions_at_bounds.tolist() == [9, 9]


def test_constant_columns_have_unit_deviation_and_a_warning():
    observations = np.stack([np.arange(9.0), np.full(9, 7.0)], 1)
    dataset = build(observations=observations, without=("next_observations",))
    # rows 0-5 and 7-8: the timeout's last row, 6, is dropped
    kept = [0, 1, 2, 3, 4, 5, 7, 8]
    np.testing.assert_allclose(dataset.statistics.mean, [float(np.mean(kept)), 7.0], rtol=1e-6)
    np.testing.assert_allclose(dataset.statistics.std, [float(np.std(kept)), 1.0], rtol=1e-6)
    assert dataset.report.constant_columns == {"observations": (1,)}
    assert any(warning.startswith("observations: constant columns 1 (always 7)") for warning in dataset.report.warnings)


def test_columns_that_hardly_vary_are_divided_by_a_thousandth_at_least():
    steps = np.arange(9.0)
    dataset = build(observations=np.stack([1 + 1e-5 * steps, 2e-3 * steps], 1), without=("next_observations",))
    # As above, row 6 is dropped.
    np.testing.assert_allclose(dataset.statistics.std, [1e-3, 2e-3 * np.std([0, 1, 2, 3, 4, 5, 7, 8])], rtol=1e-5)
    (warning,) = [line for line in dataset.report.warnings if "divided" in line]
    assert warning.startswith("observations: columns 0 (3e-05) have standard deviations below 0.001, and are divided by that")


def test_rounding_noise_counts_as_constant():
    noisy = np.float32(1000) + np.arange(9, dtype=np.float32) * np.float32(1e-4)
    dataset = build(observations=np.stack([np.arange(9.0), noisy], 1), without=("next_observations",))
    assert dataset.report.constant_columns == {"observations": (1,)}


def test_constant_rewards_are_warned_of():
    """Unless they are earned for as long as an episode lasts."""
    never = {"terminals": np.zeros(9), "timeouts": np.arange(9) == 8}
    for changed, warned in (({"rewards": np.ones(9), **never}, True), ({"rewards": np.zeros(9)}, True), ({"rewards": np.ones(9)}, False)):
        warnings = build(**changed).report.warnings
        assert any(warning.startswith("rewards: constant") for warning in warnings) == warned


def test_implausible_magnitudes_are_warned_of():
    observations = columns()["observations"]
    observations[4, 1] = 3e7
    assert any("observations: values up to 3e+07 in column 1" in warning for warning in build(observations=observations).report.warnings)


def test_a_corrupted_row_is_warned_of():
    rng = np.random.default_rng(0)
    observations = rng.normal(size=(40_000, 2))
    observations[123, 1] = 1e5
    dataset = from_arrays(
        observations, rng.uniform(-1, 1, (40_000, 1)), rng.normal(size=40_000), np.arange(40_000) % 9 == 0, np.zeros(40_000), low=-1, high=1
    )
    assert any("observations: column 1 has a value 200 standard deviations" in warning for warning in dataset.report.warnings)


def test_a_clean_log_has_no_warnings():
    assert build().report.warnings == ()


def test_timeout_is_not_a_terminal_and_terminal_wins():
    both = logs.columns_of([(2, logs.BOTH), (2, logs.TIMEOUT)])
    dataset = from_arrays(**both, low=-1, high=1)
    assert dataset.transitions.discounts.tolist() == [1, 0, 1, 1]
    assert (dataset.report.terminals, dataset.report.timeouts) == (1, 1)


def test_next_observations_that_run_into_the_next_episode_are_dropped():
    given = columns()
    given["next_observations"] = np.roll(given["observations"], -1, axis=0)
    dataset = from_arrays(**given, low=-1, high=1)
    assert dataset.report.dropped == {JOINED: 1}
    assert [6.0] not in dataset.transitions.rewards.tolist()
    assert len(dataset.transitions) == 8


def test_next_observation_unknown_as_nan():
    given = columns()
    given["next_observations"][[2, 6]] = np.nan
    dataset = from_arrays(**given, low=-1, high=1)
    assert dataset.report.dropped == {TIMEOUT: 1}  # row 6; row 2 is terminal, where nothing is looked up
    assert np.isfinite(dataset.transitions.next_observations).all()
    assert any("1 terminal rows hold NaN" in warning for warning in dataset.report.warnings)
    given["next_observations"][1, 1] = np.nan
    with pytest.raises(DataError, match=r"next_observations: expected finite .* at row 1, column 1"):
        from_arrays(**given, low=-1, high=1)


def test_a_break_without_a_flag_is_warned_of():
    dataset = build(timeouts=np.zeros(9, bool))
    assert any("1 rows inside an episode do not lead to the row below, first at row 6" in warning for warning in dataset.report.warnings)


def test_shuffled_rows_are_warned_of():
    given = columns()
    order = np.asarray([8, 3, 0, 5, 1, 7, 2, 6, 4])
    dataset = from_arrays(**{key: array[order] for key, array in given.items() if key != "timeouts"}, low=-1, high=1)
    assert len(dataset.transitions) == 9
    assert any("seem to be shuffled" in warning for warning in dataset.report.warnings)


def test_discrete_actions():
    dataset = build(actions=np.asarray([0, 1, 2, 0, 1, 2, 0, 1, 2.0]), low=None, high=None, discrete=3)
    assert dataset.spec.discrete
    assert (dataset.spec.action_size, dataset.spec.low) == (3, ())
    assert dataset.transitions.actions.dtype == np.int32
    with pytest.raises(DataError, match=r"actions: expected integers from 0 to 1, got 2 at row 2"):
        build(actions=np.asarray([0, 1, 2, 0, 1, 2, 0, 1, 2]), low=None, high=None, discrete=2)
    for wide in (np.asarray([0, 2**32] + [0] * 7), np.asarray([0, -(2.0**40)] + [0] * 7)):
        with pytest.raises(DataError, match=r"actions: expected integers from 0 to 2, got -?[\d.]+ at row 1"):
            build(actions=wide, low=None, high=None, discrete=3)
    with pytest.raises(DataError, match=r"actions: expected integers, got 0.5 at row 1"):
        build(actions=np.asarray([0, 0.5, 2, 0, 1, 2, 0, 1, 2]), low=None, high=None, discrete=3)


def test_reference_of_a_known_environment_comes_from_the_table():
    assert build(env_id="Hopper-v5", reference=(0.0, 1.0)).reference == (-20.272305, 3234.3)
    assert build(env_id="Mine-v0", reference=(0.0, 1.0)).reference == (0.0, 1.0)
    assert build().reference is None


@pytest.mark.parametrize(
    ("episode", "message"),
    [
        (
            {"observations": np.zeros((5, 2))},
            r"episode 1, observations: expected 4 \(one before each of 3 steps and one after the last\), got 5",
        ),
        ({"actions": np.zeros((2, 1))}, r"episode 1, actions: expected 3 as rewards, got 2"),
        ({"rewards": np.zeros(0)}, r"episode 1, rewards: expected at least one step"),
        ({"observations": np.zeros((4, 3))}, r"episode 1, observations: expected 2 features as in episode 0, got 3"),
        ({"rewards": np.asarray([0, np.nan, 0])}, r"rewards: expected finite .* episode 1, step 1"),
        ({"terminals": [True, False]}, r"episode 1, terminals: expected 3 as rewards, or one value, got 2"),
    ],
)
def test_defects_of_episodes_name_the_episode(episode, message):
    good = {"observations": np.zeros((4, 2)), "actions": np.zeros((3, 1)), "rewards": np.zeros(3), "terminals": True}
    with pytest.raises(DataError, match=message):
        from_episodes([good, good | episode], low=-1, high=1)


def test_missing_key_of_an_episode():
    with pytest.raises(DataError, match="episode 0: expected the key 'actions'"):
        from_episodes([{"observations": np.zeros((2, 1)), "rewards": np.zeros(1)}], low=-1, high=1)


def test_report_reads_well():
    text = str(build(without=("next_observations",)).report)
    assert "rows      8 kept of 9" in text
    assert f"dropped 1: {TIMEOUT}" in text
    assert "episodes  3 (2 terminal, 1 timeout)" in text
