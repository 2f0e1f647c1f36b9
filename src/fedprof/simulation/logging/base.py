"""What every logger has in common: which numbers it is given, and when."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedprof.simulation.run import Run
    from fedprof.simulation.store import RoundRow

Numbers = Mapping[str, float]


class Logger(ABC):
    """An observer that writes each round's numbers somewhere.

    Whenever a run starts or goes on, its whole recorded history is written anew: whatever an interruption may have cost
    the log, the newest one is complete.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def open(self, name: str, settings: Mapping[str, Any]) -> None:
        """Begin a log."""

    @abstractmethod
    def write(self, round: int, numbers: Numbers) -> None:
        """Write one round's numbers."""

    @abstractmethod
    def close(self) -> None:
        """Complete the log."""

    def begin(self, run: Run) -> None:
        """Begin a log with all that is recorded."""
        self.open(run.store.path.stem, run.store.facts()["plan"])
        for row in run.store.rounds():
            self.write(row.round, numbers(row))

    def round(self, run: Run, row: RoundRow) -> None:
        """Add a round."""
        self.write(row.round, numbers(row))

    def end(self, run: Run) -> None:
        """Complete the log."""
        self.close()


def numbers(row: RoundRow) -> Numbers:
    """A round's numbers by name; what is not known is left out."""
    known = {
        "accuracy": row.accuracy,
        "best_accuracy": row.best_accuracy,
        "loss": row.loss,
        "rate": row.rate,
        "virtual_minutes": row.clock / 60,
        "energy_wh": row.total_joules / 3600,
        "accepted": row.accepted,
    }
    return {name: float(value) for name, value in known.items() if value is not None}


def flat(settings: Mapping[str, Any], place: str = "") -> dict[str, str]:
    """Settings under dotted names, as text."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{place}{name}.")
        else:
            found[place + name] = value if isinstance(value, str) else json.dumps(value)
    return found
