"""How much is pruned after each of several rounds."""

from __future__ import annotations

import decimal
from collections.abc import Callable

from jaxprune.pruning.masks import kept_count


def _decimal(sparsity: float) -> decimal.Decimal:
    return decimal.Decimal(str(sparsity))


def exponential(sparsity: float, part: decimal.Decimal) -> decimal.Decimal:
    """1 − (1 − s)^(i/n): each round keeps the same fraction of what is left (Laurent et al. 2020; de Jorge et al. 2021)."""
    density = 1 - _decimal(sparsity)
    if not density:
        return decimal.Decimal(int(part == 1))
    return 1 - density**part


def linear(sparsity: float, part: decimal.Decimal) -> decimal.Decimal:
    """s·i/n: each round removes the same number (Laurent et al. 2020)."""
    return _decimal(sparsity) * part


def cubic(sparsity: float, part: decimal.Decimal) -> decimal.Decimal:
    """s·(1 − (1 − i/n)³): fast first, slow at the end (Zhu and Gupta 2017)."""
    return _decimal(sparsity) * (1 - (1 - part) ** 3)


SCHEDULES: dict[str, Callable[[float, decimal.Decimal], decimal.Decimal]] = {"exponential": exponential, "linear": linear, "cubic": cubic}


def kept_after(sparsity: float, n: int, *, rounds: int = 1, schedule: str = "exponential") -> list[int]:
    """How many of `n` weights are kept after each round, always relative to the original number; the last is `kept_count(sparsity, n)`.

    Raises:
      ValueError: an unknown schedule, or rounds below 1.
    """
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule={schedule!r} is unknown; expected one of {', '.join(SCHEDULES)}")
    if rounds < 1:
        raise ValueError(f"expected at least one round, got rounds={rounds}")
    last = kept_count(sparsity, n)
    parts = [decimal.Decimal(i) / rounds for i in range(1, rounds)]
    return [*(kept_count(SCHEDULES[schedule](sparsity, part), n) for part in parts), last]
