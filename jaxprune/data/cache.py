"""Arrays that were slow to read, kept beside their source.

A set of ten thousand short episodes takes Minari ten seconds, and its arrays a tenth of one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import time
import zipfile
from collections.abc import Callable, Mapping

import numpy as np

# Seconds of reading from which on a copy is kept.
WORTHWHILE = 1.0

_FILE = ".jaxprune-arrays.npz"
_VERSION = 1


def cached(source: pathlib.Path, read: Callable[[], Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """What `read` returns, from a copy beside the folder `source` if there is one and no file in `source` has changed since.

    Args:
      source: the folder that `read` reads.
      read: reads it; called if there is no such copy. What took it more than `WORTHWHILE` seconds is kept, where that can be written.
    """
    copy, stamp = source.parent / _FILE, _stamp(source)
    with contextlib.suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile), np.load(copy) as stored:
        if str(stored["stamp"]) == stamp:
            return {key: stored[key] for key in stored.files if key != "stamp"}
    start = time.monotonic()
    arrays = dict(read())
    if time.monotonic() - start > WORTHWHILE:
        part = copy.with_name(f"{_FILE}.{os.getpid()}.part")
        try:
            with open(part, "wb") as file:
                np.savez(file, stamp=np.asarray(stamp), **arrays)  # pyright: ignore[reportArgumentType]
            os.replace(part, copy)
        except OSError:  # a full or read-only disk: the next time will be slow again
            with contextlib.suppress(OSError):
                part.unlink()
    return arrays


def _stamp(source: pathlib.Path) -> str:
    """Changes whenever a file under `source` is written, added or removed."""
    found = [str(_VERSION)]
    for folder, _, names in sorted(os.walk(source)):
        for name in sorted(names):
            status = os.stat(os.path.join(folder, name))
            found.append(f"{os.path.relpath(folder, source)}/{name} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\n".join(found).encode()).hexdigest()
