"""Recordings that nobody on this project made, where they are at hand."""

import pathlib
from typing import Any

import h5py
import numpy as np
import pytest

from jaxprune.data import load

FOLDER = pathlib.Path(__file__).parents[3] / "shared" / "data"

# episodes, mean return, terminals, timeouts: as the recordings' own README lists them
LISTED = {
    "hopper_expert": (20, 3779, 0, 20),
    "hopper_bc-medium": (20, 1209, 20, 0),
    "walker2d_expert": (20, 5542, 0, 20),
    "walker2d_bc-medium": (20, 2638, 16, 4),
    "halfcheetah_expert": (20, 4113, 0, 20),
    "halfcheetah_bc-medium": (20, 4036, 0, 20),
}

ENVIRONMENTS = {"hopper": "Hopper-v4", "walker2d": "Walker2d-v4", "halfcheetah": "HalfCheetah-v4"}


@pytest.mark.parametrize("name", LISTED)
def test_recording(name):
    path = FOLDER / f"{name}.hdf5"
    if not path.is_file():
        pytest.skip(f"{path.name} is not here")
    dataset = load(path, env_id=ENVIRONMENTS[name.split("_")[0]])
    report, rows = dataset.report, dataset.transitions
    episodes, mean, terminals, timeouts = LISTED[name]
    assert (report.episodes, report.terminals, report.timeouts) == (episodes, terminals, timeouts)
    assert round(report.return_statistics["mean"]) == mean
    with h5py.File(path) as file:
        arrays: Any = {key: file[key][()] for key in file}  # pyright: ignore[reportIndexIssue]
    assert report.dropped == {}
    for key in ("observations", "actions", "rewards", "next_observations"):
        np.testing.assert_array_equal(getattr(rows, key), arrays[key].reshape(getattr(rows, key).shape))
    np.testing.assert_array_equal(rows.discounts, 1.0 - arrays["terminals"].reshape(-1))
    assert report.actions_outside.sum() == (np.abs(arrays["actions"]) > 1).sum() > 0
    np.testing.assert_allclose(dataset.statistics.std, arrays["observations"].astype(np.float64).std(0), rtol=1e-5)
    clipped = load(path, clip_actions=True)
    np.testing.assert_array_equal(clipped.transitions.actions, arrays["actions"].clip(-1, 1))


def test_without_flags_or_next_observations(tmp_path):
    """The same recording less a key: what can be understood is, and tells the same episodes."""
    path = FOLDER / "walker2d_bc-medium.hdf5"
    if not path.is_file():
        pytest.skip(f"{path.name} is not here")
    whole = load(path)
    with h5py.File(path) as source:
        for missing in ("timeouts", "next_observations"):
            with h5py.File(tmp_path / f"no_{missing}.hdf5", "w") as file:
                for key in source:
                    if key != missing:
                        source.copy(key, file)
    told = load(tmp_path / "no_timeouts.hdf5")
    assert told.report.episode_lengths.tolist() == whole.report.episode_lengths.tolist()
    assert len(told.transitions) == len(whole.transitions)
    shifted = load(tmp_path / "no_next_observations.hdf5")
    assert sum(shifted.report.dropped.values()) == 4  # the four timeouts
    assert shifted.report.episode_returns.tolist() == whole.report.episode_returns.tolist()
