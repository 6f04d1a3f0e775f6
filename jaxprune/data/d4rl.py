"""Logs in D4RL's HDF5 layout: one array a key, all episodes one after the other."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator
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

# What h5py raises of files that are damaged inside.
_DAMAGE = (KeyError, OSError, RuntimeError, TypeError, ValueError)


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
    except _DAMAGE as error:
        raise DataError(
            f"{path}: expected an HDF5 file, got something h5py cannot open ({error}); was the download or the copy cut off?"
        ) from error
    warnings: list[str] = []
    try:
        with _readable(), file:
            arrays = _read(file)
            env_id = env_id or _recorded_env_id(file)
        if low is None or high is None:
            usual = action_bounds(env_id, arrays["observations"].shape[1], arrays["actions"].shape[1], warnings)
            low, high = (other if bound is None else bound for bound, other in zip((low, high), usual, strict=True))
        log = flat_log(**arrays, max_episode_steps=max_episode_steps)
        log.warnings += warnings
        return assemble(log, name=str(path), low=low, high=high, env_id=env_id, clip_actions=clip_actions)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


@contextlib.contextmanager
def _readable(key: str = "", remedy: str = "fetch or write it again") -> Iterator[None]:
    """Turns whatever h5py raises of a damaged file, under `key` where that is known, into a DataError."""
    try:
        yield
    except DataError:
        raise
    except _DAMAGE as error:
        reason = " ".join(str(error.args[0] if isinstance(error, KeyError) and error.args else error).split())
        raise DataError(f"{f'{key}: ' if key else ''}h5py cannot read it ({reason}); the file is damaged, {remedy}") from error


def _read(file: Any) -> dict[str, Any]:
    found = {}
    for key in (*_REQUIRED, *_OPTIONAL):
        with _readable(key):
            if key in file:
                found[key] = _linked(file, key)
    missing = [key for key in _REQUIRED if key not in found]
    if missing:
        if any(key.startswith("episode_") for key in file):
            raise DataError("this is a part of a Minari data set, not D4RL's layout; load it by its Minari id instead")
        raise DataError(f"expected the key {missing[0]!r}, got {sorted(file)}; rename or add it ({', '.join(_REQUIRED)} are needed)")
    for key, source in found.items():
        with _readable(key):
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
    arrays: dict[str, Any] = dict.fromkeys((*_REQUIRED, *_OPTIONAL))
    for key, source in found.items():
        with _readable(key):
            arrays[key] = _array(key, source)
    return arrays


def _linked(file: Any, key: str) -> Any:
    """What stands under a key; DataError where that is a link to nothing."""
    import h5py

    link = file.get(key, getlink=True)
    try:
        return file[key]
    except (KeyError, OSError, RuntimeError) as error:
        if isinstance(link, h5py.HardLink):
            raise
        target = f"{link.path} in {link.filename}" if isinstance(link, h5py.ExternalLink) else link.path
        raise DataError(f"{key}: expected an array, got a link to {target}, which is not there; store the array itself") from error


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
    import h5py

    with _readable("env_id", "pass env_id or write it again"):
        metadata = file.get("metadata")
        entries = metadata if isinstance(metadata, h5py.Group) else {}
        for holder in (file.attrs, getattr(metadata, "attrs", {}), entries):
            for key in _ENV_ID_KEYS:
                if key in holder and (value := _text(holder[key])):
                    return value
    return None


def _text(value: Any) -> str:
    """An attribute or entry as text; empty where it is none."""
    if getattr(value, "shape", None) == ():
        value = np.asarray(value[()] if hasattr(value, "id") else value).item()
    text = value.decode(errors="surrogateescape") if isinstance(value, bytes) else value
    if not isinstance(text, str):
        return ""
    if not text.isprintable():
        raise DataError(f"env_id: expected a Gymnasium id, got {value!r}; pass env_id or correct the file")
    return text


def _missing(path: pathlib.Path) -> str:
    if path.is_dir():
        return f"{path}: expected a file, got a folder; name the HDF5 file in it"
    if not path.parent.is_dir():
        return f"{path}: no such file, nor its folder; check the path (it is taken from {pathlib.Path.cwd()})"
    others = sorted(other.name for other in path.parent.iterdir() if other.suffix in (".hdf5", ".h5"))[:10]
    return f"{path}: no such file; the HDF5 files beside it are: {', '.join(others) or 'none'}"
