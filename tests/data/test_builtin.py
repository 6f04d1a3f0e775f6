"""Built-in sets: made once, whole or not at all, and Minari's to read."""

import dataclasses
import itertools
import json
import subprocess
import sys
from typing import Any

import minari
import numpy as np
import pytest

from jaxprune.data import DataError, behaviours, builtin, load
from jaxprune.data.behaviours import LEVELS, TASKS, load_behaviour, tasks
from jaxprune.data.builtin import Builtin, parse
from jaxprune.data.transitions import Spec

HOPPER = "jaxprune/hopper/random-v0"


def arrays(dataset):
    rows = dataset.transitions
    return [rows.observations, rows.actions, rows.rewards, rows.next_observations, rows.discounts]


def test_names():
    assert parse(HOPPER) == Builtin("hopper", "random", 200_000, 0)
    assert parse("jaxprune/walker2d/medium-replay-n500-s3-v0") == Builtin("walker2d", "medium-replay", 500, 3)
    assert parse(HOPPER, size=10, seed=1).dataset_id == "jaxprune/hopper/random-n10-s1-v0"
    assert Builtin("hopper", "expert").dataset_id == "jaxprune/hopper/expert-v0"
    for name in (Builtin(task, level, size, seed) for task in TASKS for level in LEVELS for size in (7, 200_000) for seed in (0, 2)):
        assert parse(name.dataset_id) == name


@pytest.mark.parametrize("name", ["jaxprune/hopper/best-v0", "jaxprune/ant/medium-v0", "jaxprune/hopper/medium-v1", "jaxprune/hopper"])
def test_unknown_sets_list_what_there_is(name):
    with pytest.raises(DataError, match=r"expected jaxprune/<task>/<level>-v0 with a task of hopper, .* medium-replay"):
        load(name)


def test_made_once_and_minaris_own(monkeypatch):
    first = load(HOPPER, size=400)
    monkeypatch.setattr(builtin, "collect", None)  # a second making would fail
    second = load(HOPPER, size=400)
    for a, b in zip(arrays(first), arrays(second), strict=True):
        np.testing.assert_array_equal(a, b)
    assert first.name == "jaxprune/hopper/random-n400-v0"
    assert (first.env_id, first.reference) == ("Hopper-v5", (-20.272305, 3234.3))
    assert first.report.rows_kept == len(first.transitions) == 400

    own: Any = minari.load_dataset(first.name)
    assert own.total_steps == 400
    assert own.spec.env_spec.id == "Hopper-v5"
    assert own.recover_environment().observation_space.contains(own[0].observations[0].astype(np.float64))
    assert minari.get_normalized_score(own, np.asarray([3234.3])) == pytest.approx([1.0])
    assert list(minari.list_local_datasets()) == [first.name]
    assert "id=0" in repr(own[0])
    np.testing.assert_array_equal(np.concatenate([e.actions for e in own.iterate_episodes()]), first.transitions.actions)
    ends = [(bool(e.terminations[-1]), bool(e.truncations[-1])) for e in own.iterate_episodes()]
    assert all(terminated != truncated for terminated, truncated in ends)


def test_same_seed_same_bytes(monkeypatch, tmp_path):
    first = load(HOPPER, size=300)
    other_seed = load(HOPPER, size=300, seed=1)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "elsewhere"))
    again = load(HOPPER, size=300)
    for a, b in zip(arrays(first), arrays(again), strict=True):
        assert a.tobytes() == b.tobytes()
    assert not np.array_equal(first.transitions.actions, other_seed.transitions.actions)


def test_random_actions_are_uniform():
    actions = load(HOPPER, size=3_000).transitions.actions
    assert np.abs(actions).max() <= 1.0
    # A uniform variable on [−1, 1] has mean 0 and variance 1/3; five standard errors of 9,000 draws.
    assert abs(actions.mean()) < 5 * np.sqrt(1 / 3 / 9_000)
    assert abs(actions.var() - 1 / 3) < 5 * np.sqrt((1 / 5 - 1 / 9) / 9_000)


@pytest.mark.parametrize("step", ["update_episodes", "update_metadata"])
def test_a_killed_generation_leaves_no_set(step, minari_folder):
    script = f"""
import os
from minari.dataset._storages.hdf5_storage import HDF5Storage
original = HDF5Storage.{step}
def killed(self, *args, **kwargs):
    original(self, *args, **kwargs)
    os._exit(9)
HDF5Storage.{step} = killed
from jaxprune.data import load
load("{HOPPER}", size=100)
"""
    run = subprocess.run([sys.executable, "-c", script], check=False)
    assert run.returncode == 9
    assert list(minari_folder.iterdir())  # something was left …
    assert list(minari.list_local_datasets()) == []  # … but no set
    assert len(load(HOPPER, size=100).transitions) == 100


def test_failure_while_writing_cleans_up(minari_folder, monkeypatch):
    from minari.dataset._storages.hdf5_storage import HDF5Storage

    def full(self, episodes):
        raise OSError("no space left on device")

    monkeypatch.setattr(HDF5Storage, "update_episodes", full)
    with pytest.raises(OSError, match="no space left"):
        load(HOPPER, size=100)
    assert list(minari_folder.iterdir()) == []


def test_other_weights_make_it_anew(monkeypatch):
    builtin.ensure(Builtin("hopper", "random", 50))
    monkeypatch.setattr(builtin, "_RECIPE", 2)
    calls = []
    original = builtin.collect
    monkeypatch.setattr(builtin, "collect", lambda *args, **kwargs: calls.append(1) or original(*args, **kwargs))
    for _ in range(2):
        assert len(load(HOPPER, size=50).transitions) == 50
    assert calls == [1]
    assert list(minari.list_local_datasets()) == ["jaxprune/hopper/random-n50-v0"]


def snapshot(seed, level) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    sizes = [11, 64, 64, 3]
    weights = {f"kernel_{i}": rng.normal(size=pair).astype(np.float32) * 0.1 for i, pair in enumerate(itertools.pairwise(sizes))}
    weights |= {f"bias_{i}": np.full(size, level, np.float32) for i, size in enumerate(sizes[1:])}
    return weights | {"log_std": np.full(3, -9, np.float32), "mean": np.zeros(11, np.float32), "std": np.ones(11, np.float32)}


@pytest.fixture
def weights(tmp_path, monkeypatch):
    """A weights folder with a medium policy that pushes forward, an expert that pushes back, and two replay snapshots."""
    policies = {"medium": snapshot(0, 0.3), "expert": snapshot(1, -0.3), "replay_1": snapshot(0, 0.3), "replay_0": snapshot(2, 0.0)}
    described = {name: {"env_id": "Hopper-v5", "algorithm": "none", "steps": i, "return_mean": 1.0} for i, name in enumerate(policies)}
    packed: dict[str, Any] = {f"{name}/{key}": array for name, arrays in policies.items() for key, array in arrays.items()}
    np.savez(tmp_path / "hopper.npz", metadata=json.dumps({"env_id": "Hopper-v5", "policies": described}), **packed)
    monkeypatch.setattr(tasks, "_FOLDER", tmp_path)
    return policies


def act_by_hand(weights, observations):
    x = np.clip((observations - weights["mean"]) / weights["std"], -10, 10)
    x = np.tanh(x @ weights["kernel_0"] + weights["bias_0"])
    x = np.tanh(x @ weights["kernel_1"] + weights["bias_1"])
    return np.clip(x @ weights["kernel_2"] + weights["bias_2"], -1, 1)


@pytest.mark.parametrize(
    ("level", "names"),
    [("medium", ["medium"]), ("expert", ["expert"]), ("medium-expert", ["medium", "expert"]), ("medium-replay", ["replay_0", "replay_1"])],
)
def test_levels_are_played_by_their_policies(weights, level, names):
    rows = load(f"jaxprune/hopper/{level}-v0", size=100).transitions
    share = 100 // len(names)
    for index, name in enumerate(names):
        part = rows.take(slice(index * share, (index + 1) * share))
        # log_std −9: the noise is about 1e-4
        np.testing.assert_allclose(part.actions, act_by_hand(weights[name], part.observations), atol=2e-3)


def test_exploration_noise_has_the_trained_scale(weights):
    policy = load_behaviour("hopper", "medium")[0]
    noisy = behaviours.Policy(policy.kernels, policy.biases, policy.mean, policy.std, np.log([0.1, 0.5, 2.0]).astype(np.float32), {})
    actions = noisy(np.zeros((20_000, 11), np.float32), np.random.default_rng(0))
    np.testing.assert_allclose(actions.std(0), [0.1, 0.5, 2.0], rtol=0.03)


def test_levels_without_weights(weights, tmp_path):
    with pytest.raises(DataError, match="holds no behaviour policies for walker2d"):
        load("jaxprune/walker2d/medium-v0", size=10)
    np.savez(tmp_path / "walker2d.npz", metadata='{"policies": {"medium": {}}}')
    with pytest.raises(DataError, match="hold medium, not expert"):
        load("jaxprune/walker2d/expert-v0", size=10)


def test_snapshots_that_are_none(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such policy file"):
        behaviours.load_policy(tmp_path / "none.npz")
    np.savez(tmp_path / "other.npz", metadata="{}", kernel_0=np.zeros((2, 2)))
    with pytest.raises(DataError, match="expected a snapshot with"):
        behaviours.load_policy(tmp_path / "other.npz")


def test_discrete_policies_draw_by_the_softmax():
    """Hidden layers that output 0 leave the last biases: log ½, log ⅓, log ⅙."""
    likely = np.asarray([1 / 2, 1 / 3, 1 / 6])
    kernels = (np.zeros((4, 5), np.float32), np.zeros((5, 3), np.float32))
    biases = (np.zeros(5, np.float32), np.log(likely).astype(np.float32))
    policy = behaviours.Policy(kernels, biases, np.zeros(4, np.float32), np.ones(4, np.float32), None, {})
    actions = policy(np.zeros((20_000, 4), np.float32), np.random.default_rng(0))
    assert (actions.shape, actions.dtype) == ((20_000,), np.int32)
    # Five standard errors.
    assert (np.abs(np.bincount(actions) / 20_000 - likely) < 5 * np.sqrt(likely * (1 - likely) / 20_000)).all()
    assert policy.digest() != dataclasses.replace(policy, log_std=np.zeros(3, np.float32)).digest()


def test_cartpole():
    dataset = load("jaxprune/cartpole/medium-v0", size=3_000)
    rows = dataset.transitions
    assert (dataset.env_id, dataset.spec) == ("CartPole-v1", Spec(4, 2, (), (), discrete=True))
    assert (rows.actions.shape, rows.actions.dtype) == ((3_000,), np.int32)
    assert set(np.unique(rows.actions)) == {0, 1}
    # The pole falls at the end of an episode, and the step before is played by the physics of the environment.
    assert (np.abs(rows.next_observations[rows.discounts == 0, 2]) > 0.2).mean() > 0.5
    assert 60 < dataset.report.return_statistics["mean"] < 250
    # Every step earns 1, but the episodes' lengths differ.
    assert dataset.report.constant_columns == {"rewards": (0,)}
    assert dataset.report.warnings == ()


@pytest.mark.parametrize("task", TASKS)
def test_shipped_weights(task):
    """What the package holds is whole, and small."""
    path = tasks._FOLDER / f"{task}.npz"
    if not path.is_file():
        pytest.skip(f"no policies for {task} yet")
    assert path.stat().st_size < 2e6
    for level in LEVELS:
        for policy in load_behaviour(task, level):
            assert policy.metadata["env_id"] == TASKS[task]
            assert all(np.isfinite(kernel).all() for kernel in policy.kernels)
