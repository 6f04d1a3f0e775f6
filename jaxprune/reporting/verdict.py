"""The answer in words: how much of the dense return is kept, and whether the seeds can tell."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprune.reporting import naming
from jaxprune.reporting.statistics import Ratio
from jaxprune.reporting.summary import Cell, Series

USUAL_SPARSITY = 0.95  # the published claims are made there
# What a criterion has to beat to say that scoring helps, and what prunes only after training; so are the sanity checks of a criterion.
CONTROLS = ("random", "small_dense", "lottery_ticket", "gradual")


def subject(cell: Cell) -> str:
    """`BC on Hopper medium`."""
    where = naming.dataset_name(cell.datasets[0]) if len(cell.datasets) == 1 else f"{len(cell.datasets)} data sets, pooled"
    return f"{naming.name(cell.algo)} on {where}" if where else naming.name(cell.algo)


def headline(cells: Sequence[Cell], labels: dict[Series, str]) -> str:
    """One sentence about the cells of one algorithm and data set, at 95 % sparsity or the nearest there is."""
    at = told_sparsity(cells)
    best = best_cell(cells, at)
    dense = next((cell for cell in cells if cell.series.dense and cell.returns), None)
    about = subject(cells[0])
    if (trained := sum(len(cell.runs) for cell in cells)) and not any(cell.returns for cell in cells):
        return f"{about}: {trained} run{'' if trained == 1 else 's'} trained, not evaluated"
    if at is None or best is None or best.returns is None:
        if dense is None or dense.returns is None:
            return f"{about}: no run finished"
        return f"{about}: dense returns {naming.number(dense.returns.mean)}, nothing pruned finished ({dense.returns.label})"
    who, where, over = labels[best.series], f"at {naming.percent(at)} sparsity", best.returns.label
    if dense is None or dense.returns is None:
        return f"{about}: {who} returns {naming.number(best.returns.mean)} {where}, with no dense reference ({over})"
    if best.of_dense is None:
        return f"{about}: {who} returns {naming.number(best.returns.mean)} {where}, dense {naming.number(dense.returns.mean)} ({over})"
    control = _control(cells, at)
    beside = f", {labels[control.series]} {_share(control.of_dense)}" if control and control.of_dense and control is not best else ""
    return f"{about}: {who} keeps {_share(best.of_dense)} of the dense return {where}{beside} ({over})"


def caveats(cells: Sequence[Cell], labels: dict[Series, str]) -> list[str]:
    """What the seeds can and cannot tell at the sparsity of the headline, a sentence each."""
    at = told_sparsity(cells)
    best = best_cell(cells, at)
    if at is None or best is None or best.returns is None:
        return []
    told = []
    rivals = [cell for cell in cells if cell.sparsity == at and not cell.series.dense and cell.returns]
    who, where = labels[best.series], f"at {naming.percent(at)} sparsity"
    if len(scored := [cell for cell in rivals if not _controls(cell)]) > 1:
        told.append(f"{who} is the best of {len(scored)} criteria {where}, chosen after looking, so its figure is a little too good.")
    control = _control(cells, at)
    if control is not None and control is not best and control.returns:
        told.append(_told_apart(best, control, f"{who} and {labels[control.series]}"))
    dense = next((cell for cell in cells if cell.series.dense and cell.returns), None)
    if dense is not None and dense.returns:
        told.append(_told_apart(best, dense, f"{who} and dense"))
    return told


def overall(headlines: Sequence[tuple[Sequence[Cell], str]]) -> str:
    """The title of a report: its one headline, or what several have in common."""
    if len(headlines) == 1:
        return headlines[0][1]
    found = []
    for cells, _ in headlines:
        best = best_cell(cells, told_sparsity(cells))
        if best is not None and best.returns is not None and best.of_dense is not None:
            found.append((best, best.returns.label, best.of_dense.value))
    sparsities = {best.sparsity for best, *_ in found}
    if len(found) < len(headlines) or len(sparsities) > 1:
        return f"Dense against pruned: {', '.join(subject(cells[0]) for cells, _ in headlines)}"
    at = f"At {naming.percent(sparsities.pop())} sparsity the best criterion keeps"
    over = f" ({found[0][1]})" if len({label for _, label, _ in found}) == 1 else ""
    if len(found) > 3:
        low, high = min(value for *_, value in found), max(value for *_, value in found)
        return f"{at} {100 * low:.0f} to {100 * high:.0f} % of the dense return in {len(found)} pairs of algorithm and data set{over}"
    places = {best.datasets for best, *_ in found}
    where = f" on {naming.dataset_name(found[0][0].datasets[0])}" if len(places) == 1 else ""
    told = [f"{100 * value:.0f} % with {naming.name(best.algo) if where else subject(best)}" for best, _, value in found]
    first, *others = told
    return f"{at} {first.replace(' %', ' % of the dense return', 1)}{where}" + "".join(f", {other}" for other in others) + over


def told_sparsity(cells: Sequence[Cell]) -> float | None:
    """95 % if some pruned run finished there, else the sparsity nearest to it."""
    found = sorted({cell.sparsity for cell in cells if not cell.series.dense and cell.returns})
    return min(found, key=lambda sparsity: abs(sparsity - USUAL_SPARSITY)) if found else None


def best_cell(cells: Sequence[Cell], sparsity: float | None) -> Cell | None:
    """The pruned cell with the highest mean return at this sparsity, controls only where there is nothing else."""
    here = [cell for cell in cells if cell.sparsity == sparsity and not cell.series.dense and cell.returns]
    scored = [cell for cell in here if not _controls(cell)] or here
    return max(scored, key=lambda cell: cell.returns.mean if cell.returns else 0.0, default=None)


def _control(cells: Sequence[Cell], sparsity: float) -> Cell | None:
    return next((cell for cell in cells if cell.series.criterion == CONTROLS[0] and cell.sparsity == sparsity and cell.returns), None)


def _controls(cell: Cell) -> bool:
    return cell.series.criterion in CONTROLS or cell.series.criterion.endswith(("_shuffled", "_reinit", "_inverted"))


def _share(ratio: Ratio) -> str:
    interval = "" if ratio.low is None or ratio.high is None else f" ({100 * ratio.low:.0f} to {100 * ratio.high:.0f} %)"
    return f"{100 * ratio.value:.0f} %{interval}"


def _told_apart(one: Cell, other: Cell, names: str) -> str:
    if one.returns is None or other.returns is None:
        return ""
    if len(one.returns.values) == len(other.returns.values) == 1:
        return f"{names}: one seed each, which cannot tell them apart."
    what = "intervals" if one.returns.kind == other.returns.kind == "bootstrap" else "ranges"
    if one.returns.overlaps(other.returns):
        return f"{names}: the {what} overlap; these seeds do not tell them apart."
    return f"{names}: the {what} do not overlap."
