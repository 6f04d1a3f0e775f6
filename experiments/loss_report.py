"""Tables and verdicts of `loss_modelling.py`, from its rows."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import claims
import loss_claims
import numpy as np
from claims import spread_of

from jaxprune.reporting import naming
from jaxprune.reporting.tables import markdown_table

Rows = list[dict[str, Any]]

COLUMNS = (
    *("task", "seed", "moment", "sparsity", "criterion", "rounds", "strength", "updates", "loss_before", "loss_after", "change"),
    *("held_out_loss_after", "held_out_loss_tuned", "held_out_loss_gap", "error_after", "error_tuned", "error_gap"),
    *("return_tuned", "return_gap"),
)
MOMENT_NAMES = {"init": "at initialisation", "half": "half-trained", "converged": "converged"}


class Case(NamedTuple):
    """One network at one moment, pruned to one sparsity."""

    task: str
    sparsity: float
    moment: str

    @property
    def name(self) -> str:
        """Of the task that a claim is judged on."""
        return f"{self.task} {naming.percent(self.sparsity)}"


class Results:
    """The rows, found by case, method and seed.

    Attributes:
      cases: in order.
      seeds: in order.
    """

    def __init__(self, rows: Rows):
        self.rows = rows
        self.cases = [Case(*key) for key in dict.fromkeys((row["task"], row["sparsity"], row["moment"]) for row in rows)]
        self.seeds = sorted({row["seed"] for row in rows})
        self._found = {(*self._case(row), row["criterion"], row["rounds"], row["strength"], row["seed"]): row for row in rows}

    @staticmethod
    def _case(row: dict[str, Any]) -> Case:
        return Case(row["task"], row["sparsity"], row["moment"])

    def at(self, moment: str) -> list[Case]:
        """Cases of one moment."""
        return [case for case in self.cases if case.moment == moment]

    def rounds(self, criterion: str) -> list[int]:
        """How many rounds it was tried in, ascending."""
        return sorted({row["rounds"] for row in self.rows if row["criterion"] == criterion})

    def strengths(self, criterion: str, rounds: int) -> list[float]:
        """λ, or OBS's damping, ascending."""
        return sorted({row["strength"] for row in self.rows if (row["criterion"], row["rounds"]) == (criterion, rounds)})

    def values(self, case: Case, criterion: str, rounds: int, column: str, strengths: list[float]) -> np.ndarray:
        """[seeds, strengths]."""
        return np.array([[self._found[(*case, criterion, rounds, s, seed)][column] for s in strengths] for seed in self.seeds], float)

    def best(
        self, case: Case, criterion: str, rounds: int | None = None, column: str = "loss_after", *, positive: bool = False
    ) -> list[float]:
        """A column of each seed's row, at the strength whose loss after pruning was best for the other seeds.

        Args:
          case: which network.
          criterion: which method.
          rounds: as many; the most there were by default.
          column: which.
          positive: leave out a strength of 0.
        """
        rounds = self.rounds(criterion)[-1] if rounds is None else rounds
        strengths = [s for s in self.strengths(criterion, rounds) if s > 0 or not positive]
        chosen = loss_claims.best_by_the_others(self.values(case, criterion, rounds, "loss_after", strengths))
        return self.values(case, criterion, rounds, column, strengths)[np.arange(len(self.seeds)), chosen].tolist()

    def fixed(self, case: Case, criterion: str, rounds: int, strength: float, column: str = "loss_after") -> list[float]:
        """A column of each seed's row."""
        return self.values(case, criterion, rounds, column, [strength])[:, 0].tolist()

    def correlations(self, case: Case, column: str, sign: float = 1.0) -> list[float]:
        """ρ of each seed between change and gap, over the methods."""
        own = [row for row in self.rows if self._case(row) == case and row["criterion"] != "dense" and row.get(column) is not None]
        found = []
        for seed in self.seeds:
            here = [row for row in own if row["seed"] == seed]
            found.append(loss_claims.rank_correlation([row["change"] for row in here], [sign * row[column] for row in here]))
        return found


def _averaged(pairs: list[list[float]]) -> list[float]:
    """The mean over methods of each seed's logarithm."""
    return np.mean(pairs, axis=0).tolist() if pairs else []


def verdicts(results: Results) -> list[str]:
    """One sentence for each claim."""
    best, fixed, ratio = results.best, results.fixed, loss_claims.log_ratios
    converged, half = results.at("converged"), results.at("half")
    most, fewest = results.rounds("lm")[-1], results.rounds("lm")[0]
    surgeon = results.rounds("obs")
    factor = loss_claims.FACTOR

    def pairs(cases, of):
        return {case.name: of(case) for case in cases}

    def models(of):
        return lambda case: _averaged([of(case, criterion) for criterion in ("lm", "qm")])

    told = [
        loss_claims.ratio_sentence(
            f"Rounds help: LM and QM leave a lower loss in {most} rounds than in {fewest}, converged networks",
            pairs(converged, models(lambda case, c: ratio(best(case, c, most), best(case, c, fewest)))),
            below=1,
        ),
        loss_claims.ratio_sentence(
            f"Rounds help OBS: a lower loss in {surgeon[-1]} rounds than in {surgeon[0]}, converged networks",
            pairs(converged, lambda case: ratio(best(case, "obs", surgeon[-1]), best(case, "obs", surgeon[0]))),
            below=1,
        ),
    ]
    if len(results.strengths("lm", most)) > 1 and 0.0 in results.strengths("lm", most):
        claim = f"Staying near helps: with λ > 0 LM and QM leave a lower loss in {most} rounds than with λ = 0, converged networks"
        of = models(lambda case, c: ratio(best(case, c, most, positive=True), fixed(case, c, most, 0.0)))
        told.append(loss_claims.ratio_sentence(claim, pairs(converged, of), below=1))
    told += [
        loss_claims.ratio_sentence(
            f"LM keeps the loss as well as QM (at most {factor:g} times as high), {most} rounds, converged networks",
            pairs(converged, lambda case: ratio(best(case, "lm", most), best(case, "qm", most))),
            below=factor,
        ),
        *(
            loss_claims.ratio_sentence(
                f"The gradient counts: QM leaves a lower loss than OBD, {most} rounds, {MOMENT_NAMES[cases[0].moment]}",
                pairs(cases, lambda case: ratio(best(case, "qm", most), best(case, "obd", most))),
                below=1,
            )
            for cases in (half, converged)
            if cases
        ),
        _makes_up(results, half, converged, most),
        loss_claims.ratio_sentence(
            f"QM in {most} rounds leaves a lower loss than magnitude, converged networks",
            pairs(converged, lambda case: ratio(best(case, "qm", most), fixed(case, "magnitude", 1, 0.0))),
            below=1,
        ),
        loss_claims.ratio_sentence(
            f"OBS in {surgeon[-1]} rounds leaves a lower loss than QM in {most}, converged networks",
            pairs(converged, lambda case: ratio(best(case, "obs"), best(case, "qm", most))),
            below=1,
        ),
        loss_claims.ratio_sentence(
            f"Fine-tuning erases it: the held-out losses of magnitude and QM end within a factor of {factor:g}, converged networks",
            pairs(
                converged,
                lambda case: ratio(
                    fixed(case, "magnitude", 1, 0.0, "held_out_loss_tuned"), best(case, "qm", most, column="held_out_loss_tuned")
                ),
            ),
            above=1 / factor,
            below=factor,
        ),
        loss_claims.correlation_sentence(
            "The loss change after pruning says little of the gap in held-out loss after fine-tuning, converged networks",
            {case.name: results.correlations(case, "held_out_loss_gap") for case in converged},
        ),
    ]
    return [text for text in told if text]


def _makes_up(results: Results, half: list[Case], converged: list[Case], most: int) -> str:
    """Is the gradient term's gain larger where the network has not converged?"""
    pairs = {}
    for case in half:
        if (other := case._replace(moment="converged")) in converged:
            early, late = (loss_claims.log_ratios(results.best(c, "qm", most), results.best(c, "obd", most)) for c in (case, other))
            if len(early) == len(late):
                pairs[case.name] = [a - b for a, b in zip(early, late, strict=True)]
    claim = "The gradient term makes up for not having converged: QM's loss over OBD's is lower half-trained than converged"
    return loss_claims.ratio_sentence(claim, pairs, below=1) if pairs else ""


def _geometric(values: list[float]) -> float | None:
    good = [value for value in values if math.isfinite(value) and value > 0]
    return math.exp(float(np.mean(np.log(good)))) if good else None


def _methods(results: Results) -> dict[str, tuple[str, int]]:
    """{heading: (criterion, rounds)}."""
    found = {"magnitude": ("magnitude", 1)}
    for criterion in ("lm", "qm", "obd", "obs"):
        found |= {f"{naming.name(criterion)} {rounds}": (criterion, rounds) for rounds in results.rounds(criterion)}
    return found


def loss_table(results: Results, column: str, dense: tuple[str, str]) -> list[str]:
    """Geometric means over seeds of a loss of each method, at its best λ; `dense` is a heading and the dense rows' column."""
    rows = []
    for case in results.cases:
        row: dict[str, Any] = {"task": case.task, "removed": naming.percent(case.sparsity), "moment": case.moment}
        row[dense[0]] = _geometric(results.fixed(case, "dense", 1, 0.0, dense[1]))
        for heading, (criterion, rounds) in _methods(results).items():
            row[heading] = _geometric(results.best(case, criterion, rounds, column))
        rows.append(row)
    return markdown_table(list(rows[0]), rows)


def measure_table(results: Results) -> list[str]:
    """Mean held-out error (in %) or return after fine-tuning, at the λ of the best loss."""
    rows = []
    for case in results.cases:
        column = next((c for c in ("error_tuned", "return_tuned") if _has(results, case, c)), None)
        if column is None:
            continue
        scale = 100 if column == "error_tuned" else 1
        row: dict[str, Any] = {"task": case.task, "removed": naming.percent(case.sparsity), "moment": case.moment}
        row["measure"] = "error, %" if scale == 100 else "return"
        row["dense"] = scale * float(np.mean(results.fixed(case, "dense", 1, 0.0, column)))
        for heading, (criterion, rounds) in _methods(results).items():
            row[heading] = scale * float(np.mean(results.best(case, criterion, rounds, column)))
        rows.append(row)
    return markdown_table(list(rows[0]), rows) if rows else []


def _has(results: Results, case: Case, column: str) -> bool:
    return any(row.get(column) is not None for row in results.rows if row["task"] == case.task)


def correlation_table(results: Results) -> list[str]:
    """Spearman's ρ between change and gap, over methods, averaged over seeds."""
    rows = []
    for case in results.cases:
        row: dict[str, Any] = {"task": case.task, "removed": naming.percent(case.sparsity), "moment": case.moment}
        for heading, column, sign in (("held-out loss", "held_out_loss_gap", 1), ("error", "error_gap", 1), ("−return", "return_gap", -1)):
            known = [value for value in results.correlations(case, column, sign) if math.isfinite(value)]
            row[f"ρ with the gap in {heading}"] = loss_claims.correlation_text(spread_of({case.name: known}))
        rows.append(row)
    return markdown_table(list(rows[0]), rows)


def report(rows: Rows, figures: dict[str, str], notes: list[str]) -> list[str]:
    """The lines of the results' README.

    Args:
      rows: of all parts.
      figures: {file: what it shows}.
      notes: paragraphs on how it was done.
    """
    results = Results(rows)
    lines = ["# Loss modelling: what pruning a trained network does to its loss", ""]
    lines += ["What our runs say:", "", *claims.bullets(verdicts(results)), "", f"{claims.RULE} {loss_claims.RATIO_RULE}", ""]
    for path, caption in figures.items():
        lines += [f"![{caption}]({path})", "", f"{caption}.", ""]
    lines += ["## Training loss after pruning", "", *loss_table(results, "loss_after", ("before", "loss_before")), ""]
    lines += ["## Held-out loss after fine-tuning", "", *loss_table(results, "held_out_loss_tuned", ("dense", "held_out_loss_tuned")), ""]
    if measured := measure_table(results):
        lines += ["## Error and return after fine-tuning", "", *measured, ""]
    lines += ["## Rank correlation of change and gap", "", *correlation_table(results), ""]
    for note in notes:
        lines += [note, ""]
    return lines[:-1]
