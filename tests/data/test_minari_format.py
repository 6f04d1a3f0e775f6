"""Minari's own sets, in both storage formats, tidy and untidy."""

import dataclasses
import json
import warnings
from typing import Any

import gymnasium
import h5py
import minari
import numpy as np
import pytest
from gymnasium import spaces
from minari.data_collector.episode_buffer import EpisodeBuffer

from jaxprune.data import DataError, cache, load, minari_format
from jaxprune.data.minari_format import load_minari

FORMATS = ["hdf5", "arrow"]
BOX, ACTIONS = spaces.Box(-np.inf, np.inf, (3,), np.float64), spaces.Box(-1, 1, (2,), np.float32)


@pytest.fixture(params=FORMATS)
def data_format(request):
    if request.param == "arrow":
        pytest.importorskip("pyarrow")
    return request.param


def episode(number, steps, *, terminated=False, truncated=False, observations: Any = None, actions: Any = None, rewards: Any = None) -> Any:
    """Episode `number` observes (number, t, −t), acts (t, number) / 100 and earns t + 1."""
    t: Any = np.arange(steps + 1.0)
    last: Any = np.arange(steps) == steps - 1
    if observations is None:
        observations = np.stack([np.full(steps + 1, float(number)), t, -t], 1)
    if actions is None:
        actions = np.stack([t[:-1] / 100, np.full(steps, number / 100)], 1).astype(np.float32)
    return EpisodeBuffer(
        observations=observations,
        actions=actions,
        rewards=t[1:] if rewards is None else rewards,
        terminations=last & terminated,
        truncations=last & truncated,
        infos={},
    )


def create(episodes, *, observation_space: Any = BOX, action_space: Any = ACTIONS, data_format="hdf5", **options) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Minari asks for an author and more
        return minari.create_dataset_from_buffers(
            "test/set-v0", episodes, observation_space=observation_space, action_space=action_space, data_format=data_format, **options
        )


def edit_metadata(dataset, **changed):
    path = dataset.storage.data_path / "metadata.json"
    metadata = json.loads(path.read_text()) | changed
    path.write_text(json.dumps({key: value for key, value in metadata.items() if value is not None}))


def test_rows_are_minaris_own(data_format):
    dataset = create([episode(0, 3, terminated=True), episode(1, 2, truncated=True), episode(2, 1)], data_format=data_format)
    loaded = load("test/set-v0")
    read = list(dataset.iterate_episodes())
    rows = loaded.transitions
    np.testing.assert_array_equal(rows.observations, np.concatenate([e.observations[:-1] for e in read]).astype(np.float32))
    np.testing.assert_array_equal(rows.next_observations, np.concatenate([e.observations[1:] for e in read]).astype(np.float32))
    np.testing.assert_array_equal(rows.actions, np.concatenate([e.actions for e in read]))
    np.testing.assert_array_equal(rows.rewards, np.concatenate([e.rewards for e in read]).astype(np.float32))
    assert rows.discounts.tolist() == [1, 1, 0, 1, 1, 1]
    report = loaded.report
    assert (report.terminals, report.timeouts, report.episode_open.tolist()) == (1, 1, [False, False, True])
    assert report.episode_returns.tolist() == [6, 3, 1]
    assert (loaded.env_id, loaded.reference, loaded.spec.low) == (None, None, (-1.0, -1.0))


def test_episodes_come_in_the_order_of_their_numbers(data_format):
    create([episode(number, 1 + number % 3, truncated=True) for number in range(23)], data_format=data_format)
    first = load("test/set-v0").transitions.observations[:, 0]
    assert first.tolist() == [number for number in range(23) for _ in range(1 + number % 3)]


def test_dict_observations_flatten_by_key(data_format):
    inner = spaces.Dict({"z": spaces.Box(-9, 9, (1,)), "a": spaces.Box(-9, 9, (2, 2))})
    space = spaces.Dict({"observation": inner, "achieved": spaces.Box(-9, 9, (1,)), "mode": spaces.Discrete(3, start=1)})
    values = {
        "observation": {"z": np.asarray([[1], [2]], np.float32), "a": np.arange(8, dtype=np.float32).reshape(2, 2, 2)},
        "achieved": np.asarray([[5], [6]], np.float32),
        "mode": np.asarray([1, 3]),
    }
    create([episode(0, 1, observations=values)], observation_space=space, data_format=data_format)
    loaded = load("test/set-v0")
    # achieved; mode, one-hot; observation/a in C order; observation/z
    assert loaded.transitions.observations.tolist() == [[5, 1, 0, 0, 0, 1, 2, 3, 1]]
    assert loaded.transitions.next_observations.tolist() == [[6, 0, 0, 1, 4, 5, 6, 7, 2]]
    assert loaded.spec.observation_size == 9


def test_discrete_actions(data_format):
    create([episode(0, 4, actions=np.asarray([2, 4, 3, 2]))], action_space=spaces.Discrete(3, start=2), data_format=data_format)
    loaded = load("test/set-v0")
    assert loaded.spec.discrete
    assert loaded.spec.action_size == 3
    assert loaded.transitions.actions.tolist() == [0, 2, 1, 0]
    assert loaded.transitions.actions.dtype == np.int32


def test_environment_and_reference_scores():
    create([episode(0, 2, truncated=True)], env="Pendulum-v1", ref_min_score=-1200.0, ref_max_score=-150.0)
    loaded = load("test/set-v0")
    assert loaded.env_id == "Pendulum-v1"
    assert loaded.reference == (-1200.0, -150.0)
    assert load("test/set-v0", env_id="Hopper-v5").reference == (-20.272305, 3234.3)


def test_evaluation_environment_comes_first():
    create([episode(0, 2, truncated=True)], env="Pendulum-v1", eval_env="MountainCarContinuous-v0")
    assert load("test/set-v0").env_id == "MountainCarContinuous-v0"


def test_environment_with_arguments_is_warned_of():
    create([episode(0, 2, truncated=True)], env=gymnasium.make("Pendulum-v1", g=5.0))
    assert any("made in Pendulum-v1 with g=5.0" in warning for warning in load("test/set-v0").report.warnings)


@pytest.mark.parametrize("spec", ['{"id": "Gone-v3", "entry_point": 7, "apply_api": [1]}', "not json", "[]", None])
def test_a_specification_that_cannot_be_read(spec):
    dataset = create([episode(0, 2, terminated=True)])
    edit_metadata(dataset, env_spec=spec, ref_min_score=None)
    loaded = load("test/set-v0")
    assert loaded.env_id == ("Gone-v3" if spec and "Gone" in spec else None)
    assert len(loaded.transitions) == 2


def test_no_spaces_and_no_environment():
    dataset = create([episode(0, 2, terminated=True)])
    edit_metadata(dataset, observation_space=None, action_space=None, env_spec='{"id": "Gone-v3"}')
    loaded = load("test/set-v0")
    assert (loaded.spec.observation_size, loaded.spec.low, loaded.spec.high) == (3, (-1.0, -1.0), (1.0, 1.0))
    assert any("action space is unbounded; bounds taken as -1 and 1" in warning for warning in loaded.report.warnings)


def test_a_set_of_another_minari():
    dataset = create([episode(0, 2, terminated=True)])
    edit_metadata(dataset, minari_version="0.1.0")
    assert len(load("test/set-v0").transitions) == 2


def test_unbounded_actions():
    create([episode(0, 2)], action_space=spaces.Box(-np.inf, np.inf, (2,), np.float32))
    assert load("test/set-v0").spec.high == (1.0, 1.0)
    given = load("test/set-v0", low=-2, high=2)
    assert given.spec.high == (2.0, 2.0)
    assert not any("bounds taken as" in warning for warning in given.report.warnings)
    assert load("test/set-v0", low=0).spec.high == (1.0, 1.0)


@pytest.mark.parametrize("space", [spaces.MultiDiscrete([2, 2]), spaces.MultiBinary(2)])
def test_unsupported_actions_are_refused(space):
    create([episode(0, 2, actions=np.zeros((2, 2), np.int64))], action_space=space)
    with pytest.raises(DataError, match="test/set-v0: actions: expected a Box or Discrete action space, got Multi"):
        load("test/set-v0")


def test_unsupported_observations_are_refused():
    space = spaces.Dict({"state": spaces.Box(-1, 1, (1,)), "words": spaces.Text(5)})
    create([episode(0, 1, observations={"state": np.zeros((2, 1)), "words": ["a", "b"]})], observation_space=space)
    with pytest.raises(DataError, match="observations/words: expected a Box"):
        load("test/set-v0")


@pytest.mark.parametrize("rows", [2, 4])
def test_a_wrong_number_of_observations_names_the_episode(rows):
    create([episode(0, 2, truncated=True), episode(1, 2, observations=np.zeros((rows, 3)))])
    with pytest.raises(DataError, match=rf"test/set-v0: episode 1, observations: expected 3 \(one before each of 2 steps .* got {rows}"):
        load("test/set-v0")


def bad_episode(**changed):
    buffer = episode(1, 3, actions=changed.pop("actions", None), observations=changed.pop("observations", None))
    return dataclasses.replace(buffer, **changed)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rewards": np.zeros((3, 2))}, r"rewards: expected shape \[N\] or \[N, 1\], got \[3, 2\]"),
        ({"rewards": ["1", "2", "3"]}, "rewards: expected numbers, got dtype object"),
        ({"terminations": np.zeros((3, 3), bool)}, r"terminations: expected shape \[N\] or \[N, 1\], got \[3, 3\]"),
        ({"truncations": np.asarray([0, 2, 0])}, "truncations: expected 0 or 1 in every row, got 2 at row 1"),
        ({"truncations": np.zeros(2, bool)}, "truncations: expected 3 as rewards, got 2"),
        ({"actions": np.zeros((3, 4))}, r"actions: expected shape \[2\] a step, got \[4\]"),
        ({"actions": ["left", "right", "left"]}, "actions: expected numbers, got dtype object"),
        ({"observations": ["a", "b", "c", "d"]}, "observations: expected numbers, got dtype object"),
        ({"observations": np.zeros((4, 2))}, r"observations: expected shape \[3\] a step, got \[2\]"),
    ],
)
def test_wrong_shapes_name_episode_and_key(changed, message):
    create([episode(0, 2, truncated=True), bad_episode(**changed)])
    with pytest.raises(DataError, match=f"^test/set-v0: episode 1, {message}.*; record the episode again or remove it from the set$"):
        load("test/set-v0")


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([2, 2.5, 3], r"actions: expected integers from 2 to 4, got 2.5 at step 1 \(1 such steps\)"),
        ([2, 5, np.nan], r"actions: expected integers from 2 to 4, got 5.0 at step 1 \(2 such steps\)"),
        ([2, 2**32 + 2, 3], "actions: expected integers from 2 to 4, got 4294967298 at step 1"),
        (np.zeros((3, 2), int), r"actions: expected shape \[N\] or \[N, 1\], got \[3, 2\]"),
    ],
)
def test_discrete_actions_that_are_none(actions, message):
    good = episode(0, 2, actions=np.asarray([2, 3]))
    create([good, bad_episode(actions=np.asarray(actions))], action_space=spaces.Discrete(3, start=2))
    with pytest.raises(DataError, match=f"^test/set-v0: episode 1, {message}"):
        load("test/set-v0")


@pytest.mark.parametrize("actions", [np.asarray([1.0, 0.0]), np.asarray([True, False]), np.asarray([[1], [0]], np.uint8)])
def test_discrete_actions_in_other_dtypes(actions):
    create([episode(0, 2, actions=actions)], action_space=spaces.Discrete(2))
    assert load("test/set-v0").transitions.actions.tolist() == [1, 0]


@pytest.mark.parametrize(("value", "shown"), [(3, "3"), (0.5, "0.5"), (-1, "-1")])
def test_discrete_observations_that_are_none(value, shown):
    space = spaces.Dict({"mode": spaces.Discrete(3)})
    create([episode(0, 2, observations={"mode": np.asarray([0, value, 1])})], observation_space=space)
    with pytest.raises(DataError, match=f"episode 0, observations/mode: expected integers from 0 to 2, got {shown} at step 1"):
        load("test/set-v0")


def test_an_observation_that_was_not_stored():
    space = spaces.Dict({"a": spaces.Box(-1, 1, (1,)), "b": spaces.Box(-1, 1, (1,))})
    create([episode(0, 1, observations={"a": np.zeros((2, 1))})], observation_space=space)
    with pytest.raises(DataError, match=r"^test/set-v0: episode 0, observations: expected 'b' in it, as the space has, got \['a'\]"):
        load("test/set-v0")


def test_an_episode_without_a_key():
    dataset = create([episode(0, 2, truncated=True), episode(1, 2, truncated=True)])
    with h5py.File(dataset.storage.data_path / "main_data.hdf5", "a") as file:
        del file["episode_1/rewards"]
    with pytest.raises(DataError, match="test/set-v0: episodes: expected 2 .* cannot read more than 1 of them .*rewards.* damaged"):
        load("test/set-v0")


@pytest.mark.parametrize("key", ["total_steps", "total_episodes"])
@pytest.mark.parametrize("value", [None, "many", [1]])
def test_metadata_without_totals(key, value):
    edit_metadata(create([episode(0, 2)]), **{key: value})
    with pytest.raises(DataError, match=rf"^test/set-v0: metadata\.json: expected a number under '{key}', got .*; fetch the set again$"):
        load("test/set-v0")


@pytest.mark.parametrize("key", ["ref_min_score", "ref_max_score"])
@pytest.mark.parametrize("value", ["unknown", [1], float("nan"), {}])
def test_reference_scores_that_are_no_numbers(key, value):
    edit_metadata(create([episode(0, 2)], ref_min_score=0.0, ref_max_score=1.0), **{key: value})
    with pytest.raises(DataError, match=rf"^test/set-v0: {key}: expected a finite number, got .*; correct it in the set's metadata\.json"):
        load("test/set-v0")


def test_metadata_that_are_no_mapping():
    dataset = create([episode(0, 2)])
    (dataset.storage.data_path / "metadata.json").write_text("[]")
    with pytest.raises(DataError, match=r"^test/set-v0: expected a Minari data set in .*, got one that Minari cannot open"):
        load("test/set-v0")


def test_a_poisoned_value_names_the_episode():
    create([episode(0, 2, truncated=True), episode(1, 3, rewards=np.asarray([0, np.nan, 1]))])
    with pytest.raises(DataError, match=r"rewards: expected finite .* at episode 1, step 1"):
        load("test/set-v0")


def test_termination_inside_an_episode_is_warned_of():
    buffer = episode(0, 3, truncated=True)
    buffer.terminations[1] = True
    create([buffer])
    loaded = load("test/set-v0")
    assert loaded.transitions.discounts.tolist() == [1, 0, 1]
    assert any("1 rows inside an episode are terminal, first at episode 0, step 1" in warning for warning in loaded.report.warnings)


def test_slow_sets_are_read_once(monkeypatch):
    monkeypatch.setattr(cache, "WORTHWHILE", -1.0)
    dataset = create([episode(0, 2, truncated=True), episode(1, 3, terminated=True)])
    first = load("test/set-v0")
    with monkeypatch.context() as patched:
        patched.setattr(minari_format, "_read", None)  # a second reading would fail
        second = load("test/set-v0", clip_actions=True)
    for key in ("observations", "actions", "rewards", "next_observations", "discounts"):
        np.testing.assert_array_equal(getattr(first.transitions, key), getattr(second.transitions, key))
    assert str(first.report) == str(second.report)
    dataset.update_dataset_from_buffer([episode(2, 4, truncated=True)])
    assert len(load("test/set-v0").transitions) == 9
    (dataset.storage.data_path.parent / ".jaxprune-arrays.npz").write_bytes(b"PK, cut off")
    assert len(load("test/set-v0").transitions) == 9
    assert list(minari.list_local_datasets()) == ["test/set-v0"]
    minari.delete_dataset("test/set-v0")
    assert not dataset.storage.data_path.parent.exists()


def test_missing_episodes_are_noticed(data_format):
    dataset = create([episode(0, 2, truncated=True), episode(1, 3, truncated=True)], data_format=data_format)
    edit_metadata(dataset, total_episodes=1)
    with pytest.raises(DataError, match="episodes: expected 1 with 5 steps as the metadata say, got 1 with 2"):
        load("test/set-v0")
    edit_metadata(dataset, total_episodes=9)
    with pytest.raises(DataError, match="the set is damaged"):
        load("test/set-v0")


def test_an_empty_set():
    dataset = create([episode(0, 2)])
    edit_metadata(dataset, total_episodes=0, total_steps=0)
    with pytest.raises(DataError, match="the set is empty"):
        load("test/set-v0")


def test_a_broken_store():
    dataset = create([episode(0, 2)])
    (dataset.storage.data_path / "main_data.hdf5").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"test/set-v0: episodes: .* damaged"):
        load("test/set-v0")
    (dataset.storage.data_path / "metadata.json").write_text("{")
    with pytest.raises(DataError, match="that Minari cannot open"):
        load("test/set-v0")


def test_not_there_and_no_network(monkeypatch):
    def download_dataset(dataset_id):
        raise ConnectionError("no route to host\nsecond line")

    monkeypatch.setattr(minari, "download_dataset", download_dataset)
    with pytest.raises(FileNotFoundError, match=r"^mujoco/hopper/medium-v0: not among .*, and not downloaded: no route to host$"):
        load("mujoco/hopper/medium-v0")
    with pytest.raises(FileNotFoundError, match="download=False"):
        load("mujoco/hopper/medium-v0", download=False)


def test_a_file_where_the_sets_should_be(minari_folder):
    minari_folder.write_text("")
    for name in ("mujoco/hopper/medium-v0", "jaxprune/hopper/random-v0"):
        with pytest.raises(
            DataError, match=f"got MINARI_DATASETS_PATH={minari_folder}, where none can be made .*; set MINARI_DATASETS_PATH"
        ):
            load(name)


def test_downloaded_when_missing(monkeypatch):
    monkeypatch.setattr(minari, "download_dataset", lambda dataset_id: create([episode(0, 2)]))
    assert len(load_minari("test/set-v0").transitions) == 2


@pytest.mark.parametrize("name", ["", "hopper", "has space/set-v0", "log.txt"])
def test_names_that_are_nothing(name):
    with pytest.raises(DataError, match=r"expected the path of an HDF5 file, a Minari id .*, or a built-in set"):
        load(name)
