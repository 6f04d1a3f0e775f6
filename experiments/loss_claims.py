"""What pruning a trained network by loss models shows: rules over losses, by ratios and by ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import claims
import numpy as np

# Losses that differ by less than this factor are as good as each other.
FACTOR = 1.1
# A rank correlation between ±this is weak.
WEAK = 0.5

RATIO_RULE = (
    f"Losses are compared by their ratio, of which the logarithms are averaged; a factor below {FACTOR:g} is no difference. Where one task "
    "by itself supports a claim and another contradicts it, the runs cannot tell. A method's λ is, for each seed, the one that was best "
    "for the other seeds, so that a grid of λ is not paid with luck. A rank correlation "
    f"between −{WEAK:g} and {WEAK:g} is weak; it is taken over the methods of one seed, and averaged over seeds."
)


def best_by_the_others(values: np.ndarray) -> np.ndarray:
    """For each seed, the setting whose mean over the other seeds is smallest: [seeds, settings] -> int [seeds].

    With one seed, its own smallest. What is not finite counts as infinite.
    """
    values = np.where(np.isfinite(values), values, np.inf)
    if len(values) == 1:
        return np.argmin(values, axis=1)
    return np.array([np.argmin(np.delete(values, seed, axis=0).mean(axis=0)) for seed in range(len(values))])


def log_ratios(values: Sequence[float], reference: Sequence[float]) -> list[float]:
    """ln(value / reference) of each seed; seeds with a loss that is not finite and above zero are left out."""
    pairs = zip(values, reference, strict=True)
    return [math.log(a / b) for a, b in pairs if math.isfinite(a) and math.isfinite(b) and a > 0 and b > 0]


def rank_correlation(changes: Sequence[float], gaps: Sequence[float]) -> float:
    """Spearman's ρ between what pruning did to the loss and what is left of it after fine-tuning; NaN where either is constant."""
    from scipy import stats

    pairs = np.array([(c, g) for c, g in zip(changes, gaps, strict=True) if math.isfinite(c) and math.isfinite(g)])
    if len(pairs) < 3 or (pairs == pairs[0]).all(axis=0).any():
        return math.nan
    found: Any = stats.spearmanr(*pairs.T)
    return float(found.statistic)


def ratio_text(found: claims.Spread | None) -> str:
    """`0.43 times [0.30, 0.61]`, of logarithms of ratios."""
    if found is None:
        return "n/a"
    interval = f" [{math.exp(found.low):.3g}, {math.exp(found.high):.3g}]" if len(found.values) > 1 else ""
    return f"{math.exp(found.mean):.3g} times{interval}"


def ratio_sentence(claim: str, pairs: claims.Pairs, *, below: float = math.inf, above: float = 0.0) -> str:
    """One sentence on the claim that a ratio of losses lies between `above` and `below`, by the rule and `RATIO_RULE`.

    Args:
      claim: what is claimed.
      pairs: {task: logarithms of the ratio, of each seed}.
      below: where it says the ratio lies.
      above: likewise.
    """
    found = claims.spread_of(pairs)
    low = math.log(above) if above > 0 else -math.inf
    high = math.log(below) if math.isfinite(below) else math.inf
    outcome = claims.judge(found, low=low, high=high)
    alone = {task: claims.spread_of({task: values}) for task, values in pairs.items()}
    if {claims.SUPPORT, claims.CONTRADICT} <= {claims.judge(one, low=low, high=high) for one in alone.values()}:
        outcome = claims.CANNOT_TELL
    told = "".join(f"; {task} {ratio_text(one)}" for task, one in alone.items()) if len(alone) > 1 else ""
    return f"{claim}: our runs **{outcome}** ({ratio_text(found)}{told}; {claims.over(pairs)})."


def correlation_text(found: claims.Spread | None) -> str:
    """`0.31 [0.12, 0.48]`."""
    if found is None:
        return "n/a"
    interval = f" [{found.low:.2f}, {found.high:.2f}]" if len(found.values) > 1 else ""
    return f"{found.mean:.2f}{interval}".replace("-", "−")


def correlation_sentence(claim: str, correlations: Mapping[str, Sequence[float]]) -> str:
    """One sentence on the claim that a rank correlation is weak, {task: ρ of each seed}; NaN is left out."""
    known = {task: [value for value in values if math.isfinite(value)] for task, values in correlations.items()}
    found = claims.spread_of(known)
    outcome = claims.judge(found, low=-WEAK, high=WEAK)
    return f"{claim}: our runs **{outcome}** (ρ = {correlation_text(found)}; {claims.over(known)})."
