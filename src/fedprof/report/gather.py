"""The numbers behind the figures, gathered from stored runs; the report and the print figures draw the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedprof.report.comparison import Series
from fedprof.report.stored import Stored
from fedprof.simulation.summary import JOULES_A_WATT_HOUR, SECONDS_A_MINUTE

Array = NDArray[np.float64]
Against = Literal["rounds", "minutes", "energy"]
PHASES = ("download", "profiling", "training", "upload")
GRID = 160
"""Points of a curve against time or energy."""
MOST_COLUMNS = 150
"""Rounds that a heatmap or a curve of divergences shows, at the most."""


@dataclass(frozen=True)
class Band:
    """Accuracy against something: mean over seeds, and one standard deviation to both sides."""

    x: Array
    mean: Array
    std: Array
    """Zero for a single seed."""

    @property
    def low(self) -> Array:
        """The lower edge; no accuracy is below 0."""
        return np.maximum(self.mean - self.std, 0)

    @property
    def high(self) -> Array:
        """The upper edge; no accuracy is above 1."""
        return np.minimum(self.mean + self.std, 1)


def accuracy(series: Series, against: Against) -> Band | None:
    """The band of a series, as far as all its runs go; None where no accuracy, or no cost, is recorded."""
    curves = [curve for run in series.runs if len((curve := _curve(run, against))[0])]
    if not curves:
        return None
    end = min(x[-1] for x, _ in curves)
    if not end:
        return None
    grid = curves[0][0][curves[0][0] <= end] if against == "rounds" else np.linspace(0, end, GRID)
    values = np.stack([_at(grid, x, y) for x, y in curves])
    spread = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(len(grid))
    return Band(grid, values.mean(axis=0), spread)


def _curve(run: Stored, against: Against) -> tuple[Array, Array]:
    rows = [row for row in run.history if row.accuracy is not None]
    x = {
        "rounds": [float(row.round) for row in rows],
        "minutes": [row.clock / SECONDS_A_MINUTE for row in rows],
        "energy": [row.total_joules / JOULES_A_WATT_HOUR for row in rows],
    }[against]
    return np.array(x), np.array([row.accuracy for row in rows], dtype=np.float64)


def _at(grid: Array, x: Array, y: Array) -> Array:
    """The accuracy of the model there is at each point: that of the last round that has ended."""
    found: Array = y[np.maximum(np.searchsorted(x, grid, side="right") - 1, 0)]
    return found


def counts(run: Stored) -> dict[int, int]:
    """How often each client was selected."""
    return dict(run.query("SELECT client, SUM(selected) FROM participation WHERE round > 0 GROUP BY client"))


def shares_by_kind(runs: Sequence[Stored], *, of_clients: bool = False) -> dict[str, float]:
    """Which share of all participations (or of the clients) each kind of data has."""
    totals: dict[str, float] = {}
    for run in runs:
        selected = counts(run)
        for row in run.clients:
            kind = row.kind or "normal"
            totals[kind] = totals.get(kind, 0) + (1 if of_clients else selected.get(row.client, 0))
    whole = sum(totals.values()) or 1
    return {kind: total / whole for kind, total in totals.items()}


def phase_means(series: Series, unit: Literal["s", "j"]) -> list[float] | None:
    """Seconds or joules of each phase of one participation, mean over all; None where costs are not recorded."""
    columns = ", ".join(f"SUM({phase}_{unit})" for phase in PHASES)
    sql = f"SELECT COUNT(training_{unit}), {columns} FROM participation WHERE selected = 1 AND round > 0"  # noqa: S608
    rows = [run.query(sql)[0] for run in series.runs]
    count = sum(row[0] for row in rows)
    return [sum(row[i + 1] or 0 for row in rows) / count for i in range(len(PHASES))] if count else None


@dataclass(frozen=True)
class Field:
    """One value a client and round; rows in the order of ``clients``."""

    rounds: list[int]
    clients: list[int]
    values: Array


def field(run: Stored, column: Literal["score", "divergence"]) -> Field | None:
    """Scores or divergences over rounds, clients ordered by data quality; None where the algorithm has none."""
    sql = f"SELECT DISTINCT round FROM participation WHERE {column} IS NOT NULL ORDER BY round"  # noqa: S608
    rounds = [row[0] for row in run.query(sql)]
    if not rounds:
        return None
    rounds = rounds[:: -(-len(rounds) // MOST_COLUMNS)]
    clients = [row.client for row in run.by_quality()]
    row_of, column_of = {client: i for i, client in enumerate(clients)}, {r: i for i, r in enumerate(rounds)}
    values = np.full((len(clients), len(rounds)), np.nan)
    sql = f"SELECT round, client, {column} FROM participation WHERE {column} IS NOT NULL"  # noqa: S608
    for number, client, value in run.query(sql):
        if number in column_of and client in row_of:
            values[row_of[client], column_of[number]] = value
    return Field(rounds, clients, values)


@dataclass(frozen=True)
class Quartiles:
    """Divergences of one kind of client over rounds."""

    rounds: list[int]
    low: Array
    median: Array
    high: Array


def divergence_by_kind(runs: Sequence[Stored]) -> dict[str, Quartiles]:
    """Quartiles of the divergences the server knew, by kind of data, over all clients of all runs."""
    found: dict[str, list[Array]] = {}
    rounds: list[int] = []
    for run in runs:
        known = field(run, "divergence")
        if known is None or (rounds and known.rounds != rounds):
            continue
        rounds = known.rounds
        kinds = [row.kind or "normal" for row in run.by_quality()]
        for kind, values in zip(kinds, known.values, strict=True):
            found.setdefault(kind, []).append(values)
    return {kind: _quartiles(rounds, np.stack(rows)) for kind, rows in found.items()}


def _quartiles(rounds: list[int], values: Array) -> Quartiles:
    known = np.flatnonzero(~np.isnan(values).all(axis=0))
    low, median, high = np.nanpercentile(values[:, known], (25, 50, 75), axis=0)
    return Quartiles([rounds[column] for column in known], low, median, high)


def blocks(run: Stored) -> list[tuple[str, int, int]]:
    """Where each kind of data begins and ends when the clients are ordered by quality."""
    kinds = [row.kind or "normal" for row in run.by_quality()]
    return [(kind, kinds.index(kind), kinds.index(kind) + kinds.count(kind)) for kind in dict.fromkeys(kinds)]
