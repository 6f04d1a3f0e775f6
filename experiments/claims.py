"""Whether runs support a claim: one stated rule over paired differences, the same in every experiment."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from jaxprune.reporting import naming
from jaxprune.reporting.statistics import FEWEST_SEEDS_FOR_INTERVALS, Spread, pooled_spread, spread

SUPPORT, CONTRADICT, CANNOT_TELL = "support it", "contradict it", "cannot tell"
# A loss or a gain of less than this fraction of the dense return is none.
MARGIN = 0.05

RULE = (
    "Rule: runs of one task and seed are paired. A claim is supported where the whole 95 % bootstrap interval of the mean difference lies "
    "where the claim says, contradicted where none of it does; else the runs cannot tell. With five seeds or more of every task, seeds are "
    "resampled within each task; with fewer, all pairs of all tasks are resampled together, so that tasks that differ widen the interval. "
    "Fewer than five pairs decide nothing, and so no single task does that has fewer than five seeds."
)
RETURNS_RULE = f"{RULE} The margin is {naming.percent(MARGIN)} of the dense return."

Returns = Mapping[str, Mapping[int, float]]  # {task: {seed: return}}
Pairs = Mapping[str, Sequence[float]]  # {task: difference of each seed}


def differences(arm: Returns, reference: Returns, dense: Returns) -> dict[str, list[float]]:
    """{task: arm − reference of every seed both have, as fractions of the task's mean dense return}.

    Left out are tasks without such a seed, and those whose mean dense return is not above zero: a fraction of it would say nothing.
    """
    found = {}
    for task, own in arm.items():
        seeds = sorted(set(own) & set(reference.get(task, {})))
        scale = float(np.mean(list(dense[task].values()))) if dense.get(task) else 0.0
        if seeds and scale > 0:
            found[task] = [(own[seed] - reference[task][seed]) / scale for seed in seeds]
    return found


def spread_of(pairs: Pairs) -> Spread | None:
    """The mean difference, with an interval that `RULE` describes or, where there are too few pairs for one, their range."""
    pairs = {task: values for task, values in pairs.items() if len(values)}
    if not pairs:
        return None
    if min(map(len, pairs.values())) >= FEWEST_SEEDS_FOR_INTERVALS:
        return pooled_spread(pairs)
    return spread([value for values in pairs.values() for value in values])


def judge(found: Spread | None, *, low: float = -math.inf, high: float = math.inf) -> str:
    """What `RULE` says of the claim that a mean difference lies between `low` and `high`."""
    if found is None or found.kind != "bootstrap":
        return CANNOT_TELL
    if low < found.low and found.high < high:
        return SUPPORT
    return CONTRADICT if found.high < low or found.low > high else CANNOT_TELL


def judge_numbers(values: Iterable[float], *, low: float, high: float) -> str:
    """Of numbers without noise: supported where all lie between `low` and `high`, contradicted where none does."""
    inside = [low <= value <= high for value in values]
    return SUPPORT if inside and all(inside) else CONTRADICT if inside and not any(inside) else CANNOT_TELL


def judge_majority(outcomes: Sequence[str]) -> str:
    """Of the claim that something holds in most cases, each judged by itself."""
    half = len(outcomes) / 2
    if outcomes.count(SUPPORT) > half:
        return SUPPORT
    return CONTRADICT if outcomes and outcomes.count(CONTRADICT) >= half else CANNOT_TELL


def opposite(outcome: str) -> str:
    """Of the claim that says the contrary."""
    return {SUPPORT: CONTRADICT, CONTRADICT: SUPPORT}.get(outcome, CANNOT_TELL)


def over(pairs: Pairs, case: str = "task") -> str:
    """`6 tasks × 5 seeds`, and what too few of them mean."""
    counts = sorted({len(values) for values in pairs.values() if len(values)})
    if not counts:
        return "no pair of runs"
    tasks = sum(bool(len(values)) for values in pairs.values())
    seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    told = f"{counted(tasks, case)} × {seeds} seed{'' if seeds == '1' else 's'}"
    return told if sum(map(len, pairs.values())) >= FEWEST_SEEDS_FOR_INTERVALS else f"{told}, too few to decide"


def counted(count: int, what: str) -> str:
    """`1 seed`, `5 seeds`."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def signed(fraction: float) -> str:
    """0.0123 → `+1.2`, in hundredths."""
    return f"{100 * fraction:+.1f}".replace("-", "−")


def difference_text(found: Spread | None, unit: str = "% of dense") -> str:
    """`−1.2 % of dense [−2.0, −0.5]`."""
    if found is None:
        return "n/a"
    interval = f" [{signed(found.low)}, {signed(found.high)}]" if len(found.values) > 1 else ""
    return f"{signed(found.mean)} {unit}{interval}"


def share_text(found: Spread | None) -> str:
    """Of a difference to dense, what is kept: `99 % [98, 100]`."""
    if found is None:
        return "n/a"
    interval = f" [{100 + 100 * found.low:.0f}, {100 + 100 * found.high:.0f}]" if len(found.values) > 1 else ""
    return f"{100 + 100 * found.mean:.0f} %{interval}".replace("-", "−")


def sentence(
    claim: str,
    pairs: Pairs,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    contrary: bool = False,
    unit: str = "% of dense",
    case: str = "task",
) -> str:
    """One sentence: the claim, what the runs say of it, and the numbers.

    Args:
      claim: what is claimed.
      pairs: the differences it is about.
      low: it says that their mean is above this,
      high: and below this.
      contrary: the claim is that the mean does NOT lie there.
      unit: of a hundredth of a difference.
      case: what a key of `pairs` is called.
    """
    found = spread_of(pairs)
    outcome = judge(found, low=low, high=high)
    return f"{claim}: our runs **{opposite(outcome) if contrary else outcome}** ({difference_text(found, unit)}; {over(pairs, case)})."


def bullets(sentences: Iterable[str]) -> list[str]:
    """The lines of a Markdown list."""
    return [f"- {text}" for text in sentences]
