"""What is run: the paper's six groups, and the two ways to deal out the part of EMNIST that is at hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedprof.errors import SettingsError
from fedprof.simulation.batch import Assignment
from fedprof.simulation.paths import default_path
from fedprof.tasks.load import Plan, plan

GROUPS = {
    "full": ("fedavg", "cfcfm", "fedprof"),
    "partial": ("fedavg-rp", "fedprox", "fedadam", "afl", "fedprof"),
}
"""The algorithms that the paper compares, by aggregation mode; FedProf last, as in its tables."""


@dataclass(frozen=True)
class Experiment:
    """One of the paper's tables under given settings."""

    name: str
    title: str
    task: str
    overrides: tuple[str, ...] = ()
    optional: bool = False
    """Needs data that are not everywhere: run only when asked for by name."""

    def plan(self, algorithm: str, mode: str, seed: int) -> Plan:
        """Settle one run."""
        chosen = mode if algorithm == "fedprof" else None
        return plan(self.task, algorithm=algorithm, aggregation=chosen, seed=seed, overrides=self.overrides)

    def plans(self, seeds: Sequence[int]) -> Iterator[Plan]:
        """All runs of the table, seed by seed, so that an unfinished table has whole seeds."""
        for seed in seeds:
            for mode in ("partial", "full"):
                yield from (self.plan(algorithm, mode, seed) for algorithm in GROUPS[mode])


EXPERIMENTS = (
    Experiment("gasturbine", "GasTurbine, 50 sensors", "gasturbine"),
    Experiment(
        "emnist-200",
        "EMNIST digits (40 % of them), 200 clients x 480 images",
        "emnist",
        ("data.clients=200", "data.validation=16000"),
    ),
    Experiment(
        "emnist-500",
        "EMNIST digits (40 % of them), 500 clients x 192 images",
        "emnist",
        ("data.samples=192", "data.validation=16000"),
    ),
    Experiment("emnist-whole", "EMNIST digits, 500 clients x 480 images", "emnist", optional=True),
    Experiment("cifar10", "CIFAR-10, 10 data holders", "cifar10"),
)


def find(name: str) -> list[Experiment]:
    """Experiments by their own name or their task's; ``all`` leaves out those that need data not everywhere."""
    usual = [one for one in EXPERIMENTS if not one.optional]
    found = usual if name == "all" else [one for one in usual if name in (one.name, one.task)]
    found = found or [one for one in EXPERIMENTS if one.name == name]
    if not found:
        raise SettingsError(
            f"There is no experiment '{name}'. Known: {', '.join(one.name for one in EXPERIMENTS)}, all"
        )
    return found


def assignments(plans: Sequence[Plan], work: Path) -> list[Assignment]:
    """Where each run is kept: a folder a task, a file a run."""
    return [Assignment(one, default_path(one, work / one.settings.name)) for one in plans]
