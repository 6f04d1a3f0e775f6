"""An output folder: its config, and one row per run and evaluation."""

from __future__ import annotations

import json
import os
import pathlib
import platform
import shutil
from typing import IO, Any

from jaxprune.files import read_json, write_whole

WRITTEN = ("config.json", "records*.jsonl", "records.csv", "report.html", "progress*.json", "checkpoints*", "tensorboard", "runs")
# What every config.json of a sweep holds, and what a sweep that was stopped before it wrote one may have left.
_OURS, _BEGUN = {"algos", "sparsities", "data"}, ("records*.jsonl",)


class OutputFolder:
    """OUT/{config.json, records.jsonl, records.csv, report.html, runs/<id>/…}, and while a sweep runs progress.json and checkpoints/.

    Args:
      path: the folder; made if absent.
      overwrite: delete what an earlier sweep left in it.
      resume: go on with what an earlier sweep left in it; a folder without one is begun.
      part: None, or which of several processes this is: each has files of its own, and the first of them makes the folder.

    Attributes:
      resumed: whether there is an earlier sweep to go on with.

    Raises:
      ValueError: it already holds a sweep, or files that no sweep wrote; another process writes it; or it is not a folder that can be
        written.
    """

    def __init__(self, path: str | os.PathLike, *, overwrite: bool = False, resume: bool = False, part: int | None = None):
        self.path, self.part = pathlib.Path(path), part
        self.made = not self.path.exists()
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"expected a folder at {self.path}, found a file; name another output folder")
        used = self._used()
        self.resumed = resume and (self.path / "config.json").exists()
        if used and not self._is_ours(used):
            raise ValueError(f"{self.path} holds {used[0].name}, which no sweep wrote; name another output folder")
        if used and not overwrite and not self.resumed:
            raise ValueError(
                f"{self.path} already holds a sweep ({used[0].name}); name another output folder, or pass --resume to go on with it or "
                "--overwrite to lose it"
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(self.path / self.named("sweep.lock"))
            if not self.resumed and not part:
                for item in used:
                    _remove(item)
            self.records.touch()
        except OSError as error:
            raise ValueError(f"cannot write to {self.path}: {error.strerror}; name a folder that can be written") from error

    def _used(self) -> list[pathlib.Path]:
        if self.part:  # the first process has looked, and made the folder since
            return []
        found = [item for name in WRITTEN for item in sorted(self.path.glob(name))]
        return [item for item in found if item.is_dir() or item.stat().st_size]

    def _is_ours(self, used: list[pathlib.Path]) -> bool:
        if (config := self.path / "config.json") not in used:
            return all(any(item.match(name) for name in _BEGUN) for item in used)
        try:
            return set(read_json(config)) >= _OURS
        except ValueError:
            return False

    def close(self) -> None:
        """Let another process have it."""
        if not self._lock.closed:
            pathlib.Path(self._lock.name).unlink(missing_ok=True)
            self._lock.close()

    def named(self, name: str) -> str:
        """The name of a file of this process: records.jsonl, or records-1.jsonl of the second of several."""
        stem, dot, ending = name.partition(".")
        return name if self.part is None else f"{stem}-{self.part}{dot}{ending}"

    @property
    def records(self) -> pathlib.Path:
        """Where this process writes its rows."""
        return self.path / self.named("records.jsonl")

    def clear(self) -> None:
        """Take back what was written, the folder too where it was new."""
        for name in WRITTEN:
            for item in self.path.glob(name):
                _remove(item)
        self.close()
        if self.made:
            self.path.rmdir()

    def write_config(self, config: dict[str, Any]) -> None:
        """Write config.json."""
        write_whole(self.path / "config.json", json.dumps(config, indent=2) + "\n")

    def read_config(self) -> dict[str, Any]:
        """What `write_config` wrote."""
        return read_json(self.path / "config.json")

    def append(self, records: list[dict[str, Any]]) -> None:
        """Add rows to the records of this process."""
        with self.records.open("a") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)

    def sync_records(self) -> int:
        """Have the rows on disk; the bytes they take."""
        with self.records.open("a") as file:
            os.fsync(file.fileno())
            return file.tell()

    def cut_records(self, size: int) -> None:
        """Leave the first `size` bytes of the rows.

        Raises:
          ValueError: there are fewer.
        """
        with self.records.open("a") as file:
            if file.tell() < size:
                raise ValueError(
                    f"{self.records} has {file.tell()} bytes where {size} were written: it was shortened since; put the whole file back, "
                    "or start anew with --overwrite"
                )
            file.truncate(size)

    def fresh_run(self, run_id: str) -> pathlib.Path:
        """The folder of a run, empty: what an interrupted process left in it is gone."""
        folder = self.path / "runs" / run_id
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    def merge(self) -> list[dict[str, Any]]:
        """All rows of all processes, in records.jsonl and records.csv too."""
        parts = sorted(self.path.glob("records-*.jsonl"), key=lambda path: int(path.stem.rpartition("-")[2]))
        if parts:
            write_whole(self.path / "records.jsonl", "".join(part.read_text() for part in parts))
        records = read_records(self.path)
        self.write_csv(records)
        return records

    def write_csv(self, records: list[dict[str, Any]]) -> None:
        """Write all rows to records.csv, with the union of their columns."""
        from jaxprune.reporting.tables import csv_text

        write_whole(self.path / "records.csv", csv_text(records))


def _locked(path: pathlib.Path) -> IO[str]:
    """The file, opened and locked until it is closed or this process ends, however it ends.

    Raises:
      ValueError: another process has it.
    """
    file = path.open("a+")
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        owner = file.read().strip() or "which has not said who it is"
        file.close()
        raise ValueError(
            f"another process ({owner}) is writing to {path.parent}; wait for its end, or name another output folder"
        ) from None
    except (ImportError, OSError):  # no such locks on this system or disk
        return file
    file.truncate(0)
    file.write(f"{os.getpid()} on {platform.node()}")
    file.flush()
    return file


def _remove(item: pathlib.Path) -> None:
    if item.is_dir():
        shutil.rmtree(item)
    else:
        item.unlink()


def read_records(folder: str | os.PathLike) -> list[dict[str, Any]]:
    """The rows of records.jsonl.

    Raises:
      ValueError: a line of it is not JSON.
    """
    path, rows = pathlib.Path(folder) / "records.jsonl", []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            raise ValueError(f"line {number} of {path} is not JSON ({error}): put the unedited file back, or run the sweep anew") from error
    return rows
