"""FedProx: clients drawn by data size, a proximal term in their objective, plain mean.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith: Federated optimization in heterogeneous networks. MLSys 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedprof.algorithms.aggregation import Partial
from fedprof.algorithms.base import Algorithm, Population, Selection, State
from fedprof.algorithms.draws import by_size


@dataclass(frozen=True)
class FedProx(Algorithm):
    """Weighted random selection by data size; clients minimise F_k(w) + (mu/2) ||w - w_t||^2."""

    name: ClassVar[str] = "fedprox"
    citation: ClassVar[str] = "Li et al. 2020 (MLSys)"
    mu: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.01
    """Weight of the proximal term; 0 leaves FedAvg's local step."""
    replace: bool = False
    """Draw with replacement."""

    @property
    def proximal(self) -> float:
        """Weight mu of the proximal term in the clients' objective."""
        return self.mu

    @property
    def combines(self) -> Partial:
        """Plain mean."""
        return Partial()

    def select(self, state: State, population: Population, rng: np.random.Generator) -> Selection:
        """Draw by data size."""
        return by_size(population, rng, replace=self.replace)
