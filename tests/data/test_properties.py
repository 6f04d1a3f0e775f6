"""Whatever mixture of episodes, flags and missing keys a log has, its rows come out whole, or with a reason."""

import collections
import pathlib
import tempfile

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxprune.data import DataError, from_arrays, from_episodes, load
from jaxprune.data.episodes import OPEN as OPEN_REASON
from jaxprune.data.episodes import TIMEOUT as TIMEOUT_REASON
from tests.data.logs import BOTH, OPEN, TERMINAL, TIMEOUT, Step, columns_of, steps_of

closed = st.tuples(st.integers(1, 5), st.sampled_from([TERMINAL, TIMEOUT, BOTH]))
logs = st.tuples(st.lists(closed, max_size=6), st.tuples(st.integers(1, 5), st.sampled_from([TERMINAL, TIMEOUT, BOTH, OPEN]))).map(
    lambda parts: [*parts[0], parts[1]]
)


def reason(step: Step, with_next: bool) -> str | None:
    """Why a row must be left out, said a second time: nothing but a missing next observation is a reason."""
    if with_next or not step.last or step.ending in (TERMINAL, BOTH):
        return None
    return TIMEOUT_REASON if step.ending == TIMEOUT else OPEN_REASON


def check(dataset, episodes, with_next, next_at_terminals):
    steps = steps_of(episodes)
    kept = [step for step in steps if reason(step, with_next) is None]
    rows = dataset.transitions
    np.testing.assert_array_equal(rows.observations, [[s.episode, s.step] for s in kept])
    np.testing.assert_array_equal(rows.actions, np.asarray([[s.episode / 100, s.step / 100] for s in kept], np.float32))
    np.testing.assert_array_equal(rows.rewards, np.asarray([s.episode + s.step / 16 for s in kept], np.float32))
    terminal = [s.last and s.ending in (TERMINAL, BOTH) for s in kept]
    np.testing.assert_array_equal(rows.discounts, [0.0 if end else 1.0 for end in terminal])
    for row, step, end in zip(rows.next_observations, kept, terminal, strict=True):
        own = end and not next_at_terminals  # unknown, and of no effect
        assert row.tolist() == [step.episode, step.step + (0 if own else 1)]
    assert {array.dtype for array in (rows.observations, rows.actions, rows.rewards, rows.next_observations, rows.discounts)} == {
        np.dtype("float32")
    }

    report = dataset.report
    dropped = [step for step in steps if reason(step, with_next)]
    assert report.dropped == dict(collections.Counter(reason(step, with_next) for step in dropped))
    assert report.rows_read == len(steps)
    assert report.rows_kept + sum(report.dropped.values()) == len(steps)
    total = sum(s.episode + s.step / 16 for s in steps)
    assert rows.rewards.sum(dtype=np.float64) + sum(report.dropped_rewards.values()) == total
    lengths = [length for length, _ in episodes]
    assert report.episode_lengths.tolist() == lengths
    assert report.episode_returns.tolist() == [e * n + n * (n - 1) / 32 for e, n in enumerate(lengths)]
    assert report.episode_open.tolist() == [ending == OPEN for _, ending in episodes]
    assert report.terminals == sum(ending in (TERMINAL, BOTH) for _, ending in episodes)
    assert report.timeouts == sum(ending == TIMEOUT for _, ending in episodes)


@settings(deadline=None, max_examples=150)
@given(episodes=logs, with_next=st.booleans(), with_timeouts=st.booleans())
def test_arrays_keep_whole_transitions(episodes, with_next, with_timeouts):
    columns = columns_of(episodes)
    if not with_next:
        del columns["next_observations"]
    if not with_timeouts:
        del columns["timeouts"]
    everything_dropped = all(reason(step, with_next) for step in steps_of(episodes))
    if everything_dropped or not (with_next or with_timeouts):
        with pytest.raises(DataError, match="timeouts: expected" if not (with_next or with_timeouts) else "no.* whole transition|whole"):
            from_arrays(**columns, low=-1, high=1)
        return
    dataset = from_arrays(**columns, low=-1, high=1)
    if not with_timeouts and episodes[-1][1] == TIMEOUT:
        # The last episode's time limit leaves no break behind, so the episode counts as open.
        episodes = [*episodes[:-1], (episodes[-1][0], OPEN)]
    check(dataset, episodes, with_next, next_at_terminals=with_next)


@settings(deadline=None, max_examples=60)
@given(
    episodes=logs,
    with_next=st.booleans(),
    column=st.booleans(),
    dtype=st.sampled_from(["float32", "float64"]),
    flag_dtype=st.sampled_from(["bool", "uint8", "float32"]),
)
def test_files_keep_whole_transitions(episodes, with_next, column, dtype, flag_dtype):
    columns = columns_of(episodes)
    if not with_next:
        del columns["next_observations"]
    if all(reason(step, with_next) for step in steps_of(episodes)):
        return
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "log.hdf5"
        with h5py.File(path, "w") as file:
            for key, array in columns.items():
                array = array.astype(flag_dtype if array.dtype == bool else dtype)
                file[key] = array[:, None] if column and array.ndim == 1 else array
            file["infos/qpos"] = np.zeros((3, 2))
            file["metadata/algorithm"] = "nothing"
        dataset = load(path)
    check(dataset, episodes, with_next, next_at_terminals=with_next)


@settings(deadline=None, max_examples=60)
@given(episodes=logs, with_last=st.booleans(), scalar=st.booleans())
def test_episodes_keep_whole_transitions(episodes, with_last, scalar):
    parts, columns, start = [], columns_of(episodes), 0
    for length, ending in episodes:
        rows = slice(start, start + length)
        observations = columns["observations"][rows]
        if with_last:
            observations = np.concatenate([observations, columns["next_observations"][rows][-1:]])
        flags = {"terminals": ending in (TERMINAL, BOTH), "timeouts": ending in (TIMEOUT, BOTH)}
        if not scalar:
            flags = {key: columns[key][rows] for key in flags}
        parts.append({"observations": observations, "actions": columns["actions"][rows], "rewards": columns["rewards"][rows], **flags})
        start += length
    if all(reason(step, with_last) for step in steps_of(episodes)):
        return
    check(from_episodes(parts, low=-1, high=1), episodes, with_last, next_at_terminals=with_last)


@settings(deadline=None, max_examples=60)
@given(
    episodes=logs,
    key=st.sampled_from(["observations", "actions", "rewards"]),
    value=st.sampled_from([np.nan, np.inf, -np.inf, 1e39]),
    data=st.data(),
)
def test_a_poisoned_value_is_named(episodes, key, value, data):
    columns = columns_of(episodes)
    row = data.draw(st.integers(0, len(columns["rewards"]) - 1))
    column = data.draw(st.integers(0, 1)) if columns[key].ndim == 2 else 0
    columns[key].reshape(len(columns["rewards"]), -1)[row, column] = value
    with pytest.raises(DataError, match=rf"^{key}: .* at row {row}, column {column} \(1 such rows\)"):
        from_arrays(**columns, low=-1, high=1)


@settings(deadline=None, max_examples=40)
@given(lengths=st.lists(st.integers(1, 4), min_size=1, max_size=5), limit=st.integers(2, 4))
def test_time_limits_by_count(lengths, limit):
    """Without timeouts and next_observations, a stated limit cuts every episode that reaches it; shorter ones are terminal."""
    episodes = [(min(length, limit), TIMEOUT if length >= limit else TERMINAL) for length in lengths]
    columns = columns_of(episodes)
    del columns["timeouts"], columns["next_observations"]
    check(from_arrays(**columns, low=-1, high=1, max_episode_steps=limit), episodes, with_next=False, next_at_terminals=False)
