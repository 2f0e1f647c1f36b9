"""The figures of an experiment: by aggregation mode and algorithm, over seeds, out of its archive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Literal

from fedprof.report.comparison import Comparison, compare
from fedprof.report.numbers import Spread
from fedprof.report.stored import Stored
from fedprof.reproduction.archive import ENDING, Archived, unpack
from fedprof.reproduction.experiments import EXPERIMENTS, GROUPS, Experiment
from fedprof.simulation.summary import JOULES_A_WATT_HOUR, SECONDS_A_MINUTE

Cost = Literal["rounds", "minutes", "energy"]
COSTS: Mapping[Cost, int] = {"rounds": 0, "minutes": 1, "energy": 2}


@dataclass(frozen=True)
class Entry:
    """One row of a table: an algorithm's runs."""

    algorithm: str
    mode: str
    runs: Sequence[Archived]

    @property
    def best(self) -> dict[int, float]:
        """Best accuracy by seed."""
        return {one.run.seed: one.run.best_accuracy or 0.0 for one in self.runs}

    def to_goal(self, cost: Cost) -> dict[int, float]:
        """What the goal took, by seed; only the seeds that reached it."""
        reached = {one.run.seed: one.run.reached for one in self.runs}
        return {seed: float(found[COSTS[cost]]) for seed, found in reached.items() if found is not None}

    @property
    def spreads(self) -> list[Spread | None]:
        """Best accuracy, then what the goal took."""
        return [Spread.of(list(self.best.values())), *(Spread.of(list(self.to_goal(cost).values())) for cost in COSTS)]

    @property
    def always_reached(self) -> bool:
        """Whether every seed reached the goal."""
        return len(self.to_goal("rounds")) == len(self.runs)

    def mean(self, cost: Cost) -> float | None:
        """Mean of what the goal took; None unless every seed reached it (a mean of the lucky would mislead)."""
        return fmean(self.to_goal(cost).values()) if self.runs and self.always_reached else None

    def bounds(self, cost: Cost) -> dict[int, float]:
        """What the goal took, by seed, at least: a run that never got there counts with all it spent."""
        reached = self.to_goal(cost)
        return {one.run.seed: reached.get(one.run.seed, spent(one.run, cost)) for one in self.runs}

    def at_least(self, cost: Cost) -> float:
        """Mean of what the goal took, at least."""
        return fmean(self.bounds(cost).values())

    def over(self, seeds: AbstractSet[int]) -> Entry:
        """The same row from some seeds only."""
        return replace(self, runs=[one for one in self.runs if one.run.seed in seeds])

    @property
    def cut(self) -> bool:
        """Whether a run has fewer rounds than its settings ask for."""
        return any(one.run.rounds < planned(one.run) for one in self.runs)

    @property
    def mean_best(self) -> float:
        """Mean best accuracy."""
        return fmean(self.best.values())

    def share_of(self, *kinds: str) -> float | None:
        """How often clients of these kinds take part, as a multiple of what an even chance would give."""
        parts = [one.parts for one in self.runs]
        mine = sum(part[kind][1] for part in parts for kind in kinds if kind in part)
        clients = sum(part[kind][0] for part in parts for kind in kinds if kind in part)
        everybody = sum(selected for part in parts for _, selected in part.values())
        population = sum(count for part in parts for count, _ in part.values())
        return mine / everybody / (clients / population) if everybody and clients else None


@dataclass(frozen=True)
class Outcome:
    """An experiment's archive, sorted."""

    experiment: Experiment
    entries: Mapping[tuple[str, str], Entry]
    comparison: Comparison

    def group(self, mode: str) -> list[Entry]:
        """The rows of one table's half, in the paper's order, as far as there are runs."""
        return [self.entries[name, mode] for name in GROUPS[mode] if (name, mode) in self.entries]

    def get(self, algorithm: str, mode: str) -> Entry | None:
        """One row."""
        return self.entries.get((algorithm, mode))

    @property
    def runs(self) -> list[Archived]:
        """Every run."""
        return [one for entry in self.entries.values() for one in entry.runs]


def spent(run: Stored, cost: Cost) -> float:
    """What a whole run took."""
    last = run.history[-1]
    return (float(last.round), last.clock / SECONDS_A_MINUTE, last.total_joules / JOULES_A_WATT_HOUR)[COSTS[cost]]


def planned(run: Stored) -> int:
    """The paper's T_max of a run's task and mode."""
    return int(run.plan["federation"]["rounds"][run.aggregation])


def load(folder: Path, scratch: Path) -> dict[str, Outcome]:
    """Read all archives of a results folder; ``scratch`` takes files that figures ask."""
    found = {}
    for experiment in EXPERIMENTS:
        path = folder / "histories" / f"{experiment.name}{ENDING}"
        if path.exists():
            found[experiment.name] = outcome(experiment, unpack(path, scratch))
    return found


def outcome(experiment: Experiment, runs: Sequence[Archived]) -> Outcome:
    """Sort an experiment's runs."""
    (comparison,) = compare(one.run for one in runs)
    by_file = {id(one.run): one for one in runs}
    entries = {
        (series.algorithm, series.aggregation): Entry(
            series.algorithm, series.aggregation, [by_file[id(run)] for run in series.runs]
        )
        for series in comparison.series
    }
    titled = Comparison(experiment.name, comparison.settings, comparison.series)
    return Outcome(experiment, entries, titled)
