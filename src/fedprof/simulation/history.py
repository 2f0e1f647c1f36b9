"""From what happened in a round to the rows that record it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedprof.algorithms.base import Algorithm, Population, Selection, State
from fedprof.simulation.federation import Outcome, Submission
from fedprof.simulation.store import ParticipationRow
from fedprof.training.engine import Update

EVERYBODY = 2000
"""Up to this many clients, every one gets a row every round; beyond, only those who were asked."""


@dataclass(frozen=True)
class Standing:
    """What the server thought of every client when it selected."""

    scores: NDArray[np.float64] | None
    divergences: NDArray[np.float64] | None

    @classmethod
    def of(cls, algorithm: Algorithm, state: State, population: Population) -> Standing:
        """Ask an algorithm."""
        return cls(algorithm.scores(state, population), algorithm.divergences(state))

    def row(self, number: int, client: int) -> ParticipationRow:
        """A row for a client that was not asked."""
        score, divergence = _entry(self.scores, client), _entry(self.divergences, client)
        return ParticipationRow(number, client, selected=0, score=score, divergence=divergence)


def round_rows(
    number: int,
    selection: Selection,
    outcome: Outcome,
    updates: Mapping[int, Update],
    dropped: Mapping[int, str],
    standing: Standing,
    clients: int,
) -> Iterator[ParticipationRow]:
    """One row for every client that took part, and for the others too while they are few."""
    draws = dict(zip(selection.clients.tolist(), selection.draws.tolist(), strict=True))
    took_part = {one.client: one for one in outcome.charged}
    for client in range(clients) if clients <= EVERYBODY else sorted(took_part):
        row = standing.row(number, client)
        if client in took_part:
            one, update = took_part[client], updates.get(client)
            loss = None if update is None else _finite(update.loss)
            row = row._replace(selected=1, draws=draws[client], loss=loss, failure=one.failure or dropped.get(client))
            row = with_costs(row, one)
        yield row


def with_costs(row: ParticipationRow, one: Submission) -> ParticipationRow:
    """Add what a client spent."""
    download_s, profiling_s, training_s, upload_s = one.seconds
    download_j, profiling_j, training_j, upload_j = one.joules
    return row._replace(
        download_s=download_s,
        profiling_s=profiling_s,
        training_s=training_s,
        upload_s=upload_s,
        download_j=download_j,
        profiling_j=profiling_j,
        training_j=training_j,
        upload_j=upload_j,
    )


def _entry(values: NDArray[np.float64] | None, client: int) -> float | None:
    return None if values is None else _finite(float(values[client]))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
