"""Pieces of a self-contained HTML page: its style, tables, figures and definition lists, everything escaped."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --faint: #6b7280; --paper: #fefefe; --rule: #dfe3e8; --wash: #f4f6f8; --meter: #0072b230; --bad: #b42318;
  --series-0: #0072b2; --series-1: #d55e00; --series-2: #009e73; --series-3: #e69f00; --series-4: #cc79a7; --series-5: #56b4e9; --series-6: #7a6a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --faint: #9aa3af; --paper: #15181c; --rule: #30363d; --wash: #1e2329; --meter: #4fa8e060;
  --bad: #ff8a7a; --series-0: #4fa8e0; --series-1: #ff8a3d; --series-2: #2cc79b; --series-3: #f2b632; --series-4: #e29bc2; --series-5: #8fd0f5; --series-6: #c4b13a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 62rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .75rem; text-wrap: balance; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 3rem 0 .5rem; padding-top: 1rem; border-top: 1px solid var(--rule); text-wrap: balance; }
h3 { font-size: 1rem; margin: 2rem 0 .5rem; }
p, ul { margin: .5rem 0; max-width: 46rem; } .lead { font-size: 1.05rem; } .small, figcaption { font-size: .85rem; color: var(--faint); }
a { color: var(--series-0); } .bad { color: var(--bad); }
figure { margin: 1.25rem 0; } figure svg { display: block; height: auto; overflow: visible; } figcaption { max-width: 46rem; margin-top: .5rem; }
.scroll { overflow-x: auto; margin: 1rem 0; } table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; width: 100%; }
caption { text-align: left; padding-bottom: .4rem; color: var(--faint); }
th, td { padding: .32rem .6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--rule); vertical-align: baseline; }
th:first-child, td:first-child { text-align: left; padding-left: 0; } thead th { font-weight: 600; color: var(--faint); border-bottom: 2px solid var(--rule); }
tbody th { font-weight: 400; } tr.first > * { border-top: 2px solid var(--rule); }
td small { color: var(--faint); margin-left: .3rem; } .meter { display: inline-block; min-width: 5.5rem; padding: 0 .3rem; border-radius: 3px; text-align: right;
  background: linear-gradient(to right, var(--meter) var(--share), transparent var(--share)); box-shadow: inset 0 0 0 1px var(--rule); }
pre { background: var(--wash); border: 1px solid var(--rule); border-radius: 6px; padding: .75rem 1rem; overflow-x: auto; font-size: .85rem;
  white-space: pre-wrap; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.25rem; font-size: .88rem; margin: .75rem 0; }
dt { color: var(--faint); } dd { margin: 0; overflow-wrap: anywhere; }
details { margin: .75rem 0; } summary { cursor: pointer; }
@media (max-width: 40rem) { body { padding: 1rem .9rem 3rem; } h1 { font-size: 1.35rem; } figure { overflow-x: auto; } figure svg { min-width: 34rem; } }
@media print { body { max-width: none; } h2 { break-after: avoid; } figure, tr { break-inside: avoid; } }
"""


def page(title: str, body: Iterable[str]) -> str:
    """A whole document in one file that asks for nothing else."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n'
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def figure(svg: str, caption: str) -> str:
    """An inline figure with its caption."""
    return f"<figure>\n{svg}\n<figcaption>{escape(caption)}</figcaption>\n</figure>"


def table(caption: str, headers: Sequence[str], rows: Iterable[tuple[bool, Sequence[str]]]) -> str:
    """A table that scrolls by itself on a narrow screen.

    Args:
      caption: above it.
      headers: of the columns.
      rows: (whether a rule goes above, the cells as HTML that is already escaped); the first cell is the row's header.
    """
    lines = [f'<div class="scroll"><table><caption>{escape(caption)}</caption>']
    lines.append("<thead><tr>" + "".join(f'<th scope="col">{escape(header)}</th>' for header in headers) + "</tr></thead><tbody>")
    for ruled, (head, *cells) in rows:
        lines.append(
            f'<tr{" class=first" if ruled else ""}><th scope="row" style="text-align: left">{head}</th>'
            + "".join(f"<td>{cell}</td>" for cell in cells)
            + "</tr>"
        )
    lines.append("</tbody></table></div>")
    return "\n".join(lines)


def definitions(values: Mapping[str, Any]) -> str:
    """Names and values; nested mappings are flattened to dotted names, lists are joined by commas."""
    lines = [f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in _flat(values, "")]
    return "<dl>" + "\n".join(lines) + "</dl>"


def download(text: str, filename: str, kind: str, label: str) -> str:
    """A link that saves `text`, which travels inside it."""
    encoded = base64.b64encode(text.encode()).decode()
    return f'<a download="{escape(filename, quote=True)}" href="data:{kind};charset=utf-8;base64,{encoded}">{escape(label)}</a>'


def _flat(values: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, (list, tuple)):
            yield f"{prefix}{key}", ", ".join(str(item) for item in value)
        else:
            yield f"{prefix}{key}", str(value)
