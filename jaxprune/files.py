"""Files that are there whole or not at all."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any


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


def read_json(path: str | os.PathLike[str]) -> dict[str, Any]:
    """A JSON file that holds an object.

    Raises:
      FileNotFoundError: there is none.
      ValueError: it holds something else, cut short or damaged.
    """
    try:
        values = json.loads(pathlib.Path(path).read_text())
    except ValueError as error:  # no JSON, or no UTF-8
        raise ValueError(f"{path} is damaged: expected JSON, {error}; put the file back as it was written") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} is damaged: expected a JSON object, got {type(values).__name__}; put the file back as it was written")
    return values
