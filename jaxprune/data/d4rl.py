"""Logs in D4RL's HDF5 layout: one array a key, all episodes one after the other."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np

from jaxprune.data import shapes
from jaxprune.data.assembly import assemble
from jaxprune.data.episodes import flat_log
from jaxprune.data.transitions import Dataset
from jaxprune.errors import DataError
from jaxprune.spaces import action_bounds

_REQUIRED = ("observations", "actions", "rewards", "terminals")
_OPTIONAL = ("timeouts", "next_observations")
_ENV_ID_KEYS = ("env_id", "env_name", "env")


def load_hdf5(
    path: str | pathlib.Path,
    *,
    env_id: str | None = None,
    low: Any = None,
    high: Any = None,
    clip_actions: bool = False,
    max_episode_steps: int | None = None,
) -> Dataset:
    """Reads a D4RL-layout file; keys beyond the six of the layout (``infos/…``, ``metadata/…``) are left unread.

    Args:
      path: the file.
      env_id: Gymnasium id to evaluate in; by default what the file says, if anything (attribute or ``metadata/`` entry ``env_id`` or
        ``env_name``).
      low: lower bounds of the actions; by default the environment's, and −1 where there is none, as in all of D4RL's MuJoCo sets.
      high: upper bounds, likewise; 1 where there is no environment.
      clip_actions: as in `from_arrays`.
      max_episode_steps: as in `from_arrays`.

    Raises:
      FileNotFoundError: no such file.
      DataError: unreadable, incomplete or defective; the message names key and row.
    """
    import h5py

    path = pathlib.Path(path)
    if not path.is_file():
        raise FileNotFoundError(_missing(path))
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise DataError(
            f"{path}: expected an HDF5 file, got something h5py cannot open ({error}); was the download or the copy cut off?"
        ) from error
    try:
        with file:
            arrays = _read(file, path)
            env_id = env_id or _recorded_env_id(file)
    except OSError as error:
        raise DataError(f"{path}: {error}; the file is damaged, fetch or write it again") from error
    warnings: list[str] = []
    try:
        if low is None or high is None:
            usual = action_bounds(env_id, arrays["observations"].shape[1], arrays["actions"].shape[1], warnings)
            low, high = (other if bound is None else bound for bound, other in zip((low, high), usual, strict=True))
        log = flat_log(**arrays, max_episode_steps=max_episode_steps)
        log.warnings += warnings
        return assemble(log, name=str(path), low=low, high=high, env_id=env_id, clip_actions=clip_actions)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def _read(file: Any, path: pathlib.Path) -> dict[str, Any]:
    found = {key: file[key] for key in (*_REQUIRED, *_OPTIONAL) if key in file}
    missing = [key for key in _REQUIRED if key not in found]
    if missing:
        if any(key.startswith("episode_") for key in file):
            raise DataError(f"{path}: this is a part of a Minari data set, not D4RL's layout; load it by its Minari id instead")
        raise DataError(
            f"{path}: expected the key {missing[0]!r}, got {sorted(file)}; rename or add it ({', '.join(_REQUIRED)} are needed)"
        )
    try:
        for key, source in found.items():
            if not hasattr(source, "shape") or source.shape is None:
                raise DataError(f"{key}: expected an array, got a group; store the array under this key")
            shapes.check_numeric(key, source)
        shapes.check_lengths({key: source.shape[0] for key, source in found.items()})
        for key in ("observations", "actions", "next_observations"):
            if key in found:
                shapes.matrix_size(key, found[key].shape)
        for key in ("rewards", "terminals", "timeouts"):
            if key in found:
                shapes.check_column(key, found[key].shape)
        shape, following = found["observations"].shape, found.get("next_observations", found["observations"]).shape
        if following != shape:
            raise DataError(f"next_observations: expected shape {list(shape)} as observations, got {list(following)}")
        return {key: _array(key, found[key]) if key in found else None for key in (*_REQUIRED, *_OPTIONAL)}
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def _array(key: str, source: Any) -> np.ndarray:
    if key in ("terminals", "timeouts"):
        return shapes.flags(key, source[()])
    if source.dtype == bool:
        return source[()].astype(np.float32)
    # HDF5 converts to float32 while it reads, so a float64 file is never held in memory.
    array = np.empty(source.shape, np.float32)
    source.read_direct(array)
    return array.reshape(len(array)) if key == "rewards" else array


def _recorded_env_id(file: Any) -> str | None:
    metadata = file.get("metadata", {})
    for holder in (file.attrs, getattr(metadata, "attrs", {}), metadata):
        for key in _ENV_ID_KEYS:
            if key in holder:
                value = holder[key]
                value = value[()] if hasattr(value, "shape") and value.shape == () else value
                value = value.decode() if isinstance(value, bytes) else value
                if isinstance(value, str) and value:
                    return value
    return None


def _missing(path: pathlib.Path) -> str:
    if path.is_dir():
        return f"{path}: expected a file, got a folder; name the HDF5 file in it"
    if not path.parent.is_dir():
        return f"{path}: no such file, nor its folder; check the path (it is taken from {pathlib.Path.cwd()})"
    others = sorted(other.name for other in path.parent.iterdir() if other.suffix in (".hdf5", ".h5"))[:10]
    return f"{path}: no such file; the HDF5 files beside it are: {', '.join(others) or 'none'}"
