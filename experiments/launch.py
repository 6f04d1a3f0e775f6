"""How every script of this folder starts: bad input is one line on standard error and a non-zero exit code."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Callable, Sequence

import absl.logging
from absl import app, flags

from jaxprune.training.stopping import Stopped


def launch(main: Callable[..., None], *, argument: str = "") -> None:
    """Parse flags and run `main`; a ValueError or a missing file becomes one clear line and exit code 2.

    With `argument`, which says what it is, exactly one argument stands beside the flags, and `main` is given it.
    """

    def guarded(arguments: Sequence[str]) -> None:
        given = arguments[1:]
        if argument and not given:
            fail(f"expected {argument}, got no argument")
        if len(given) > bool(argument):
            fail(f"unexpected argument {given[bool(argument)]!r}; every {'other ' if argument else ''}setting is a --flag=value")
        absl.logging.get_absl_handler().setFormatter(logging.Formatter("%(message)s"))
        logging.getLogger().setLevel(logging.WARNING)
        logging.getLogger("jaxprune").setLevel(logging.INFO)
        try:
            _settle_folders()
            main(*given)
        except (ValueError, OSError, ImportError) as error:
            fail(str(error))
        except Stopped as stopped:
            fail(str(stopped), code=128 + stopped.signal)

    app.run(guarded)


def _settle_folders() -> None:
    """Expand ~ in the folders that flags name; refuse an empty name, as an unset variable of the shell gives."""
    for name in ("output", "work", "records"):
        if name in flags.FLAGS and isinstance(folder := flags.FLAGS[name].value, str):
            if not folder:
                raise ValueError(f"--{name} is empty; name a folder")
            flags.FLAGS[name].value = os.path.expanduser(folder)


def fail(message: str, *, code: int = 2) -> None:
    """Print one line and leave."""
    print(f"{sys.argv[0]}: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(code)


def command_line() -> str:
    """The command that started this script, as one would type it."""
    return shlex.join(["python", *sys.argv])
