"""How numbers are written: in tables, in figures, everywhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

ACCURACY, ROUNDS, MINUTES, WATT_HOURS = 3, 0, 1, 2
"""Decimals, as in the paper."""
NEVER = "-"
"""Stands where no run got there."""


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation (of a sample: over n - 1) of one figure over several runs."""

    mean: float
    std: float | None
    """None for a single run."""
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """Sum values up; None where there are none."""
        if not values:
            return None
        return cls(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


def decimals(usual: int, spreads: Sequence[Spread | None]) -> int:
    """Decimals for a column: the usual, or more where its smallest mean would keep less than two digits."""
    means = [spread.mean for spread in spreads if spread is not None and spread.mean > 0]
    if not means or usual == ROUNDS:
        return usual
    return max(usual, 1 - math.floor(math.log10(min(means))))


def written(spread: Spread | None, places: int, between: str = " ± ") -> str:
    """Write a figure of a table: ``0.817 ± 0.005``."""
    if spread is None:
        return NEVER
    if spread.std is None:
        return f"{spread.mean:.{places}f}"
    return f"{spread.mean:.{places}f}{between}{spread.std:.{places}f}"


def plain(value: object) -> str:
    """Write a setting's value."""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(plain(part) for part in value)
    return "none" if value is None else str(value)
