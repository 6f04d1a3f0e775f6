"""What things are called in tables and figures."""

from __future__ import annotations

import math
import re

NAMES = {
    "bc": "BC",
    "bcq": "BCQ",
    "td3_bc": "TD3+BC",
    "iql": "IQL",
    "discrete_bc": "Discrete BC",
    "discrete_bcq": "Discrete BCQ",
    "dense": "Dense",
    "small_dense": "Small dense",
    "lottery_ticket": "Lottery ticket",
    "gradual": "Gradual magnitude",
    "random": "Random",
    "magnitude": "Magnitude",
    "snip": "SNIP",
    "grasp": "GraSP",
    "crop": "CroP",
    "synflow": "SynFlow",
    "force": "FORCE",
    "snap": "SNAP",
    "lm": "LM",
    "obd": "OBD",
    "obs": "OBS",
    "qm": "QM",
    "l1": "L1",
}


def name(key: str) -> str:
    """The usual spelling of an algorithm or a criterion: `snip` → `SNIP`, `snip_shuffled` → `SNIP, shuffled`; others stay as they are."""
    if key in NAMES:
        return NAMES[key]
    first, _, rest = key.partition("_")
    return f"{NAMES[first]}, {rest.replace('_', ' ')}" if first in NAMES and rest else key


# As Gymnasium spells them.
_TASKS = {"halfcheetah": "HalfCheetah", "cartpole": "CartPole"}


def dataset_name(dataset: str) -> str:
    """`jaxprune/hopper/medium-v0` → `Hopper medium`; a path → its file's stem; anything else stays as it is."""
    if found := re.fullmatch(r"[\w.-]+/([\w.-]+)/([\w.-]+)-v\d+", dataset):
        task, kind = found.groups()
        return f"{_TASKS.get(task, task[:1].upper() + task[1:])} {kind}"
    return re.sub(r"\.(hdf5|h5|npz)$", "", re.split(r"[/\\]", dataset)[-1]) or dataset


def percent(fraction: float) -> str:
    """0.95 → `95 %`, 0.995 → `99.5 %`."""
    return f"{round(100 * fraction, 6):g} %"


def number(value: float | None) -> str:
    """About three to four digits, thousands set apart: `1,946`, `52.4`, `0.31`; `n/a` for None."""
    if value is None:
        return "n/a"
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    decimals = 0 if size >= 100 or value == int(value) else 1 if size >= 10 else 2
    return f"{value:,.{decimals}f}".replace("-", "−")


def sentence(column: str) -> str:
    """`policy_loss` → `Policy loss`."""
    words = column.replace("_", " ")
    return words[:1].upper() + words[1:]


def size(count: float | None) -> str:
    """Bytes: `824 B`, `27.2 kB`, `1.3 MB`, in thousands; `n/a` for None."""
    if count is None:
        return "n/a"
    unit, name = (1e6, "MB") if count >= 999_500 else (1e3, "kB") if count >= 1000 else (1, "B")
    value = count / unit
    return f"{value:.0f} {name}" if unit == 1 or value >= 99.95 else f"{value:.3g} {name}"


def short(count: float) -> str:
    """A count in three digits: `824`, `27.2k`, `1.3M`."""
    unit, letter = (1e6, "M") if count >= 999_500 else (1e3, "k") if count >= 1000 else (1.0, "")
    return f"{count / unit:.3g}{letter}"


def duration(seconds: float | None) -> str:
    """`48 s`, `12 min`, `3.2 h`; `n/a` for None."""
    if seconds is None:
        return "n/a"
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
