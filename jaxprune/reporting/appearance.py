"""How figures look: colours, markers, lines and hatches that stay apart in grey and for colour-blind readers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from jaxprune.reporting.summary import Series

INK, FAINT, PAPER = "#1b1f24", "#8a9099", "#fefefe"
# Okabe and Ito's palette without its yellow, which white paper swallows; the hatch is for bars (of lines: dots make large files).
SLOTS = (
    ("#0072b2", "o", "solid", ""),
    ("#d55e00", "s", (0, (5, 1.6)), "////"),
    ("#009e73", "^", (0, (6, 1.4, 1.2, 1.4)), "||||"),
    ("#e69f00", "D", (0, (1.4, 1.2)), "xxxx"),
    ("#cc79a7", "v", (0, (3, 1.2, 1.2, 1.2, 1.2, 1.2)), "\\\\\\\\"),
    ("#56b4e9", "P", (0, (8, 2)), "++++"),
    ("#7a6a00", "X", (0, (2.5, 2.5)), "--"),
)
PREFERRED = {"snip": 0, "grasp": 1, "magnitude": 2, "random": 3, "crop": 4, "synflow": 5, "force": 6, "lm": 1, "obd": 2, "qm": 4}
SPARE_MARKERS = ("<", ">", "p", "h", "*", "8", "d")


class Look(NamedTuple):
    """Colour, marker, line style and hatch of one series."""

    color: str
    marker: str
    line: Any
    hatch: str


def looks(series: Sequence[Series]) -> dict[Series, Look]:
    """A look for each series: a known criterion has its own in every figure (so has the first of several series of it); dense is in ink."""
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
            color, other = SLOTS[spare % len(SLOTS)][0], SLOTS[(spare + 3) % len(SLOTS)]
            found[each] = Look(color, SPARE_MARKERS[spare % len(SPARE_MARKERS)], other[2], other[3])
    return found | {each: Look(INK, "", "solid", "") for each in series if each.dense}


def legend_above(figure: Any, entries: Mapping[str, Any], **options: Any) -> None:
    """A legend above the panels of a figure with constrained layout, in no more columns than the figure is wide.

    Args:
      figure: without one.
      entries: {label: handle}.
      **options: passed to `Figure.legend`.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    renderer = FigureCanvasAgg(figure).get_renderer()
    for rows in range(1, len(entries) + 1):
        columns = -(-len(entries) // rows)
        legend = figure.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=columns, **options)
        if columns == 1 or legend.get_window_extent(renderer).width <= figure.bbox.width:
            return
        legend.remove()


@contextmanager
def drawing() -> Iterator[None]:
    """The settings every figure is made under; the caller's own settings come back at the end."""
    import matplotlib

    settings: dict[Any, Any] = {
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
