"""An output folder: its config, and one row per run and evaluation."""

from __future__ import annotations

import csv
import io
import json
import os
import pathlib
import shutil
from typing import Any

WRITTEN = ("config.json", "records.jsonl", "records.csv", "report.html", "runs")


class OutputFolder:
    """OUT/{config.json, records.jsonl, records.csv, report.html, runs/<id>/…}.

    Args:
      path: the folder; made if absent.
      overwrite: delete what an earlier sweep left in it.

    Raises:
      ValueError: it already holds a sweep, or it is not a folder that can be written.
    """

    def __init__(self, path: str | os.PathLike, *, overwrite: bool = False):
        self.path = pathlib.Path(path)
        self.made = not self.path.exists()
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"expected a folder at {self.path}, found a file; name another output folder")
        used = [self.path / name for name in WRITTEN if (self.path / name).exists()]
        if used and not overwrite:
            raise ValueError(f"{self.path} already holds a sweep ({used[0].name}); name another output folder or pass --overwrite")
        for item in used:
            shutil.rmtree(item) if item.is_dir() else item.unlink()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            (self.path / "records.jsonl").touch()
        except OSError as error:
            raise ValueError(f"cannot write to {self.path}: {error.strerror}; name a folder that can be written") from error

    def clear(self) -> None:
        """Take back what was written, the folder too where it was new."""
        for name in WRITTEN:
            item = self.path / name
            if item.exists():
                shutil.rmtree(item) if item.is_dir() else item.unlink()
        if self.made:
            self.path.rmdir()

    def write_config(self, config: dict[str, Any]) -> None:
        """Write config.json."""
        self.write_text("config.json", json.dumps(config, indent=2) + "\n")

    def append(self, records: list[dict[str, Any]]) -> None:
        """Add rows to records.jsonl."""
        with (self.path / "records.jsonl").open("a") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)

    def write_csv(self, records: list[dict[str, Any]]) -> None:
        """Write all rows to records.csv, with the union of their columns."""
        columns = list(dict.fromkeys(name for record in records for name in record))
        text = io.StringIO()
        rows = csv.DictWriter(text, columns, lineterminator="\n")
        rows.writeheader()
        rows.writerows(records)
        self.write_text("records.csv", text.getvalue())

    def write_text(self, name: str, text: str) -> None:
        """Write a file whole or not at all."""
        partial = self.path / f".{name}.partial"
        partial.write_text(text)
        os.replace(partial, self.path / name)


def read_records(folder: str | os.PathLike) -> list[dict[str, Any]]:
    """The rows of records.jsonl."""
    return [json.loads(line) for line in (pathlib.Path(folder) / "records.jsonl").read_text().splitlines()]
