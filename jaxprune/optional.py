"""Packages that an extra installs."""

from __future__ import annotations

import importlib
from typing import Any


def require(module: str, *, extra: str) -> Any:
    """A module of an optional package.

    Args:
      module: its name.
      extra: of this package, that installs it.

    Raises:
      ImportError: it cannot be imported; the message says how to get it.
    """
    package = module.partition(".")[0]
    try:
        importlib.import_module(package)
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{package} is needed here but cannot be imported ({error}); pip install 'jaxprune[{extra}]'") from error
