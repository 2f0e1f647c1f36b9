"""The cost model against the paper: mean time a round and energy a client that its Tables 3 to 5 imply.

A table's time to the goal divided by its rounds to the goal is a mean round; its energy divided by rounds and by the
cohort's size is a client's mean energy. Neither depends on what is learned, so rounds are played without training.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedprof.algorithms.base import Algorithm, Population, Reply
from fedprof.algorithms.cfcfm import CFCFM
from fedprof.algorithms.fedavg import FedAvg
from fedprof.data.partition import normal_sizes
from fedprof.randomness import stream
from fedprof.simulation.costs import BYTES_AN_ELEMENT, CostModel
from fedprof.simulation.federation import Federation, Outcome
from fedprof.simulation.fleet import devices
from fedprof.tasks.load import plan
from fedprof.tasks.settings import Settings

ROWS = ("FedAvg", "CFCFM", "FedProf full", "FedProf partial")
IMPLIED: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "gasturbine": {
        "FedAvg": (34.9, 20.2),
        "CFCFM": (24.8, 17.6),
        "FedProf full": (35.2, 20.4),
        "FedProf partial": (34.7, 20.3),
    },
    "emnist": {
        "FedAvg": (67.5, 22.1),
        "CFCFM": (20.4, 15.9),
        "FedProf full": (68.2, 23.2),
        "FedProf partial": (64.4, 23.3),
    },
    "cifar10": {
        "FedAvg": (144, 1772),
        "CFCFM": (139, 1798),
        "FedProf full": (166, 2040),
        "FedProf partial": (157, 1963),
    },
}
"""Seconds a round and joules a merged client, from the paper's tables."""


@dataclass(frozen=True)
class Comparison:
    """One row of one task."""

    task: str
    row: str
    seconds: float
    joules: float
    paper_seconds: float
    paper_joules: float


def comparisons(task: str, fleets: int = 40, rounds: int = 50, q: int = 64) -> Iterator[Comparison]:
    """Play rounds on many fleets and set the means beside the paper's."""
    settings = plan(task).settings
    for row in ROWS:
        played = [_means(settings, row, seed, rounds, q) for seed in range(fleets)]
        seconds, joules = np.mean(played, axis=0)
        yield Comparison(task, row, float(seconds), float(joules), *IMPLIED[task][row])


def _means(settings: Settings, row: str, seed: int, rounds: int, q: int) -> tuple[float, float]:
    """Mean seconds a round and joules a merged client on one fleet.

    FedProf's cohort is drawn uniformly here: devices do not depend on data, so who is drawn changes no mean.
    """
    profiles = row.startswith("FedProf")
    algorithm: Algorithm = CFCFM() if row == "CFCFM" else FedAvg()
    population = Population(_sizes(settings, seed), settings.cohort)
    fleet = devices(settings.fleet, len(population), seed)
    costs = CostModel(settings.costs, fleet, population.sizes, settings.training.epochs, BYTES_AN_ELEMENT * q)
    federation = Federation(costs, settings.conditions, seed)
    nothing = np.zeros(1, np.float32)
    state, clock = algorithm.start(population, nothing), 0.0
    joules: list[float] = []
    for number in range(1, rounds + 1):
        selection = algorithm.select(state, population, stream(seed, "select", number))
        outcome = federation.round(number, clock, selection, profile=profiles)
        state = algorithm.learn(state, population, _replies(outcome, nothing))
        joules += [sum(one.joules) for one in outcome.merged]
        clock = outcome.ended
    return clock / rounds, float(np.mean(joules))


def _replies(outcome: Outcome, weights: NDArray[np.float32]) -> list[Reply]:
    return [Reply(one.client, 0, weights=weights) for one in outcome.merged]


def _sizes(settings: Settings, seed: int) -> NDArray[np.int64]:
    how, clients = settings.data.partition, settings.data.clients
    if how.kind == "sizes":
        return normal_sizes(None, clients, how.mean or 1.0, how.std or 0.0, stream(seed, "partition"))
    return np.full(clients, settings.data.samples or 1)
