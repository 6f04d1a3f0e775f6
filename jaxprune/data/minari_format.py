"""Minari data sets, as Minari stores them on this machine."""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from jaxprune.data import shapes
from jaxprune.data.arrays import close_episodes
from jaxprune.data.assembly import assemble
from jaxprune.data.cache import cached
from jaxprune.data.episodes import Log
from jaxprune.data.folder import minari_folder
from jaxprune.data.transitions import Dataset
from jaxprune.errors import DataError
from jaxprune.spaces import action_bounds, flat_size, flatten


def load_minari(
    dataset_id: str,
    *,
    env_id: str | None = None,
    low: Any = None,
    high: Any = None,
    clip_actions: bool = False,
    download: bool = True,
) -> Dataset:
    """Reads a Minari data set in any of its storage formats, episode by episode in the order of their numbers.

    Observations are flattened as `jaxprune.spaces` says. Only the stored metadata are used, so a set without an environment, or with a
    specification that this Gymnasium cannot read, loads as well.

    Args:
      dataset_id: for example ``mujoco/hopper/medium-v0``; downloaded by Minari if it is not there.
      env_id: Gymnasium id to evaluate in; by default that of the set's evaluation environment, or of the one that made it.
      low: lower bounds of the actions; by default those of the set's action space.
      high: upper bounds, likewise.
      clip_actions: move actions outside the bounds to the bound.
      download: ask Minari's server for a set that is not on this machine.

    Raises:
      FileNotFoundError: not on this machine and not to be had.
      DataError: defective; the message names the episode.
    """
    path = _find(dataset_id, download) / "data"
    storage, metadata = _open(dataset_id, path)
    warnings: list[str] = []
    recorded, details = _environment(metadata)
    env_id = env_id or recorded
    if details:
        warnings.append(f"env_id: the set was made in {recorded} with {details}; evaluation uses {env_id} with its defaults")
    try:
        discrete, space_low, space_high = _action_space(storage.action_space)
        reference = _reference(metadata)
        log = _log(cached(path, lambda: _read(storage, metadata, discrete)))
        given = low is not None and high is not None
        if discrete is None and not given and not (np.isfinite(space_low).all() and np.isfinite(space_high).all()):
            space_low, space_high = action_bounds(env_id, log.observations.shape[1], log.actions.shape[1], warnings)
            warnings.append(
                f"actions: the set's action space is unbounded; bounds taken as {_short(space_low)} and {_short(space_high)} "
                "where low and high are not passed"
            )
        log.warnings += warnings
        return assemble(
            log,
            name=dataset_id,
            low=space_low if low is None else low,
            high=space_high if high is None else high,
            discrete=discrete,
            env_id=env_id,
            reference=reference,
            clip_actions=clip_actions,
        )
    except DataError as error:
        raise DataError(f"{dataset_id}: {error}") from error


def is_installed(dataset_id: str) -> bool:
    """Whether Minari's folder on this machine has the set."""
    return (minari_folder(dataset_id) / "data" / "metadata.json").is_file()


def _find(dataset_id: str, download: bool) -> pathlib.Path:
    from minari.dataset.minari_dataset import parse_dataset_id

    try:
        parse_dataset_id(dataset_id)
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{dataset_id!r}: expected the path of an HDF5 file, a Minari id such as mujoco/hopper/medium-v0, or a built-in set "
            "jaxprune/<task>/<level>-v0"
        ) from error
    path = minari_folder(dataset_id)
    if not is_installed(dataset_id):
        reason = "it was not asked for (download=False)"
        if download:
            try:
                import minari

                minari.download_dataset(dataset_id)
            except Exception as error:  # no network, no such set, no client for the server: all leave the set missing
                reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        if not is_installed(dataset_id):
            raise FileNotFoundError(
                f"{dataset_id}: not among Minari's sets on this machine ({minari_folder()}), and not downloaded: {reason}"
            )
    return path


def _open(dataset_id: str, path: pathlib.Path) -> tuple[Any, dict]:
    from minari.dataset._storages import get_minari_storage
    from minari.dataset.minari_storage import MinariStorage

    try:
        metadata = MinariStorage.read_raw_metadata(path)
        try:
            return MinariStorage.read(path), metadata
        except ImportError:
            raise
        except Exception:  # the spaces are not stored and the environment cannot be made: take their shapes from the data
            storage = get_minari_storage(metadata["data_format"])
            observation_space, action_space = _stored_spaces(path)
            return storage(path, observation_space, action_space), metadata
    except ImportError as error:
        raise DataError(f"{dataset_id}: its storage format needs a package that is missing: {error}") from error
    except (AttributeError, KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise DataError(
            f"{dataset_id}: expected a Minari data set in {path}, got one that Minari cannot open ({error}); remove it and fetch it again"
        ) from error


def _stored_spaces(path: pathlib.Path) -> tuple[Any, Any]:
    """Unbounded spaces in the shape of the first episode of an HDF5 storage."""
    import gymnasium
    import h5py

    def space(node: Any) -> Any:
        if isinstance(node, h5py.Group):
            return gymnasium.spaces.Dict({str(key): space(node[key]) for key in node})
        return gymnasium.spaces.Box(-np.inf, np.inf, node.shape[1:], np.float64)

    with h5py.File(path / "main_data.hdf5", "r") as file:
        return space(file["episode_0/observations"]), space(file["episode_0/actions"])


def _read(storage: Any, metadata: dict, discrete: int | None) -> dict[str, np.ndarray]:
    """The rows of all episodes, and `stops`, where each ends, and `labels`, its number; episodes without a step are counted in `empty`."""
    total, episodes = _count(metadata, "total_steps"), _count(metadata, "total_episodes")
    if not episodes or not total:
        raise DataError(f"episodes: expected at least one with a step, got {episodes} with {total} steps; the set is empty")
    size = flat_size(storage.observation_space)
    observations, following = np.empty((total, size), np.float32), np.empty((total, size), np.float32)
    action_size = None if discrete is not None else int(np.prod(storage.action_space.shape))
    actions = np.empty(total, np.int32) if action_size is None else np.empty((total, action_size), np.float32)
    rewards, terminals, timeouts = np.empty(total, np.float32), np.empty(total, bool), np.empty(total, bool)
    stops, labels, filled, empty = [], [], 0, 0
    for episode in tqdm(_episodes(storage, episodes), total=episodes, desc="reading episodes", unit="", leave=False, disable=None):
        label = int(episode["id"])
        try:
            columns = _columns(storage, episode, discrete)
        except DataError as error:
            raise DataError(f"episode {label}, {error}; record the episode again or remove it from the set") from error
        steps = len(columns["rewards"])
        span = slice(filled, filled + steps)
        if span.stop > total:
            break
        if not steps:
            empty += 1
            continue
        observations[span], following[span] = columns["observations"][:-1], columns["observations"][1:]
        actions[span], rewards[span] = columns["actions"], columns["rewards"]
        terminals[span], timeouts[span] = columns["terminations"], columns["truncations"]
        filled = span.stop
        stops.append(filled)
        labels.append(label)
    if filled != total or len(stops) + empty != episodes:
        raise DataError(
            f"episodes: expected {episodes:,} with {total:,} steps as the metadata say, got {len(stops) + empty:,} with {filled:,}; "
            "fetch the set again"
        )
    return {
        "observations": observations,
        "actions": actions,
        "rewards": rewards,
        "terminals": terminals,
        "timeouts": timeouts,
        "next_observations": following,
        "stops": np.asarray(stops),
        "labels": np.asarray(labels),
        "empty": np.asarray(empty),
    }


def _count(metadata: dict, key: str) -> int:
    try:
        return int(metadata[key])
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise DataError(f"metadata.json: expected a number under {key!r}, got {metadata.get(key)!r}; fetch the set again") from error


def _columns(storage: Any, episode: dict, discrete: int | None) -> dict[str, np.ndarray]:
    """An episode's observations [T + 1, S], actions [T, A] or [T], numbered from 0, and rewards and flags [T]; DataError names the key."""
    columns = {key: shapes.numeric(key, episode[key]) for key in ("rewards", "actions", "terminations", "truncations")}
    steps = len(columns["rewards"])
    observations = flatten(storage.observation_space, episode["observations"])
    if len(observations) != steps + 1:
        raise DataError(
            f"observations: expected {steps + 1} (one before each of {steps} steps and one after the last), got {len(observations)}"
        )
    for key, array in columns.items():
        if len(array) != steps:
            raise DataError(f"{key}: expected {steps} as rewards, got {len(array)}")
        if key != "actions":
            shapes.check_column(key, array.shape)
    return {
        "observations": observations,
        "actions": _actions(storage.action_space, columns["actions"], discrete),
        "rewards": columns["rewards"].reshape(steps),
        "terminations": shapes.flags("terminations", columns["terminations"]),
        "truncations": shapes.flags("truncations", columns["truncations"]),
    }


def _actions(space: Any, actions: np.ndarray, discrete: int | None) -> np.ndarray:
    steps = len(actions)
    if discrete is None:
        if steps and math.prod(actions.shape[1:]) != math.prod(space.shape):
            raise DataError(f"actions: expected shape {list(space.shape)} a step, got {list(actions.shape[1:])}")
        return actions.reshape(steps, math.prod(space.shape))
    shapes.check_column("actions", actions.shape)
    actions, start = actions.reshape(steps), int(space.start)
    wrong = np.flatnonzero(~((actions >= start) & (actions < start + discrete) & (actions == np.floor(actions))))
    if len(wrong):
        raise DataError(
            f"actions: expected integers from {start} to {start + discrete - 1}, got {actions[wrong[0]]} at step {wrong[0]} "
            f"({len(wrong):,} such steps)"
        )
    return actions.astype(np.int64) - start


def _log(arrays: dict[str, Any]) -> Log:
    stops, labels, empty = (arrays.pop(key) for key in ("stops", "labels", "empty"))

    def where(row: int) -> str:
        index = int(np.searchsorted(stops, row, side="right"))
        return f"episode {labels[index]}, step {row - (stops[index - 1] if index else 0)}"

    log = Log(**arrays, ends=np.zeros(stops[-1], bool), where=where)
    if empty:
        log.warnings.append(f"episodes: {empty:,} hold no step and were passed over")
    return close_episodes(log, stops - 1, np.zeros(0, np.int64))


def _episodes(storage: Any, episodes: int) -> Iterator[dict]:
    read = 0
    try:
        for episode in storage.get_episodes(range(episodes)):
            yield episode
            read += 1
    except (AssertionError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(
            f"episodes: expected {episodes:,} as the metadata say, but Minari cannot read more than {read:,} of them ({reason}); "
            "the set is damaged, fetch it again"
        ) from error


def _action_space(space: Any) -> tuple[int | None, Any, Any]:
    """(number of discrete actions, low, high)."""
    kind = type(space).__name__
    if kind == "Discrete":
        return int(space.n), None, None
    if kind == "Box" and space.shape:
        return None, space.low.reshape(-1), space.high.reshape(-1)
    raise DataError(f"actions: expected a Box or Discrete action space, got {space}; agents here act with one vector or one integer")


def _environment(metadata: dict) -> tuple[str | None, str]:
    """(environment id, arguments it was made with that are not its defaults)."""
    for key in ("eval_env_spec", "env_spec"):
        try:
            spec = json.loads(metadata[key])
            if isinstance(spec.get("id"), str):
                return spec["id"], ", ".join(
                    f"{name}={value}" for name, value in (spec.get("kwargs") or {}).items() if name != "render_mode"
                )
        except (KeyError, TypeError, ValueError, AttributeError):
            continue
    return None, ""


def _reference(metadata: dict) -> tuple[float, float] | None:
    low, high = (_score(metadata, key) for key in ("ref_min_score", "ref_max_score"))
    return None if low is None or high is None or low == high else (low, high)


def _score(metadata: dict, key: str) -> float | None:
    recorded = metadata.get(key)
    if recorded is None:
        return None
    try:
        score = float(recorded)
    except (OverflowError, TypeError, ValueError):
        score = math.nan
    if not math.isfinite(score):
        raise DataError(f"{key}: expected a finite number, got {recorded!r}; correct it in the set's metadata.json or remove it there")
    return score


def _short(bound: Any) -> str:
    values = np.unique(np.asarray(bound, np.float64))
    return f"{values[0]:g}" if len(values) == 1 else str(values.tolist())
