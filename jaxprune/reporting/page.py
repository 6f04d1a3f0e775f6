"""Pieces of a self-contained HTML page: its style, tables, figures and definition lists, everything escaped."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from jaxprune.reporting.stylesheet import STYLE


def page(title: str, body: Iterable[str]) -> str:
    """A whole document in one file that asks for nothing else."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n'
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def words(text: str) -> str:
    """A sentence, escaped, whose per cent and multiplication signs stay with their numbers."""
    return escape(text).replace(" %", "&nbsp;%").replace(" × ", "&nbsp;×&nbsp;")


def figure(svg: str, caption: str) -> str:
    """An inline figure with its caption."""
    return f'<figure>\n<div class="scroll">{svg}</div>\n<figcaption>{words(caption)}</figcaption>\n</figure>'


def table(caption: str, headers: Sequence[str], rows: Iterable[tuple[bool, Sequence[str]]], *, prose: bool = False) -> str:
    """A table that scrolls by itself on a narrow screen.

    Args:
      caption: above it.
      headers: of the columns.
      rows: (whether a rule goes above, the cells as HTML that is already escaped); the first cell is the row's header.
      prose: whether the cells are words, set to the left and broken into lines, or numbers.
    """
    told = escape(caption, quote=True)
    opening = f"<table{' class=prose' if prose else ''}>"
    lines = [f'<p class="caption">{told}</p><div class="scroll" role="region" tabindex="0" aria-label="{told}">{opening}']
    lines.append("<thead><tr>" + "".join(f'<th scope="col">{escape(header)}</th>' for header in headers) + "</tr></thead><tbody>")
    for ruled, (head, *cells) in rows:
        opening = f'<tr{" class=first" if ruled else ""}><th scope="row">{head}</th>'
        lines.append(opening + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    lines.append("</tbody></table></div>")
    return "\n".join(lines)


def definitions(values: Mapping[str, Any]) -> str:
    """Names and values; nested mappings are flattened to dotted names, lists are joined by commas."""
    lines = [f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in _flat(values, "")]
    return "<dl>" + "\n".join(lines) + "</dl>"


def download(content: bytes, filename: str, kind: str, label: str) -> str:
    """A link that saves `content`, which travels inside it."""
    encoded = base64.b64encode(content).decode()
    return f'<a download="{escape(filename, quote=True)}" href="data:{kind};base64,{encoded}">{escape(label)}</a>'


def _flat(values: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, (list, tuple)):
            yield f"{prefix}{key}", ", ".join(str(item) for item in value)
        else:
            yield f"{prefix}{key}", str(value)
