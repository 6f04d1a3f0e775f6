"""Writing episodes as a Minari data set, all or nothing."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from jaxprune.data.collection import Episode
from jaxprune.data.folder import minari_folder
from jaxprune.data.reference import reference_returns
from jaxprune.errors import DataError

_RECIPE = "jaxprune_recipe"
_PART = ".jaxprune-part-"
_STALE = 24 * 3600.0


def recorded_recipe(dataset_id: str) -> str | None:
    """What an installed set was made from; None where it is not installed, an empty string where it says nothing."""
    return _read_recipe(minari_folder(dataset_id))


def _read_recipe(folder: pathlib.Path) -> str | None:
    from minari.dataset.minari_storage import MinariStorage

    if not folder.is_dir():
        return None
    try:
        return str(MinariStorage.read_raw_metadata(folder / "data").get(_RECIPE, ""))
    except ValueError:
        return ""


def store(dataset_id: str, episodes: Sequence[Episode], *, env_id: str, recipe: str, algorithm: str, description: str) -> pathlib.Path:
    """Writes a set into Minari's folder, where `minari.load_dataset` finds it; one that is there under the same id is replaced.

    Everything is written in a hidden folder beside it and moved in one step, so a process that dies leaves no half set, and of two that
    make the same set at once one wins.

    Args:
      dataset_id: Minari id.
      episodes: at least one.
      env_id: Gymnasium id of the environment that made them; its specification and D4RL's reference returns are recorded.
      recipe: see `recorded_recipe`.
      algorithm: for Minari's metadata.
      description: likewise.

    Returns:
      The folder of the set.
    """
    import gymnasium
    import minari
    from minari.data_collector.episode_buffer import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage
    from minari.namespace import create_namespace, list_local_namespaces

    if not episodes:
        raise DataError(f"{dataset_id}: expected at least one episode to store, got none")
    root, target = minari_folder(), minari_folder(dataset_id)
    _sweep(root)
    part = pathlib.Path(tempfile.mkdtemp(prefix=_PART, dir=root))
    finished = part / "set"
    finished.mkdir()
    try:
        environment = gymnasium.make(env_id)
        storage = MinariStorage.new(
            finished / "data",
            observation_space=_observation_space(environment.observation_space, episodes[0].observations.shape[1]),
            action_space=environment.action_space,
            env_spec=environment.spec,
        )
        environment.close()
        storage.update_metadata(_metadata(dataset_id, env_id, recipe, algorithm, description, minari.__version__))
        buffers = (
            EpisodeBuffer(  # Minari's annotations say lists; its storages take arrays
                observations=episode.observations,  # pyright: ignore[reportArgumentType]
                actions=episode.actions,  # pyright: ignore[reportArgumentType]
                rewards=episode.rewards,  # pyright: ignore[reportArgumentType]
                terminations=episode.terminations,  # pyright: ignore[reportArgumentType]
                truncations=episode.truncations,  # pyright: ignore[reportArgumentType]
                infos={},  # Minari cannot print an episode without
            )
            for episode in tqdm(episodes, desc="storing episodes", unit="", leave=False, disable=None)
        )
        storage.update_episodes(buffers)
        namespace = dataset_id.rpartition("/")[0]
        if namespace and namespace not in list_local_namespaces():
            with contextlib.suppress(ValueError):  # another process was first
                create_namespace(namespace)
        _move(finished, target, recipe)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return target


def _metadata(dataset_id: str, env_id: str, recipe: str, algorithm: str, description: str, version: str) -> dict:
    metadata = {
        "dataset_id": dataset_id,
        "minari_version": version,
        "algorithm_name": algorithm,
        "description": description,
        "author": {"jaxprune"},
        _RECIPE: recipe,
    }
    reference = reference_returns(env_id)
    if reference is not None:
        metadata |= {"ref_min_score": reference[0], "ref_max_score": reference[1], "num_episodes_average_score": 100}
    return metadata


def _move(finished: pathlib.Path, target: pathlib.Path, recipe: str) -> None:
    if target.exists():
        with contextlib.suppress(FileNotFoundError):
            os.rename(target, finished.with_name("replaced"))
    try:
        os.rename(finished, target)
    except OSError:
        # Another process put the same set there in between; its contents are as good as ours.
        if _read_recipe(target) != recipe:
            raise


def _observation_space(space: Any, size: int) -> Any:
    """The environment's own space, or a flat one where the observations were flattened."""
    import gymnasium

    if isinstance(space, gymnasium.spaces.Box) and space.shape == (size,):
        return space
    return gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)


def _sweep(root: pathlib.Path) -> None:
    """Removes what killed processes left behind more than a day ago."""
    for path in root.glob(f"{_PART}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _STALE:
                shutil.rmtree(path, ignore_errors=True)
