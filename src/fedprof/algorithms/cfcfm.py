"""CFCFM, compensatory first-come-first-merge: the quick merge first, but nobody twice before the others had a turn.

Wu, He, Lin, Mao, Maple, Jarvis: SAFA: a semi-asynchronous protocol for fast federated learning with low overhead.
IEEE Transactions on Computers 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedprof.algorithms.aggregation import Full, Reading
from fedprof.algorithms.base import CLIENT, Algorithm, Population, Report, Selection, State, Vector

MERGED = CLIENT + "merged"


@dataclass(frozen=True)
class CFCFM(Algorithm):
    """Everybody is asked; the round ends when K have merged; those not merged last round go first."""

    name: ClassVar[str] = "cfcfm"
    citation: ClassVar[str] = "Wu et al. 2020"
    reading: Reading = "fresh"
    """What an absent client contributes: the current global model (fresh) or its latest upload (cache)."""

    @property
    def combines(self) -> Full:
        """Sum over all clients."""
        return Full(self.reading)

    def start(self, population: Population, weights: Vector) -> State:
        """Nobody has merged."""
        return {**super().start(population, weights), MERGED: np.zeros(len(population), np.int8)}

    def learn(self, state: State, population: Population, reports: Sequence[Report]) -> State:
        """Remember who merged this round."""
        merged = np.zeros(len(population), np.int8)
        merged[[report.client for report in reports]] = 1
        return {**state, MERGED: merged}

    def select(self, state: State, population: Population, rng: np.random.Generator) -> Selection:
        """Ask everybody, for K submissions."""
        everybody = np.arange(len(population))
        return Selection(everybody, np.ones_like(everybody), quota=population.cohort, first=state[MERGED] == 0)
