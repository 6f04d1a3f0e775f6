"""Attributes that share a description in a docstring, each with a line of its own in the API pages."""

from __future__ import annotations

import re
from typing import Any

import griffe

_SHARED = re.compile(r"^( +)(\w+(?:, \w+)+):( .*(?:\n\1 +.*)*)", flags=re.M)


def one_name_a_line(docstring: str) -> str:
    """`low, high: bounds` as `low: bounds` and `high: bounds`."""
    return _SHARED.sub(lambda match: "\n".join(f"{match[1]}{name}:{match[3]}" for name in match[2].split(", ")), docstring)


class SharedDescriptions(griffe.Extension):
    """Rewrites the docstrings of classes."""

    def on_class_instance(self, *, cls: griffe.Class, **_: Any) -> None:
        """Called for every class that is read."""
        if cls.docstring is not None:
            cls.docstring.value = one_name_a_line(cls.docstring.value)
