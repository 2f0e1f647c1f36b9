"""Runs sorted into what is compared with what: series that differ in the seed alone, comparisons on one task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedprof.report.numbers import plain
from fedprof.report.stored import Stored

NAMES = {
    "fedavg": "FedAvg",
    "cfcfm": "CFCFM",
    "fedavg-rp": "FedAvg-RP",
    "fedprox": "FedProx",
    "fedadam": "FedADAM",
    "afl": "AFL",
    "fedprof": "FedProf",
}
"""Algorithms as the paper writes them, in its order."""
MODES = ("full", "partial")


@dataclass(frozen=True)
class Series:
    """Runs that differ in nothing but the seed."""

    label: str
    algorithm: str
    aggregation: str
    runs: Sequence[Stored]

    @property
    def key(self) -> str:
        """Names the series within a page."""
        return f"{self.label} ({self.aggregation})"

    @property
    def seeds(self) -> list[int]:
        """In order."""
        return [run.seed for run in self.runs]


@dataclass(frozen=True)
class Comparison:
    """All series on one task."""

    title: str
    settings: Mapping[str, Any]
    series: Sequence[Series]

    @property
    def runs(self) -> Iterator[Stored]:
        """Every run."""
        return (run for series in self.series for run in series.runs)

    @property
    def goal(self) -> float | None:
        """The accuracy whose costs are reported."""
        return next(self.runs).goal

    @property
    def modes(self) -> list[str]:
        """How its series aggregate, full first; a Flower run says its base strategy instead."""
        return list(dict.fromkeys(series.aggregation for series in self.series))

    def group(self, mode: str) -> list[Series]:
        """The series that aggregate in one mode."""
        return [series for series in self.series if series.aggregation == mode]


def compare(runs: Iterable[Stored]) -> list[Comparison]:
    """Sort runs into comparisons by task, and into series by algorithm."""
    tasks = _grouped(runs, lambda run: (run.task, _flat(run.settings)))
    plain = {name: [_flat(group[0].settings) for group in tasks if group[0].task == name] for name in _names(tasks)}
    return [Comparison(_title(group[0], plain[group[0].task]), group[0].settings, _series(group)) for group in tasks]


def _series(runs: Sequence[Stored]) -> list[Series]:
    groups = _grouped(runs, lambda run: (run.algorithm, run.aggregation, _flat(run.parameters)))
    found = []
    for group in groups:
        first = group[0]
        alike = [_flat(g[0].parameters) for g in groups if _who(g[0]) == _who(first)]
        label = NAMES.get(first.algorithm, first.algorithm.rpartition(":")[2])
        special = _special(_flat(first.parameters), alike)
        label += f" [{special}]" if special else ""
        unique = {run.seed: run for run in sorted(group, key=lambda run: (run.seed, run.rounds))}
        found.append(Series(label, *_who(first), list(unique.values())))
    return sorted(found, key=_rank)


def _who(run: Stored) -> tuple[str, str]:
    return run.algorithm, run.aggregation


def _rank(series: Series) -> tuple[int, int, str]:
    order = list(NAMES)
    place = order.index(series.algorithm) if series.algorithm in order else len(order)
    mode = MODES.index(series.aggregation) if series.aggregation in MODES else len(MODES)
    return (mode, place, series.label)


def _names(tasks: Sequence[Sequence[Stored]]) -> set[str]:
    return {group[0].task for group in tasks}


def _title(run: Stored, alike: Sequence[Mapping[str, Any]]) -> str:
    special = _special(_flat(run.settings), alike)
    return f"{run.task} ({special})" if special else run.task


def _special(mine: Mapping[str, Any], alike: Sequence[Mapping[str, Any]]) -> str:
    """What tells this one from others of the same name."""
    return ", ".join(
        f"{key.rpartition('.')[2]}={plain(value)}"
        for key, value in mine.items()
        if any(other.get(key) != value for other in alike)
    )


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in tree.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return found


def _grouped(runs: Iterable[Stored], key: Callable[[Stored], object]) -> list[list[Stored]]:
    groups: list[tuple[object, list[Stored]]] = []
    for run in runs:
        mine = key(run)
        group = next((members for other, members in groups if other == mine), None)
        if group is None:
            groups.append((mine, [run]))
        else:
            group.append(run)
    return [members for _, members in groups]
