"""Figures as SVG for a page: light, with real text, following the page's light or dark theme."""

from __future__ import annotations

import io
import re
from html import escape
from typing import Any

from jaxprune.reporting.appearance import FAINT, INK, PAPER, SLOTS

# A dark page needs lighter inks; the page defines these variables, a file on its own falls back to the colours it was drawn in.
VARIABLES = {INK: "ink", FAINT: "faint", PAPER: "paper"} | {slot[0]: f"series-{place}" for place, slot in enumerate(SLOTS)}


def to_svg(figure: Any, *, prefix: str = "figure", title: str = "", description: str = "") -> str:
    """The figure as one light, deterministic `<svg>` element with real text, to stand inline in a page or alone in a file.

    Args:
      figure: a matplotlib Figure.
      prefix: put before every id, so that several figures can share a page.
      title: a short name, read out by screen readers.
      description: what the figure shows, in words.
    """
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": prefix}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"<metadata>.*?</metadata>\s*|<!--.*?-->\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"(?<=\s)(d|x|y|points|transform|width|height)=\"[^\"]*\"", _rounded, text)
    text = re.sub(r'\b(?:xlink:)?href="#([^"]+)"', rf'href="#{prefix}-\1"', text)
    text = text.replace('xlink:href="data:', 'href="data:')
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", text)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', text)
    for color, variable in VARIABLES.items():
        text = text.replace(color, f"var(--{variable}, {color})")
    text = re.sub(r"'DejaVu Sans'", "system-ui, 'DejaVu Sans', sans-serif", text)
    text = re.sub(r"\n\s*", "\n", text)
    opening = re.match(r"<svg[^>]*>", text)
    viewbox = re.search(r'viewBox="([^"]+)"', text)
    if opening is None or viewbox is None:
        raise ValueError("the SVG has no <svg> element with a viewBox; was it made by another backend than matplotlib's?")
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{viewbox.group(1)}" width="100%" role="img" '
        f'aria-labelledby="{prefix}-title {prefix}-description"><title id="{prefix}-title">{escape(title)}</title>'
        f'<desc id="{prefix}-description">{escape(description)}</desc>'
    )
    return head + text[opening.end() :]


def _rounded(match: re.Match[str]) -> str:
    """Coordinates to a hundredth of a point."""
    return re.sub(r"-?\d+\.\d{3,}", lambda found: f"{float(found.group()):.2f}".rstrip("0").rstrip("."), match.group())
