"""D4RL's HDF5 layout, and files that only look like it."""

import h5py
import numpy as np
import pytest

from jaxprune.data import DataError, load
from tests.data import logs

EPISODES = [(3, logs.TERMINAL), (4, logs.TIMEOUT), (2, logs.OPEN)]


@pytest.fixture
def write(tmp_path):
    def write(without=(), attributes=None, **changed):
        path = tmp_path / "log.hdf5"
        with h5py.File(path, "w") as file:
            for key, array in (logs.columns_of(EPISODES) | changed).items():
                if key not in without:
                    file[key] = array
            file.attrs.update(attributes or {})
        return path

    return write


@pytest.mark.parametrize("key", ["observations", "actions", "rewards", "terminals"])
def test_a_missing_key_is_named(write, key):
    with pytest.raises(DataError, match=rf"expected the key '{key}', got \["):
        load(write(without=(key,)))


def test_neither_timeouts_nor_next_observations(write):
    path = write(without=("timeouts", "next_observations"))
    with pytest.raises(DataError, match=r"log.hdf5: timeouts: expected .* max_episode_steps"):
        load(path)
    dataset = load(path, max_episode_steps=4)
    assert dataset.report.episode_lengths.tolist() == [3, 4, 2]
    assert len(dataset.transitions) == 7  # 9 less the timeout's last row and the open one's


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"actions": np.zeros((8, 2))}, "actions: expected 9 rows as in observations, got 8"),
        ({"actions": np.zeros(9)}, r"actions: expected shape \[N, features\], got \[9\]"),
        ({"rewards": np.zeros((9, 2))}, r"rewards: expected shape \[N\] or \[N, 1\]"),
        ({"rewards": [b"a"] * 9}, "rewards: expected numbers, got dtype"),
        ({"rewards": 0.5}, "rewards: expected an array with a row per step, got a single value"),
        ({"next_observations": np.zeros((9, 5))}, r"next_observations: expected shape \[9, 2\] as observations, got \[9, 5\]"),
        ({"observations": h5py.Empty("f")}, "observations: expected an array"),
        ({"observations": np.full((9, 2), 1e300)}, "observations: expected finite float32 numbers, got inf at row 0"),
    ],
)
def test_defects_name_file_and_key(write, changed, message):
    with pytest.raises(DataError, match=rf"log\.hdf5: {message}"):
        load(write(**changed))


def test_group_in_place_of_an_array(write):
    path = write(without=("rewards",))
    with h5py.File(path, "a") as file:
        file["rewards/total"] = np.zeros(9)
    with pytest.raises(DataError, match="rewards: expected an array, got a group"):
        load(path)


def test_not_a_file(tmp_path, write):
    beside = write()
    with pytest.raises(FileNotFoundError, match=r"no such file; the HDF5 files beside it are: log\.hdf5"):
        load(tmp_path / "lag.hdf5")
    with pytest.raises(FileNotFoundError, match="no such file, nor its folder"):
        load("/nowhere/at/all/log.hdf5")
    with pytest.raises(FileNotFoundError, match="expected a file, got a folder"):
        load(tmp_path)
    (tmp_path / "text.hdf5").write_text("hello")
    with pytest.raises(DataError, match=r"text\.hdf5: expected an HDF5 file"):
        load(tmp_path / "text.hdf5")
    (tmp_path / "cut.hdf5").write_bytes(beside.read_bytes()[:900])
    with pytest.raises(DataError, match=r"cut\.hdf5: expected an HDF5 file"):
        load(tmp_path / "cut.hdf5")


def test_damage_inside_the_file(tmp_path):
    path = tmp_path / "log.hdf5"
    with h5py.File(path, "w") as file:
        for key, array in logs.columns_of(EPISODES).items():
            file.create_dataset(key, data=array, chunks=True, fletcher32=True)
        offset = file["rewards"].id.get_chunk_info(0).byte_offset
    content = bytearray(path.read_bytes())
    content[offset] ^= 255
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"log\.hdf5: rewards: h5py cannot read it .*; the file is damaged"):
        load(path)


def test_damage_to_the_description_of_an_array(write):
    """Headers of arrays, of attributes and of the groups that hold them; any byte may be the wrong one."""
    path = write(attributes={"env_id": "Elsewhere-v0"})
    content, refusals = path.read_bytes(), []
    for offset in range(0, 2000, 20):
        damaged = bytearray(content)
        damaged[offset] ^= 255
        path.write_bytes(damaged)
        try:
            load(path)
        except DataError as error:  # no other error
            refusals.append(str(error))
    assert len(refusals) > 10
    assert all("log.hdf5: " in refusal and "\n" not in refusal for refusal in refusals)


@pytest.mark.parametrize(
    ("link", "target"),
    [
        (h5py.SoftLink("/elsewhere"), "/elsewhere"),
        (h5py.SoftLink("/rewards"), "/rewards"),
        (h5py.ExternalLink("gone.hdf5", "/rewards"), "/rewards in gone.hdf5"),
    ],
)
def test_a_link_to_nothing(write, link, target):
    with pytest.raises(DataError, match=rf"log\.hdf5: rewards: expected an array, got a link to {target}, which is not there; store"):
        load(write(rewards=link))


def test_a_link_to_an_array(write):
    rewards = logs.columns_of(EPISODES)["rewards"]
    assert load(write(rewards=h5py.SoftLink("/earned"), earned=rewards)).transitions.rewards[:3].tolist() == rewards[:3].tolist()


def test_a_part_of_a_minari_set(tmp_path):
    with h5py.File(tmp_path / "main_data.hdf5", "w") as file:
        file["episode_0/observations"] = np.zeros((2, 1))
    with pytest.raises(DataError, match="load it by its Minari id"):
        load(tmp_path / "main_data.hdf5")


def test_environment_recorded_in_the_file(write):
    columns = {"observations": np.random.default_rng(0).normal(size=(9, 3)), "actions": np.linspace(-2, 2, 9)[:, None]}
    columns["next_observations"] = columns["observations"] + 1
    dataset = load(write(attributes={"env_id": "Pendulum-v1"}, **columns))
    assert dataset.env_id == "Pendulum-v1"
    assert (dataset.spec.low, dataset.spec.high) == ((-2.0,), (2.0,))  # Pendulum's torque
    assert load(write(**columns)).spec.low == (-1.0,)
    assert load(write(**columns, **{"metadata/env_name": "Pendulum-v1"})).env_id == "Pendulum-v1"


@pytest.mark.parametrize("value", ["Elsewhere-v0", b"Elsewhere-v0", np.bytes_(b"Elsewhere-v0"), np.asarray("Elsewhere-v0", object)])
def test_environment_recorded_in_any_kind_of_text(write, value):
    assert load(write(attributes={"env_name": value})).env_id == "Elsewhere-v0"
    assert load(write(**{"metadata/env_id": value})).env_id == "Elsewhere-v0"


def test_recorded_environment_that_is_no_text(write):
    path = write(attributes={"env_id": np.bytes_(b"\xff\n")})
    with pytest.raises(DataError, match=r"log\.hdf5: env_id: expected a Gymnasium id, got b'\\xff\\n'; pass env_id"):
        load(path)
    assert load(path, env_id="Elsewhere-v0").env_id == "Elsewhere-v0"
    for value in (7, np.zeros(3), h5py.Empty("S4"), ""):
        assert load(write(attributes={"env_id": value})).env_id is None


@pytest.mark.parametrize("value", [3.0, np.zeros(2), "words", np.dtype("f4"), h5py.SoftLink("/elsewhere")])
def test_metadata_that_are_no_group(write, value):
    assert load(write(metadata=value)).env_id is None


def test_environment_that_does_not_fit(write):
    with pytest.raises(DataError, match=r"log\.hdf5: env_id: Pendulum-v1 has 3 observation and 1 action features, the data have 2 and 2"):
        load(write(), env_id="Pendulum-v1")
    with pytest.raises(DataError, match=r"log\.hdf5: env_id: CartPole-v1 has Discrete"):
        load(write(), env_id="CartPole-v1")


def test_environment_that_is_not_here(write):
    dataset = load(write(), env_id="Elsewhere-v0")
    assert dataset.env_id == "Elsewhere-v0"
    assert any("Elsewhere-v0 cannot be made here" in warning for warning in dataset.report.warnings)


def test_bounds_given_by_hand(write):
    assert load(write(), low=-3, high=[4, 5]).spec.high == (4.0, 5.0)


def test_one_bound_given_by_hand(write):
    """The other one stays the environment's, or the usual -1 and 1."""
    spec = load(write(), low=0).spec
    assert (spec.low, spec.high) == ((0.0, 0.0), (1.0, 1.0))
    spec = load(write(), high=[2, 3]).spec
    assert (spec.low, spec.high) == ((-1.0, -1.0), (2.0, 3.0))
    columns = {"observations": np.arange(27.0).reshape(9, 3), "actions": np.zeros((9, 1)), "next_observations": np.ones((9, 3))}
    spec = load(write(**columns), env_id="Pendulum-v1", low=0).spec
    assert (spec.low, spec.high) == ((0.0,), (2.0,))
    with pytest.raises(DataError, match=r"log\.hdf5: actions: bounds that do not fit 2 action features"):
        load(write(), low=1)


def test_options_that_belong_elsewhere(write):
    with pytest.raises(DataError, match="size, seed: expected only with a built-in set"):
        load(write(), size=10)
    with pytest.raises(DataError, match="max_episode_steps: expected only with an HDF5 file"):
        load("jaxprune/hopper/medium-v0", max_episode_steps=10)


def test_boolean_rewards(write):
    assert load(write(rewards=np.arange(9) % 2 == 0)).transitions.rewards.tolist() == [1, 0, 1, 0, 1, 0, 1, 0, 1]
