"""Active federated learning: clients whose data the model fits badly are drawn more often.

Goetz, Malik, Bui, Moon, Liu, Kumar: Active federated learning. 2019. A client's valuation is
v_k = (1/sqrt(n_k)) * sum of its samples' losses = sqrt(n_k) * its mean loss, refreshed only when it trains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedprof.algorithms.aggregation import ServerMomentum
from fedprof.algorithms.base import CLIENT, Algorithm, Population, Report, Selection, State, Vector
from fedprof.core.sampling import sample
from fedprof.core.scores import normalise

LOSS = CLIENT + "loss"


@dataclass(frozen=True)
class AFL(Algorithm):
    """Selection by local-loss valuation, momentum on the server."""

    name: ClassVar[str] = "afl"
    citation: ClassVar[str] = "Goetz et al. 2019"
    alpha1: Annotated[float, Field(ge=0, lt=1)] = 0.75
    """Share of clients, those valued lowest, left out of the draw by value (as in the paper; not the share kept)."""
    alpha2: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.01
    """Sharpness of the softmax over valuations."""
    alpha3: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Share of the cohort drawn uniformly from the rest, rounded down: at 0.1 nobody in cohorts below ten."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """Momentum on the server."""

    @property
    def combines(self) -> ServerMomentum:
        """Plain mean with server momentum."""
        return ServerMomentum(self.momentum)

    def start(self, population: Population, weights: Vector) -> State:
        """No client has been valued."""
        return {**super().start(population, weights), LOSS: np.full(len(population), np.nan)}

    def learn(self, state: State, population: Population, reports: Sequence[Report]) -> State:
        """Refresh the losses of those who trained."""
        losses = state[LOSS].copy()
        for report in reports:
            if report.loss is not None:
                losses[report.client] = report.loss
        return {**state, LOSS: losses}

    def valuations(self, state: State, population: Population) -> NDArray[np.float64]:
        """v_k = sqrt(n_k) * mean loss; a client not valued yet counts with the highest loss seen, so it is tried."""
        losses = state[LOSS].astype(np.float64)
        known = np.isfinite(losses)
        unknown = losses[known].max() if known.any() else 1.0
        values: NDArray[np.float64] = np.sqrt(population.sizes) * np.where(known, losses, unknown)
        return values

    def weights_by_value(self, state: State, population: Population) -> NDArray[np.float64]:
        """Log-weights of the draw by value: the lowest alpha1 share gets -inf; ties with the lowest kept are kept."""
        values = self.valuations(state, population)
        lowest_kept = np.sort(values)[int(self.alpha1 * len(values))]
        return np.where(values < lowest_kept, -np.inf, self.alpha2 * values)

    def select(self, state: State, population: Population, rng: np.random.Generator) -> Selection:
        """Draw (1 - alpha3) K by value, the others uniformly from the rest."""
        weights = self.weights_by_value(state, population)
        wanted = population.cohort - int(self.alpha3 * population.cohort)
        chosen = sample(weights, min(wanted, int(np.isfinite(weights).sum())), rng)
        rest = np.setdiff1d(np.arange(len(population)), chosen)
        return Selection.of(np.concatenate([chosen, rng.permutation(rest)[: population.cohort - len(chosen)]]))

    def scores(self, state: State, population: Population) -> NDArray[np.float64]:
        """Probability of each client in the draw by value."""
        return normalise(self.weights_by_value(state, population))
