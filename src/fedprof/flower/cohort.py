"""One round's cohort, and the rows that record what came of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedprof.simulation.history import EVERYBODY
from fedprof.simulation.store import ParticipationRow

LISTED = 40
"""Clients shown at the end of a run."""


@dataclass(frozen=True)
class Standing:
    """What the server thought of every client when it selected; NaN where it has no opinion."""

    scores: NDArray[np.float64] | None
    divergences: NDArray[np.float64] | None

    def row(self, number: int, client: int) -> ParticipationRow:
        """A row for a client that was not asked."""
        score, divergence = _entry(self.scores, client), _entry(self.divergences, client)
        return ParticipationRow(number, client, selected=0, score=score, divergence=divergence)

    def table(self, names: Sequence[str], picked: Sequence[int]) -> str:
        """Every client's line, lowest score first; of many clients, the ``LISTED`` lowest."""
        lines = [f"{'client':<24}{'divergence':>12}{'score':>12}{'picked':>8}"]
        order = sorted(range(len(names)), key=lambda k: _entry(self.scores, k) or 0.0)
        for k in order[:LISTED]:
            told = f"{_told(self.divergences, k):>12}{_told(self.scores, k):>12}"
            lines.append(f"{names[k]:<24}{told}{picked[k]:>8}")
        if len(order) > LISTED:
            lines.append(f"... and {len(order) - LISTED} clients with higher scores")
        return "\n".join(lines)


@dataclass(frozen=True)
class Cohort:
    """Who was chosen."""

    draws: Mapping[int, int]
    """How often each chosen client was drawn, in the order drawn."""
    node: Mapping[int, int]
    """Where each of them is reached."""
    standing: Standing

    @property
    def nodes(self) -> list[int]:
        """Nodes in the order drawn."""
        return [self.node[client] for client in self.draws]

    def rows(
        self, number: int, clients: int, losses: Mapping[int, float | None], failures: Mapping[int, str]
    ) -> list[ParticipationRow]:
        """One row for every client that was asked, and for the others too while they are few."""
        listed: Iterable[int] = range(clients) if clients <= EVERYBODY else sorted(self.draws)
        return [self._row(number, client, losses.get(client), failures.get(client)) for client in listed]

    def _row(self, number: int, client: int, loss: float | None, failure: str | None) -> ParticipationRow:
        row = self.standing.row(number, client)
        if client not in self.draws:
            return row
        known = loss if loss is not None and math.isfinite(loss) else None
        return row._replace(selected=1, draws=self.draws[client], loss=known, failure=failure)


def initial_rows(standing: Standing, failures: Mapping[int, str], clients: int) -> list[ParticipationRow]:
    """Round 0: everybody's first divergence, or why there is none."""
    return [standing.row(0, client)._replace(failure=failures.get(client)) for client in range(clients)]


def spread(values: NDArray[np.float64] | None, over: Sequence[int], clients: int) -> NDArray[np.float64] | None:
    """Values of some clients as an array of all, NaN for the others."""
    if values is None:
        return None
    found = np.full(clients, np.nan)
    found[list(over)] = values
    return found


def _entry(values: NDArray[np.float64] | None, client: int) -> float | None:
    value = math.nan if values is None else float(values[client])
    return value if math.isfinite(value) else None


def _told(values: NDArray[np.float64] | None, client: int) -> str:
    value = _entry(values, client)
    return "-" if value is None else f"{value:.3g}"
