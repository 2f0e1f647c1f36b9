"""Stored runs as the tables and figures want them, read from their files and from nothing else."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedprof.errors import StoreError
from fedprof.simulation.store import ClientRow, RoundRow, Store
from fedprof.simulation.summary import JOULES_A_WATT_HOUR, SECONDS_A_MINUTE, first_at

QUALITY = (
    "normal",
    "unknown",
    "noise",
    "duplicated",
    "missing",
    "pixel",
    "mislabelled",
    "blur",
    "irrelevant",
    "polluted",
)
"""Kinds of client data, best quality first; kinds not named here come last."""
CHOICES = ("algorithm", "seed", "algorithms")
"""What may differ between the runs of one comparison."""


@dataclass(frozen=True)
class Stored:
    """One run's file."""

    path: Path
    facts: Mapping[str, Any]
    clients: Sequence[ClientRow]
    history: Sequence[RoundRow]

    @property
    def plan(self) -> Mapping[str, Any]:
        """The settings it was made with, as far as recorded."""
        return self.facts.get("plan") or {}

    @property
    def task(self) -> str:
        """The task's name."""
        return str(self.plan.get("name") or self.facts.get("task") or "run")

    @property
    def settings(self) -> dict[str, Any]:
        """The task's settings: all but the algorithm and the seed."""
        return {key: value for key, value in self.plan.items() if key not in CHOICES}

    @property
    def algorithm(self) -> str:
        """The algorithm's name."""
        return str(self.plan.get("algorithm") or self.facts.get("algorithm") or "unknown")

    @property
    def parameters(self) -> dict[str, Any]:
        """The algorithm's own parameters."""
        return dict(self.plan.get("algorithms", {}).get(self.algorithm, {}))

    @property
    def aggregation(self) -> str:
        """Full or partial."""
        return str(self.facts.get("aggregation") or "partial")

    @property
    def seed(self) -> int:
        """What decided everything random."""
        return int(self.plan.get("seed") or self.facts.get("seed") or 0)

    @property
    def goal(self) -> float | None:
        """The accuracy whose costs are reported."""
        goal = self.plan.get("federation", {}).get("goal", self.facts.get("goal"))
        return None if goal is None else float(goal)

    @property
    def rounds(self) -> int:
        """How many rounds are recorded."""
        return self.history[-1].round

    @property
    def best_accuracy(self) -> float | None:
        """The highest accuracy of any round."""
        return max((row.accuracy for row in self.history if row.accuracy is not None), default=None)

    @property
    def reached(self) -> tuple[int, float, float] | None:
        """Rounds, minutes and watt-hours to the goal; None if it was never reached."""
        row = None if self.goal is None else first_at(list(self.history), self.goal)
        return None if row is None else (row.round, row.clock / SECONDS_A_MINUTE, row.total_joules / JOULES_A_WATT_HOUR)

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Ask the file itself."""
        with _opened(self.path) as store:
            return store.query(sql, *values)

    def kinds(self) -> list[str]:
        """Kinds of data among the clients, best quality first."""
        return sorted({row.kind or "normal" for row in self.clients}, key=quality)

    def by_quality(self) -> list[ClientRow]:
        """The clients, best data first."""
        return sorted(self.clients, key=lambda row: (quality(row.kind or "normal"), row.client))


def quality(kind: str) -> tuple[int, str]:
    """Sort key of a kind of data."""
    return (QUALITY.index(kind) if kind in QUALITY else len(QUALITY), kind)


def read(path: Path, rounds: int | None = None) -> Stored:
    """Read a run, or its first rounds only."""
    with _opened(path) as store:
        history = store.rounds()
        if not history:
            raise StoreError(f"{path} holds no round yet: it was interrupted while it started. Run it again.")
        kept = [row for row in history if rounds is None or row.round <= rounds]
        return Stored(path, store.facts(), store.clients(), kept)


def find(places: Iterable[Path]) -> list[Path]:
    """Runs among files and, at any depth, in folders; there, those without a round yet are passed over."""
    found: list[Path] = []
    for place in places:
        inside = [path for path in sorted(place.rglob("*.sqlite")) if _begun(path)] if place.is_dir() else [place]
        if not inside:
            raise StoreError(f"{place} holds no run (*.sqlite): `fedprof run` and `fedprof compare` make them")
        found += inside
    return list(dict.fromkeys(found))


def read_all(places: Iterable[Path]) -> list[Stored]:
    """Read all runs among files and folders."""
    return [read(path) for path in find(places)]


def _begun(path: Path) -> bool:
    with _opened(path) as store:
        return store.last_round() is not None


def _opened(path: Path) -> closing[Store]:
    try:
        return closing(Store.open(path, read_only=True))
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
