"""A federation's run on disk: the same SQLite file as a simulator run, so the same commands read it."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp.strategy import Strategy
from numpy.typing import NDArray

from fedprof.algorithms.base import State
from fedprof.errors import StoreError
from fedprof.flower import base as own
from fedprof.flower.arrays import pack, unpack
from fedprof.flower.replies import metric
from fedprof.flower.roster import Roster
from fedprof.simulation.store import ClientRow, ParticipationRow, RoundRow, Store, holds_nothing

ALGORITHM = "algorithm/"
ANSWERED, PICKED = "answered", "picked"
PACKAGES = ("fedprof", "flwr", "numpy", "torch")
KIND = "unknown"
"""What the clients' data suffer from: in a real federation nobody knows."""


@dataclass
class Saved:
    """Where a run stands: what is written after every round and read to go on."""

    round: int
    arrays: ArrayRecord
    state: State
    roster: Roster
    answered: NDArray[np.int64]
    picked: NDArray[np.int64]


@dataclass
class Record:
    """The history of a run, in its store if it has one."""

    store: Store | None
    last: RoundRow | None = None
    _since: float = field(default_factory=time.monotonic)
    _written: list[int] = field(default_factory=list)
    """Samples of each client, as the store has them."""

    @property
    def next_round(self) -> int:
        """The first round that is not recorded."""
        return 1 if self.last is None else self.last.round + 1

    def save(
        self,
        saved: Saved,
        base: Strategy,
        metrics: MetricRecord | None,
        counts: tuple[int, int],
        rows: Sequence[ParticipationRow],
    ) -> None:
        """Write a round: history, clients and state."""
        seconds = time.monotonic() - self._since
        self._since = time.monotonic()
        self.last = self._row(saved.round, metrics, counts, seconds)
        if self.store is None:
            return
        roster = saved.roster
        changed = [k for k, samples in enumerate(roster.samples) if self._written[k : k + 1] != [samples]]
        self.store.add_clients(ClientRow(k, roster.names[k], KIND, roster.samples[k]) for k in changed)
        self._written = list(roster.samples)
        state = {**pack(saved.arrays), **own.memory(base), ANSWERED: saved.answered, PICKED: saved.picked}
        state |= {ALGORITHM + name: array for name, array in saved.state.items()}
        self.store.record(self.last, rows, state, seconds)

    def load(self, like: ArrayRecord, base: Strategy) -> Saved | None:
        """What the last recorded round left, and the base strategy as it was; None if no round is recorded."""
        if self.store is None or (last := self.store.last_round()) is None:
            return None
        stored = self.store.state()
        own.recall(base, stored)
        clients = self.store.clients()
        self.last, self._written = last, [row.samples for row in clients]
        state = {name.removeprefix(ALGORITHM): array for name, array in stored.items() if name.startswith(ALGORITHM)}
        roster = Roster([row.name for row in clients], list(self._written))
        counts = (stored[name].astype(np.int64) for name in (ANSWERED, PICKED))
        return Saved(last.round, unpack(stored, like), state, roster, *counts)

    def close(self) -> None:
        """Close the store."""
        if self.store is not None:
            self.store.close()

    def _row(self, number: int, metrics: MetricRecord | None, counts: tuple[int, int], seconds: float) -> RoundRow:
        accuracy = metric(metrics, "accuracy", "acc")
        known = [x for x in (accuracy, self.last and self.last.best_accuracy) if x is not None and math.isfinite(x)]
        return RoundRow(
            round=number,
            accuracy=accuracy,
            loss=metric(metrics, "loss"),
            best_accuracy=max(known, default=None),
            rate=None,
            seconds=seconds,
            clock=seconds + (self.last.clock if self.last else 0.0),
            joules=0.0,
            total_joules=0.0,
            selected=counts[0],
            accepted=counts[1],
        )


def open_record(path: Path | str | None, facts: Mapping[str, Any], *, resume: bool) -> Record:
    """Start a run's store, or open it to go on."""
    if not path:
        return Record(None)
    target = Path(path)
    if holds_nothing(target):
        return Record(Store.create(target, {**facts, "versions": _versions(), "machine": _machine()}, []))
    store = Store.open(target)
    try:
        _check_resumable(store, facts, resume=resume)
        store.claim()
    except StoreError:
        store.close()
        raise
    return Record(store)


def _check_resumable(store: Store, facts: Mapping[str, Any], *, resume: bool) -> None:
    if not resume and store.last_round() is not None:
        raise StoreError(f"{store.path} holds a run already: pass resume=True to go on with it, or another store=")
    found = store.facts()
    different = [name for name, value in facts.items() if found.get(name) != value]
    if different:
        told = "; ".join(f"{name}: {found.get(name)} there, {facts[name]} here" for name in different)
        raise StoreError(f"{store.path} holds a run with other settings ({told}); repeat those, or pass another store=")


def _versions() -> dict[str, str]:
    return {name: version(name) for name in PACKAGES}


def _machine() -> dict[str, str]:
    return {"python": platform.python_version(), "system": platform.system(), "machine": platform.machine()}
