"""Where Minari keeps its data sets on this machine."""

from __future__ import annotations

import os
import pathlib

from jaxprune.errors import DataError


def minari_folder(dataset_id: str = "") -> pathlib.Path:
    """The folder of a set, there or not; without an id, the one of all sets, which is made if it is absent.

    Raises:
      DataError: the folder of all sets cannot be made.
    """
    from minari.storage.datasets_root_dir import get_dataset_path

    try:
        return get_dataset_path(dataset_id)
    except OSError as error:
        named = os.environ.get("MINARI_DATASETS_PATH")
        source = "in your home folder" if named is None else f"MINARI_DATASETS_PATH={named}"
        raise DataError(
            f"expected a folder for Minari's data sets, got {source}, where none can be made ({error.strerror}); "
            "set MINARI_DATASETS_PATH to a folder that can be written"
        ) from error
