"""From what happened in a round to the rows that record it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from fedprof.algorithms.base import Algorithm, Population, Selection, State
from fedprof.simulation.costs import Phases
from fedprof.simulation.federation import Outcome
from fedprof.simulation.store import ParticipationRow
from fedprof.training.engine import Update

EVERYBODY = 2000
"""Up to this many clients, every one gets a row every round; beyond, only those whose answer was waited for."""

Column = Iterable[float | None]


@dataclass(frozen=True)
class Standing:
    """What the server thought of every client when it selected."""

    scores: NDArray[np.float64] | None
    divergences: NDArray[np.float64] | None

    @classmethod
    def of(cls, algorithm: Algorithm, state: State, population: Population) -> Standing:
        """Ask an algorithm."""
        return cls(algorithm.scores(state, population), algorithm.divergences(state))

    def columns(self, clients: Sequence[int]) -> tuple[Column, Column]:
        """Scores and divergences of some clients."""
        return _column(self.scores, clients), _column(self.divergences, clients)


def round_rows(
    number: int,
    selection: Selection,
    outcome: Outcome,
    updates: Mapping[int, Update],
    dropped: Mapping[int, str],
    standing: Standing,
    clients: int,
) -> list[ParticipationRow]:
    """One row for every client that took part, and for the others too while they are few."""
    draws = dict(zip(selection.clients.tolist(), selection.draws.tolist(), strict=True))
    took_part = {one.client: one for one in outcome.charged}
    shown = range(clients) if clients <= EVERYBODY else sorted(took_part)
    rows = []
    for client, score, divergence in zip(shown, *standing.columns(shown), strict=False):
        one, update = took_part.get(client), updates.get(client)
        if one is None:
            rows.append(ParticipationRow(number, client, 0, 0, score, divergence))
            continue
        loss = finite(update.loss) if update else None
        failure = one.failure or dropped.get(client)
        rows.append(
            ParticipationRow(
                number, client, 1, draws[client], score, divergence, loss, *one.seconds, *one.joules, failure
            )
        )
    return rows


def initial_rows(
    standing: Standing, seconds: Phases, joules: Phases, failed: Mapping[int, str]
) -> list[ParticipationRow]:
    """Round 0: everybody profiles, nobody trains."""
    everybody = range(len(seconds.profiling))
    columns = zip(everybody, *standing.columns(everybody), seconds.rows(), joules.rows(), strict=False)
    return [
        ParticipationRow(0, client, 0, 0, score, divergence, None, *spent, *energy, failed.get(client))
        for client, score, divergence, spent, energy in columns
    ]


def finite(value: float) -> float | None:
    """A number as SQL wants it."""
    return value if math.isfinite(value) else None


def _column(values: NDArray[np.float64] | None, clients: Sequence[int]) -> Column:
    if values is None:
        return repeat(None)
    return [finite(value) for value in values[np.asarray(clients, np.int64)].tolist()]
