"""What is run: the paper's six groups, and the two ways to deal out the part of EMNIST that is at hand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedprof.errors import unknown
from fedprof.reproduction.studies import STUDIES
from fedprof.simulation.batch import Assignment
from fedprof.simulation.paths import default_path
from fedprof.simulation.store import Store, holds_nothing
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
        "emnist-200-xavier",
        "EMNIST digits (40 % of them), 200 clients x 480 images, Xavier's initial weights",
        "emnist",
        ("data.clients=200", "data.validation=16000", "model.initialisation=xavier"),
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
        known = [one.name for one in EXPERIMENTS]
        raise unknown("experiment or study", name, [*known, *STUDIES, "studies", "figures", "all"])
    return found


def assignments(plans: Sequence[Plan], work: Path) -> list[Assignment]:
    """Where each run is, or will be kept: in a folder a task, known by its settings and not by its file's name."""
    there = {name: known_runs(work / name) for name in {one.settings.name for one in plans}}
    known = [there[one.settings.name].get(identity(one.describe())) for one in plans]
    return [Assignment(one, path or _place(one, work)) for one, path in zip(plans, known, strict=True)]


def known_runs(folder: Path) -> dict[str, Path]:
    """Runs in a folder by their settings."""
    found: dict[str, Path] = {}
    for path in sorted(folder.glob("*.sqlite")):
        if not holds_nothing(path):
            with closing(Store.open(path, read_only=True)) as store:
                found.setdefault(identity(store.facts()["plan"]), path)
    return found


def identity(settings: Mapping[str, Any]) -> str:
    """Tell settings apart."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _place(chosen: Plan, work: Path) -> Path:
    usual = default_path(chosen, work / chosen.settings.name)
    return usual if holds_nothing(usual) else usual.with_stem(f"{usual.stem}-{identity(chosen.describe())[:8]}")
