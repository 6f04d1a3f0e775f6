"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import pathlib


def write_whole(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file whole or not at all, whatever stops the process: beside its place first, then put in it.

    Args:
      path: of the file; its folder must exist.
      content: text is written as UTF-8, its line ends as they are.
    """
    path = pathlib.Path(path)
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
