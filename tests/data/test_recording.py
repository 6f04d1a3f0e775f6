import numpy as np
import pytest

from jaxprune.data import DataError, load
from jaxprune.data.recording import find_policy, record
from jaxprune.spaces import flat_size, flatten


def halves(observations):
    return np.full((len(observations), 1), 0.5)


def noise(observations, rng):
    return rng.uniform(-2, 2, (len(observations), 1))


NOT_CALLABLE = 3


def test_own_policy_becomes_a_set():
    record("mine/pendulum/halves-v0", find_policy(f"{__name__}:halves"), env_id="Pendulum-v1", size=250)
    dataset = load("mine/pendulum/halves-v0", download=False)
    assert dataset.env_id == "Pendulum-v1"
    assert dataset.transitions.actions.tolist() == [[0.5]] * 250
    assert dataset.report.episode_lengths.tolist() == [200, 50]
    assert dataset.report.timeouts == 2
    assert dataset.spec.high == (2.0,)


def test_own_noise_goes_by_the_seed():
    act = find_policy(f"{__name__}:noise")
    for name, seed in (("a-v0", 1), ("b-v0", 1), ("c-v0", 2)):
        record(name, act, env_id="Pendulum-v1", size=20, seed=seed)
    a, b, c = (load(name, download=False).transitions.actions for name in ("a-v0", "b-v0", "c-v0"))
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)


def test_ids_are_not_overwritten_unasked():
    record("mine-v0", None, env_id="Pendulum-v1", size=10)
    with pytest.raises(DataError, match="mine-v0: a set of this id is there already"):
        record("mine-v0", None, env_id="Pendulum-v1", size=20)
    record("mine-v0", None, env_id="Pendulum-v1", size=20, replace=True)
    assert len(load("mine-v0", download=False).transitions) == 20
    with pytest.raises(DataError, match="outside jaxprune/"):
        record("jaxprune/hopper/medium-v0", None, env_id="Hopper-v5", size=10)
    with pytest.raises(DataError, match="expected a Minari id"):
        record("no version", None, env_id="Pendulum-v1", size=10)


@pytest.mark.parametrize("name", ["nothing", "no.such.module:act", f"{__name__}:missing", f"{__name__}:NOT_CALLABLE"])
def test_policies_that_are_none(name):
    with pytest.raises(DataError, match="policy: expected"):
        find_policy(name)


def test_flattening_order():
    spaces = pytest.importorskip("gymnasium").spaces
    space = spaces.Dict([("b", spaces.Box(0, 9, (2,))), ("a", spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 9, (1, 2))]))])
    value = {"b": np.asarray([[1, 2]]), "a": (np.asarray([1]), np.asarray([[[3, 4]]]))}
    assert flat_size(space) == 6
    assert flatten(space, value).tolist() == [[0, 1, 3, 4, 1, 2]]
    with pytest.raises(DataError, match=r"observations/b: expected shape \[2\] a step, got \[3\]"):
        flatten(space, value | {"b": np.zeros((1, 3))})
    with pytest.raises(DataError, match="expected equally many under every key"):
        flatten(space, value | {"b": np.zeros((2, 2))})
