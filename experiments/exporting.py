"""A run's policy as files, each checked against the live policy before any is written."""

from __future__ import annotations

import functools
import os
import pathlib
import shutil
import tempfile
from collections.abc import Sequence

import jaxprune as jp

FORMATS = {
    "safetensors": ("policy.safetensors", jp.export.to_safetensors),
    "onnx": ("policy.onnx", jp.export.to_onnx),
    "stablehlo": ("policy.stablehlo", jp.export.to_stablehlo),
    "c": ("policy.c", jp.export.to_c),
    "c_int8": ("policy_int8.c", functools.partial(jp.export.to_c, weights="int8", name="policy_int8")),
}


def check_formats(formats: Sequence[str]) -> None:
    """Refuse what is no format, with a ValueError that lists those there are."""
    if unknown := [name for name in formats if name not in FORMATS]:
        raise ValueError(f"--formats: {unknown[0]!r} is unknown; expected some of {', '.join(FORMATS)}")


def write(run: str | os.PathLike, formats: Sequence[str], folder: str | os.PathLike, *, seed: int = 0) -> None:
    """Write a run's policy in some formats, all or none, and print their sizes and differences.

    Args:
      run: its folder.
      formats: names in `FORMATS`.
      folder: to write to; made if absent.
      seed: of the candidates' latents (BCQ).

    Raises:
      ValueError: an unknown format, a folder that is a file, a run that failed, or a file that does not act as the live policy.
      ImportError: a format's package is absent.
    """
    check_formats(formats)
    agent, state = jp.load_run(run)
    jp.export.read_policy(agent, state, seed=seed)
    folder = pathlib.Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"expected a folder at {folder}, found a file; name another output folder")
    with tempfile.TemporaryDirectory(prefix="jaxprune-export-") as scratch:
        lines = []
        for name in formats:
            file, write_format = FORMATS[name]
            found = write_format(agent, state, pathlib.Path(scratch) / file, seed=seed)
            size = (pathlib.Path(scratch) / file).stat().st_size
            notes = f", {found.ties} tied choices left out" if found.ties else ""
            lines.append(f"{file:20} {size:10,}  {found.difference:.2e} over {found.observations:,} observations{notes}")
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copytree(scratch, folder, dirs_exist_ok=True)
    print(f"{'file':20} {'bytes':>10}  largest difference from the live policy")
    print("\n".join(lines))
