"""FedAvg: a uniform cohort, full aggregation.

McMahan, Moore, Ramage, Hampson, Agüera y Arcas: Communication-efficient learning of deep networks from decentralized
data. AISTATS 2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedprof.algorithms.aggregation import Full, Reading
from fedprof.algorithms.base import Algorithm, Population, Selection, State
from fedprof.algorithms.draws import uniform


@dataclass(frozen=True)
class FedAvg(Algorithm):
    """Uniform selection, full aggregation."""

    name: ClassVar[str] = "fedavg"
    citation: ClassVar[str] = "McMahan et al. 2017"
    reading: Reading = "fresh"
    """What an absent client contributes: the current global model (fresh) or its latest upload (cache)."""

    @property
    def combines(self) -> Full:
        """Sum over all clients."""
        return Full(self.reading)

    def select(self, state: State, population: Population, rng: np.random.Generator) -> Selection:
        """Draw uniformly."""
        return uniform(population, rng)
