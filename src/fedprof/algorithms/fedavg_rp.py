"""FedAvg-RP: FedAvg with partial aggregation, in the two schemes that Li et al. prove to converge.

Li, Huang, Yang, Wang, Zhang: On the convergence of FedAvg on non-IID data. ICLR 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedprof.algorithms.aggregation import Partial, SchemeTwo
from fedprof.algorithms.base import Algorithm, Population, Selection, State
from fedprof.algorithms.draws import by_size, uniform


@dataclass(frozen=True)
class FedAvgRP(Algorithm):
    """Scheme II draws uniformly and sums (N/K) p_k theta_k; Scheme I draws by p_k with replacement and averages."""

    name: ClassVar[str] = "fedavg-rp"
    citation: ClassVar[str] = "Li et al. 2020"
    scheme: Literal["I", "II"] = "II"
    """Which of Li et al.'s two schemes."""

    @property
    def combines(self) -> Partial:
        """Combine as the scheme says."""
        return SchemeTwo() if self.scheme == "II" else Partial()

    def select(self, state: State, population: Population, rng: np.random.Generator) -> Selection:
        """Draw as the scheme says."""
        return uniform(population, rng) if self.scheme == "II" else by_size(population, rng, replace=True)
