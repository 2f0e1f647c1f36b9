"""Draws that several algorithms share."""

from __future__ import annotations

import numpy as np

from fedprof.algorithms.base import Population, Selection
from fedprof.core.sampling import sample


def uniform(population: Population, rng: np.random.Generator) -> Selection:
    """Draw K clients without replacement, all alike."""
    return Selection.of(sample(np.zeros(len(population)), population.cohort, rng))


def by_size(population: Population, rng: np.random.Generator, *, replace: bool) -> Selection:
    """Draw K clients by rho_k, their share of the data."""
    return Selection.of(sample(np.log(population.shares), population.cohort, rng, replace))
