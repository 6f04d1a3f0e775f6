"""From records, one row per run and evaluation, to runs, to cells: what the seeds of one setting returned."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from jaxprune.reporting import naming
from jaxprune.reporting.statistics import Ratio, Spread, pooled_spread, ratio_of_means, spread

REQUIRED = ("run_id", "algo", "criterion", "sparsity", "seed", "step", "return_mean")
# What sets one line of a figure apart from another beside its criterion; a column that is missing, or the same everywhere, is not shown.
SERIES = ("structure", "when", "allocation", "budget", "rounds", "networks")
LAST_EVALUATIONS = 3
ABSENT = (None, "", "n/a")  # what stands for no number in a table

Record = Mapping[str, Any]


class Series(NamedTuple):
    """One line of a figure: a criterion, and the settings that set it apart (empty for the dense reference)."""

    criterion: str
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def dense(self) -> bool:
        """Whether this is the unpruned reference."""
        return self.criterion == "dense"


@dataclasses.dataclass(frozen=True)
class Run:
    """One seed of one setting: its evaluations in order of their step, returns in the environment's units, scores normalised or None.

    A run that was trained and never evaluated (`evaluated` is false) has NaN for returns and is not failed for it. `pruned_at` is the
    update after which it was pruned, 0 before the first: what it returned until then is dense, and counts in no figure of the run.
    """

    run_id: str
    algo: str
    dataset: str
    env_id: str
    series: Series
    sparsity: float
    seed: int
    kept: int | None
    total: int | None
    steps: tuple[int, ...]
    returns: tuple[float, ...]
    scores: tuple[float, ...] | None
    wall_s: float | None
    failure: str | None
    evaluated: bool = True
    pruned_at: int = 0

    @property
    def final(self) -> float:
        """The mean return of the last three evaluations of the pruned network (of fewer where there are fewer): one alone is noise."""
        return _mean(self._pruned(self.returns)[-LAST_EVALUATIONS:])

    @property
    def best(self) -> float:
        """The best return of any evaluation of the pruned network; reported apart from `final`, never instead of it."""
        return max(self._pruned(self.returns))

    @property
    def final_score(self) -> float | None:
        """The mean normalised score of the last three evaluations of the pruned network."""
        return None if self.scores is None else _mean(self._pruned(self.scores)[-LAST_EVALUATIONS:])

    def _pruned(self, values: tuple[float, ...]) -> tuple[float, ...]:
        return values[-trained_on(self.steps, self.pruned_at) :]


@dataclasses.dataclass(frozen=True)
class Cell:
    """All seeds of one algorithm, data set, series and sparsity; failed runs are kept by name and enter no number."""

    algo: str
    datasets: tuple[str, ...]
    series: Series
    sparsity: float
    runs: tuple[Run, ...]
    failed: tuple[Run, ...]
    returns: Spread | None  # None where every run failed or none was evaluated, and for a cell pooled over data sets
    best: Spread | None
    scores: Spread | None  # None where a run has no normalised score
    of_dense: Ratio | None  # of the mean return; for a pooled cell, of the mean score
    wall_s: float | None  # mean training time, seconds

    @property
    def kept(self) -> tuple[int, int] | None:
        """The fewest and the most weights kept by a run."""
        counts = [run.kept for run in self.runs + self.failed if run.kept is not None]
        return (min(counts), max(counts)) if counts else None

    @property
    def total(self) -> int | None:
        """The number of prunable weights, if it is the same for all runs."""
        totals = {run.total for run in self.runs + self.failed}
        return totals.pop() if len(totals) == 1 else None


def trained_on(steps: Sequence[float], pruned_at: float) -> int:
    """How many of a run's evaluations, the last ones, are of its pruned network in training; 1 where none is, at least.

    An evaluation at the very update of pruning is left out: nothing has been learned since.
    """
    return max(1, sum(step > pruned_at for step in steps))


def runs_of(records: Iterable[Record]) -> list[Run]:
    """The runs, in order of appearance. Of two rows of a run with the same step the later one counts.

    Where no row of the table has a return, the sweep did not evaluate; where some have, a run without one has failed.

    Raises:
      ValueError: if there are no records, or a row lacks a column or holds something else than a number; the message names row and column.
    """
    rows: dict[str, list[tuple[int, Record]]] = {}
    for index, record in enumerate(records):
        if missing := [column for column in REQUIRED if column not in record]:
            raise ValueError(
                f"row {index} has no column {', '.join(missing)}; expected one row per run and evaluation with {', '.join(REQUIRED)}"
            )
        rows.setdefault(str(record["run_id"]), []).append((index, record))
    if not rows:
        raise ValueError("no records: expected one row per run and evaluation, got none; has any run of the sweep been evaluated yet?")
    evaluated = any(record["return_mean"] not in ABSENT for numbered in rows.values() for _, record in numbered)
    return [_run(run_id, numbered, evaluated) for run_id, numbered in rows.items()]


def cells_of(runs: Sequence[Run]) -> list[Cell]:
    """One cell per algorithm, data set, series and sparsity, in order of appearance but dense first and sparsities ascending.

    Raises:
      ValueError: if two runs of one cell share a seed, which would count one seed twice.
    """
    cells = []
    for (algo, dataset), members in _grouped(runs, lambda run: (run.algo, run.dataset)).items():
        settings = _settings(members)
        reference = [run for (series, _), group in settings.items() if series.dense for run in group if run.failure is None]
        for (series, sparsity), group in settings.items():
            _check_seeds(group)
            fine = tuple(run for run in group if run.failure is None)
            returned = [run for run in fine if run.evaluated]
            returns = spread([run.final for run in returned]) if returned else None
            scores = [run.final_score for run in returned]
            known = [score for score in scores if score is not None and math.isfinite(score)]
            cells.append(
                Cell(
                    algo=algo,
                    datasets=(dataset,),
                    series=series,
                    sparsity=sparsity,
                    runs=fine,
                    failed=tuple(run for run in group if run.failure is not None),
                    returns=returns,
                    best=spread([run.best for run in returned]) if returned else None,
                    scores=spread(known) if known and len(known) == len(scores) else None,
                    of_dense=ratio_of_means(returns.values, [run.final for run in reference]) if returns and reference else None,
                    wall_s=_mean_known(run.wall_s for run in fine),
                )
            )
    return cells


def pooled_cells(runs: Sequence[Run]) -> list[Cell]:
    """Cells of normalised scores pooled over data sets, stratified by data set.

    A setting counts only where it has a score on EVERY data set its algorithm was run on: pooled settings could not be compared otherwise.
    """
    cells = []
    for algo, members in _grouped(runs, lambda run: run.algo).items():
        datasets = tuple(dict.fromkeys(run.dataset for run in members))
        found: dict[tuple[Series, float], tuple[tuple[Run, ...], dict[str, list[float]]]] = {}
        for key, group in _settings(members).items():
            scores: dict[str, list[float]] = {dataset: [] for dataset in datasets}
            for run in group:
                if run.failure is None and (score := run.final_score) is not None and math.isfinite(score):
                    scores[run.dataset].append(score)
            if all(scores.values()):
                found[key] = (tuple(group), scores)
        reference = next((scores for (series, _), (_, scores) in found.items() if series.dense), None)
        for (series, sparsity), (group, scores) in found.items():
            pooled = pooled_spread(scores)
            dense = pooled_spread(reference) if reference else None
            cells.append(
                Cell(
                    algo=algo,
                    datasets=datasets,
                    series=series,
                    sparsity=sparsity,
                    runs=tuple(run for run in group if run.failure is None),
                    failed=tuple(run for run in group if run.failure is not None),
                    returns=None,
                    best=None,
                    scores=pooled,
                    of_dense=Ratio(pooled.mean / dense.mean) if dense and dense.mean > 0 else None,
                    wall_s=_mean_known(run.wall_s for run in group if run.failure is None),
                )
            )
    return cells


def series_labels(series: Iterable[Series]) -> dict[Series, str]:
    """A name for each series: its criterion, and whichever settings differ among the series given, for example `CroP (units, early)`."""
    pruned = list(dict.fromkeys(series))
    seen: dict[str, set[str]] = {}
    for each in pruned:
        for column, value in each.settings:
            seen.setdefault(column, set()).add(value)
    labels = {}
    for each in pruned:
        told = [
            value if column in ("structure", "when") else f"{column} {value}" for column, value in each.settings if len(seen[column]) > 1
        ]
        labels[each] = naming.name(each.criterion) + (f" ({', '.join(told)})" if told else "")
    return labels


def _run(run_id: str, numbered: list[tuple[int, Record]], evaluated: bool) -> Run:
    first = numbered[0][1]
    dataset = str(first.get("dataset") or first.get("env_id") or "")
    criterion = str(first["criterion"])
    settings = (
        () if criterion == "dense" else tuple((column, str(first[column])) for column in SERIES if first.get(column) not in (None, ""))
    )
    by_step = {_number(record, "step", index): (index, record) for index, record in numbered}
    evaluations = [by_step[step] for step in sorted(by_step, key=lambda step: (math.isnan(step), step))]
    returns = tuple(_number(record, "return_mean", index) for index, record in evaluations)
    scores = tuple(_number(record, "score", index) for index, record in evaluations)
    steps = tuple(0 if math.isnan(step) else int(step) for step in (_number(record, "step", index) for index, record in evaluations))
    times = [seconds for index, record in evaluations if math.isfinite(seconds := _number(record, "wall_s", index))]
    # The last row: those before a late pruning tell of the dense network.
    index, last = evaluations[-1]
    counts = {column: _number(last, column, index) for column in ("kept", "total", "pruned_at")}
    return Run(
        run_id=run_id,
        algo=str(first["algo"]),
        dataset=dataset,
        env_id=str(first.get("env_id") or ""),
        series=Series(criterion, settings),
        sparsity=_number(first, "sparsity", numbered[0][0]),
        seed=int(_number(first, "seed", numbered[0][0])),
        kept=None if math.isnan(counts["kept"]) else int(counts["kept"]),
        total=None if math.isnan(counts["total"]) else int(counts["total"]),
        steps=steps,
        returns=returns,
        scores=scores if all(math.isfinite(score) for score in scores) else None,
        wall_s=max(times) if times else None,
        failure=_failure([record for _, record in evaluations], steps, returns, evaluated),
        evaluated=evaluated,
        pruned_at=0 if math.isnan(counts["pruned_at"]) else int(counts["pruned_at"]),
    )


def _failure(evaluations: list[Record], steps: tuple[int, ...], returns: tuple[float, ...], evaluated: bool) -> str | None:
    """Why a run is not to be counted, or None."""
    for record in evaluations:
        status = str(record.get("status") or "ok")
        if status != "ok":
            return str(record.get("error") or record.get("reason") or f"status is {status}")
    for step, value in zip(steps, returns, strict=True) if evaluated else ():
        if not math.isfinite(value):
            return f"there is no return at step {step:,}" if math.isnan(value) else f"the return is {value} at step {step:,}"
    return None


def _number(record: Record, column: str, index: int) -> float:
    """A number, NaN where the table has none (None, an empty string, `n/a`)."""
    value = record.get(column)
    if value in ABSENT:
        if column in ("sparsity", "seed"):
            raise ValueError(f"row {index}: expected a number in column {column}, got {value!r}")
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"row {index}: expected a number in column {column}, got {value!r}") from None


def _settings(runs: Sequence[Run]) -> dict[tuple[Series, float], list[Run]]:
    groups = _grouped(runs, lambda run: (run.series, run.sparsity))
    order = {series: place for place, series in enumerate(dict.fromkeys(run.series for run in runs))}
    return dict(sorted(groups.items(), key=lambda item: (not item[0][0].dense, order[item[0][0]], item[0][1])))


def _grouped(runs: Sequence[Run], key: Any) -> dict[Any, list[Run]]:
    groups: dict[Any, list[Run]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return groups


def _check_seeds(group: list[Run]) -> None:
    seen: dict[int, str] = {}
    for run in group:
        if run.seed in seen:
            raise ValueError(
                f"runs {seen[run.seed]} and {run.run_id} are both seed {run.seed} of {run.algo}, {run.dataset}, {run.series.criterion} "
                f"at sparsity {run.sparsity:g}; split the records by the setting that differs, "
                f"or give it one of the columns {', '.join(SERIES)}"
            )
        seen[run.seed] = run.run_id


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _mean_known(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _mean(known) if known else None
