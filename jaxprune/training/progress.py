"""Progress bars: shown where a person watches, silent elsewhere."""

from __future__ import annotations

import sys
from typing import Any


def progress_bar(total: int, description: str, *, unit: str = "step", disable: bool = False) -> Any:
    """A `tqdm.auto` bar with the time left; disabled where standard error is not a terminal (a notebook counts as one)."""
    from tqdm.auto import tqdm

    watched = sys.stderr.isatty() or "ipykernel" in sys.modules
    return tqdm(total=total, desc=description, unit=unit, disable=disable or not watched, dynamic_ncols=True)
