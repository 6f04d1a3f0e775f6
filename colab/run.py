"""Run the notebooks of this folder, each in a fresh kernel and an empty folder, two at a time.

    JAXPRUNE_SMOKE=1 python colab/run.py      # all, shrunken: about three minutes on two cores
    python colab/run.py 4_inside_a_mask       # one, at its full size
    python colab/run.py --save                # all, and keep the outputs in the files

prints the seconds of each, and of one that fails the cell and its error; the exit code is then 1. Without --save nothing here is changed.
With it, a notebook is written once it has run to its end and `faults` finds nothing in it, and its links lead to the repository that
pyproject.toml names.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pathlib
import re
import sys
import tempfile
import time
import tomllib
from typing import Any

from absl import app, flags
from tqdm.auto import tqdm

FLAGS = flags.FLAGS
SAVE = flags.DEFINE_bool("save", False, "Keep the outputs in the files.")
JOBS = flags.DEFINE_integer("jobs", 2, "Notebooks at a time.", lower_bound=1)
TIMEOUT = flags.DEFINE_integer("timeout", 1800, "Seconds a cell may take.", lower_bound=1)

HERE = pathlib.Path(__file__).resolve().parent
LARGEST = 600_000  # bytes of a file
REPOSITORY = re.compile(r"(?<=colab\.research\.google\.com/github/)[\w.-]+/[\w.-]+(?=/blob/)|(?<=git\+https://github\.com/)[\w.-]+/[\w.-]+")
COLOURS = re.compile(r"\x1b\[[\d;]*m")  # of a terminal
WIDGET = "application/vnd.jupyter.widget-view+json"
# Paths of the machine a notebook ran on, and addresses of objects.
LOCAL = re.compile(r"(?<![\w.:/~])/(?:home|root|tmp|work|Users|opt|usr|var|private|content)/|\bat 0x[0-9a-f]{6,}")


def repository() -> str:
    """owner/name, from pyproject.toml."""
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]
    return project["urls"]["Repository"].removeprefix("https://github.com/")


def text_of(part: str | list[str]) -> str:
    """The text of a source or an output, which nbformat keeps whole or as lines."""
    return part if isinstance(part, str) else "".join(part)


def badge(name: str) -> str:
    """What opens the notebook `name` on Colab."""
    link = f"https://colab.research.google.com/github/{repository()}/blob/main/colab/{name}.ipynb"
    return f"[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({link})"


def faults(notebook: dict[str, Any]) -> list[str]:
    """What an executed notebook must not hold, a line each; none where it may be kept.

    Refused are cells that did not run in order from 1, errors, standard error, widgets, paths and addresses of a machine, and a file above
    LARGEST bytes.
    """
    found = []
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for place, cell in enumerate(code, start=1):
        if cell["execution_count"] != place:
            found.append(f"code cell {place}: expected execution count {place}, got {cell['execution_count']}")
        for output in cell["outputs"]:
            kind = output["output_type"]
            if kind == "error":
                found.append(f"code cell {place}: {output['ename']}: {output['evalue']}")
            if output.get("name") == "stderr":
                found.append(f"code cell {place}: standard error: {text_of(output['text']).strip()[:200]}")
            data = output.get("data", {})
            if WIDGET in data:
                found.append(f"code cell {place}: a widget, which no file can show")
            texts = [output.get("text", ""), *(part for mime, part in data.items() if mime.startswith("text/"))]
            places = LOCAL.finditer("\n".join(map(text_of, texts)))
            found += [f"code cell {place}: {local[0]!r}, of the machine it ran on" for local in places]
    if (size := len(written(notebook).encode())) > LARGEST:
        found.append(f"{size:,} bytes, more than {LARGEST:,}")
    return found


def written(notebook: dict[str, Any]) -> str:
    """The text of the file."""
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def cleaned(notebook: dict[str, Any], owner_and_name: str) -> dict[str, Any]:
    """The notebook without progress bars, times and versions of the kernel, its links to the repository given."""
    cells = []
    for cell in notebook["cells"]:
        source = REPOSITORY.sub(owner_and_name, text_of(cell["source"]))
        cell = {**cell, "metadata": {}, "source": source.splitlines(keepends=True)}
        if cell["cell_type"] == "code":
            outputs = [output for output in cell["outputs"] if WIDGET not in output.get("data", {})]
            cell["outputs"] = [_with_lines(output) for output in outputs if output["output_type"] != "clear_output"]
        cells.append(cell)
    metadata = {"kernelspec": notebook["metadata"]["kernelspec"], "language_info": {"name": "python"}}
    return {**notebook, "cells": cells, "metadata": metadata}


def _with_lines(output: dict[str, Any]) -> dict[str, Any]:
    """The output with its texts as lists of lines, for readable differences."""
    output = {**output}
    if "text" in output:
        output["text"] = text_of(output["text"]).splitlines(keepends=True)
    if "data" in output:
        output["metadata"] = {}
        output["data"] = {
            mime: text_of(part).splitlines(keepends=True) if mime.startswith("text/") else part for mime, part in output["data"].items()
        }
    return output


async def execute(path: pathlib.Path, slots: asyncio.Semaphore, bar: Any) -> tuple[dict[str, Any] | None, float, str]:
    """The executed notebook or None, the seconds it took, and the error; the kernel's folder is a new one, deleted after."""
    import nbclient
    import nbformat
    from nbclient.exceptions import CellExecutionError
    from traitlets.config import Config

    async with slots:
        began = time.perf_counter()
        notebook: Any = nbformat.read(path, as_version=4)
        with tempfile.TemporaryDirectory(prefix="jaxprune-") as folder, tempfile.TemporaryDirectory(prefix="jaxprune-") as sockets:
            client = nbclient.NotebookClient(
                notebook,
                timeout=TIMEOUT.value,
                startup_timeout=300,
                resources={"metadata": {"path": folder}},
                kernel_name="python3",
                config=Config() if sys.platform == "win32" else Config(KernelManager={"transport": "ipc", "ip": f"{sockets}/kernel"}),
                on_cell_executed=lambda **_: bar.update(),
            )
            error = ""
            try:
                await client.async_execute()
            except (CellExecutionError, TimeoutError, RuntimeError) as failure:  # the last two: no answer, or a kernel that died
                error = COLOURS.sub("", str(failure)).strip()
        return (None if error else notebook), time.perf_counter() - began, error


async def run(paths: list[pathlib.Path]) -> bool:
    """Run the notebooks and say how it went; whether all ran to their ends (and were kept, where that was asked for)."""
    slots, fine = asyncio.Semaphore(JOBS.value), True
    cells = sum(cell["cell_type"] == "code" for path in paths for cell in json.loads(path.read_text())["cells"])
    began = time.perf_counter()
    with tqdm(total=cells, desc="notebooks", unit="cell", disable=None) as bar:

        async def one(path: pathlib.Path) -> bool:
            notebook, seconds, error = await execute(path, slots, bar)
            bar.write(f"{path.stem}: {'failed' if error else 'ran'} in {seconds:.0f} s", file=sys.stdout)
            if notebook is None:
                bar.write(error, file=sys.stdout)
                return False
            return keep(path, notebook) if SAVE.value else True

        for done in asyncio.as_completed([one(path) for path in paths]):
            fine &= await done
    print(f"{len(paths)} notebooks in {time.perf_counter() - began:.0f} s")
    return fine


def keep(path: pathlib.Path, notebook: dict[str, Any]) -> bool:
    """Write an executed notebook, unless it has faults, which are printed."""
    notebook = cleaned(notebook, repository())
    if found := faults(notebook):
        print("\n".join(f"{path.name}, not written: {fault}" for fault in found))
        return False
    part = path.with_suffix(".part")
    part.write_text(written(notebook))
    os.replace(part, path)
    return True


def main(arguments: list[str]) -> None:
    """Run those named, or all."""
    logging.getLogger("traitlets").setLevel(logging.WARNING)
    paths = [HERE / f"{pathlib.Path(name).stem}.ipynb" for name in arguments[1:]] or sorted(HERE.glob("*.ipynb"))
    if missing := [path for path in paths if not path.is_file()]:
        known = ", ".join(path.stem for path in sorted(HERE.glob("*.ipynb")))
        sys.exit(f"{sys.argv[0]}: no notebook {missing[0].stem}; expected some of {known}")
    if SAVE.value and os.environ.get("JAXPRUNE_SMOKE") == "1":
        sys.exit(f"{sys.argv[0]}: --save would keep the outputs of the short version; unset JAXPRUNE_SMOKE")
    sys.exit(0 if asyncio.run(run(paths)) else 1)


if __name__ == "__main__":
    app.run(main)
