"""FedAdam: the server treats the mean client update as a gradient and takes a step of Adam.

Leroy, Coucke, Lavril, Gisselbrecht, Dureau: Federated learning for keyword spotting. ICASSP 2019.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from fedprof.algorithms.aggregation import ServerAdam
from fedprof.algorithms.base import Algorithm, Population, Selection, State
from fedprof.algorithms.draws import uniform


@dataclass(frozen=True)
class FedAdam(Algorithm):
    """Uniform selection, Adam on the server."""

    name: ClassVar[str] = "fedadam"
    citation: ClassVar[str] = "Leroy et al. 2019"
    server_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.001
    """Adam's rate on the server."""
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Decay of the first moment."""
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.999
    """Decay of the second moment."""

    @property
    def combines(self) -> ServerAdam:
        """Adam on the mean update."""
        return ServerAdam(self.server_rate, self.beta1, self.beta2)

    def select(self, state: State, population: Population, rng: np.random.Generator) -> Selection:
        """Draw uniformly."""
        return uniform(population, rng)
