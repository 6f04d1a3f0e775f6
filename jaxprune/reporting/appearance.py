"""How figures look: colours, markers and lines that stay apart in grey and for colour-blind readers, and SVG that follows a page's theme."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any, NamedTuple

from jaxprune.reporting.summary import Series

INK, FAINT, PAPER = "#1b1f24", "#8a9099", "#fefefe"
# Okabe and Ito's palette without its yellow, which white paper swallows; the hatch is for bars.
SLOTS = (
    ("#0072b2", "o", "solid", ""),
    ("#d55e00", "s", (0, (5, 1.6)), "////"),
    ("#009e73", "^", (0, (6, 1.4, 1.2, 1.4)), "...."),
    ("#e69f00", "D", (0, (1.4, 1.2)), "xxxx"),
    ("#cc79a7", "v", (0, (3, 1.2, 1.2, 1.2, 1.2, 1.2)), "\\\\\\\\"),
    ("#56b4e9", "P", (0, (8, 2)), "++++"),
    ("#7a6a00", "X", (0, (2.5, 2.5)), "oo"),
)
PREFERRED = {"snip": 0, "grasp": 1, "magnitude": 2, "random": 3, "crop": 4, "synflow": 5, "force": 6, "lm": 1, "obd": 2, "qm": 4}
SPARE_MARKERS = ("<", ">", "p", "h", "*", "8", "d")
# A dark page needs lighter inks; the page defines these variables, a file on its own falls back to the colours above.
VARIABLES = {INK: "ink", FAINT: "faint", PAPER: "paper"} | {slot[0]: f"series-{place}" for place, slot in enumerate(SLOTS)}


class Look(NamedTuple):
    """Colour, marker, line style and hatch of one series."""

    color: str
    marker: str
    line: Any
    hatch: str


def looks(series: Sequence[Series]) -> dict[Series, Look]:
    """A look for each series: a known criterion has the same one in every figure unless two series share a criterion; dense is drawn in ink."""
    found: dict[Series, Look] = {}
    pruned = [each for each in dict.fromkeys(series) if not each.dense]
    taken: set[int] = set()
    for each in pruned:
        slot = PREFERRED.get(each.criterion)
        if slot is not None and slot not in taken:
            taken.add(slot)
            found[each] = Look(*SLOTS[slot])
    free = [slot for slot in range(len(SLOTS)) if slot not in taken]
    for place, each in enumerate(each for each in pruned if each not in found):
        if place < len(free):
            found[each] = Look(*SLOTS[free[place]])
        else:
            spare = place - len(free)
            color, _, line, hatch = SLOTS[spare % len(SLOTS)]
            found[each] = Look(color, SPARE_MARKERS[spare % len(SPARE_MARKERS)], line, hatch)
    return found | {each: Look(INK, "", "solid", "") for each in series if each.dense}


@contextmanager
def drawing() -> Iterator[None]:
    """The settings every figure is made under; the caller's own settings come back at the end."""
    import matplotlib

    settings = {
        "font.family": ["DejaVu Sans"],
        "font.size": 9,
        "axes.edgecolor": FAINT,
        "axes.labelcolor": INK,
        "axes.linewidth": 0.8,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "axes.titlesize": 9.5,
        "axes.titleweight": "bold",
        "axes.axisbelow": True,
        "grid.color": FAINT,
        "grid.alpha": 0.25,
        "grid.linewidth": 0.6,
        "hatch.linewidth": 0.6,
        "legend.frameon": False,
        "text.color": INK,
        "xtick.color": FAINT,
        "ytick.color": FAINT,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "figure.facecolor": PAPER,
        "axes.facecolor": "none",
        "savefig.facecolor": PAPER,
    }
    with matplotlib.rc_context(settings):
        yield


def svg(figure: Any, *, prefix: str = "figure", title: str = "", description: str = "") -> str:
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
    width = viewbox.group(1).split()[2]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{viewbox.group(1)}" width="100%" style="max-width: {float(width):.0f}pt" role="img" '
        f'aria-labelledby="{prefix}-title {prefix}-description"><title id="{prefix}-title">{escape(title)}</title>'
        f'<desc id="{prefix}-description">{escape(description)}</desc>'
    )
    return head + text[opening.end() :]


def _rounded(match: re.Match[str]) -> str:
    """Coordinates to a hundredth of a point."""
    return re.sub(r"-?\d+\.\d{3,}", lambda found: f"{float(found.group()):.2f}".rstrip("0").rstrip("."), match.group())
