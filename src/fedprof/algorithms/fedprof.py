"""FedProf: clients are drawn by how well the profile of their data matches the server's (Algorithm 1 of the paper).

Wu, He, Lin, Maple: FedProf: Selective federated learning based on distributional representation profiling. IEEE
Transactions on Parallel and Distributed Systems 34(6), 2023.

The comments name the lines of Algorithm 1. A client's divergence is fixed once its profile meets the baseline of the
same model version (line 8), so the server keeps a number and a version a client, and the baselines of recent versions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedprof.algorithms.aggregation import Full, Partial, Reading
from fedprof.algorithms.base import CLIENT, Aggregation, Algorithm, Population, Report, Selection, State, Vector
from fedprof.core.divergence import divergence
from fedprof.core.profile import Profile
from fedprof.core.sampling import sample
from fedprof.core.scores import log_scores, normalise

DIVERGENCE, VERSION = CLIENT + "divergence", CLIENT + "version"
BASELINE = "baseline/"


@dataclass(frozen=True)
class FedProf(Algorithm):
    """Weighted random selection by score; full or partial aggregation."""

    name: ClassVar[str] = "fedprof"
    citation: ClassVar[str] = "Wu et al. 2023"
    profiles: ClassVar[bool] = True
    alpha: Annotated[float, Field(ge=0, allow_inf_nan=False)] | Literal["optimal"] = 10.0
    """Penalty factor; 0 selects at random, "optimal" draws by data size (Theorem 1: q_k = rho_k)."""
    aggregation: Literal["full", "partial"] = "partial"
    """Aggregation mode."""
    reading: Reading = "fresh"
    """In full aggregation: what an absent client contributes."""
    replace: bool = False
    """Draw with replacement, as Lemmas 4 and 5 assume."""
    memory: Annotated[int, Field(ge=1)] = 2
    """How many versions' baselines to keep for profiles that arrive late."""

    @property
    def combines(self) -> Aggregation:
        """Combine in the mode asked for."""
        return Full(self.reading) if self.aggregation == "full" else Partial()

    def start(self, population: Population, weights: Vector) -> State:
        """Lines 2 and 5: version 0 everywhere; no divergence is known."""
        unknown = np.full(len(population), np.nan)
        versions = np.zeros(len(population), np.int64)
        return {**super().start(population, weights), DIVERGENCE: unknown, VERSION: versions}

    def publish(self, state: State, version: int, baseline: Profile) -> State:
        """Lines 6, 17 and 18: RP^B(v) of a new version; baselines too old to be needed are dropped."""
        kept = {name: value for name, value in state.items() if not _outdated(name, version - self.memory)}
        return {**kept, f"{BASELINE}{version}": np.stack([baseline.mean, baseline.variance])}

    def learn(self, state: State, population: Population, reports: Sequence[Report]) -> State:
        """Lines 4, 8, 12 and 15: div(RP_k(v_k), RP^B(v_k)) for every profile that came in; the newest counts."""
        divergences, versions = state[DIVERGENCE].copy(), state[VERSION].copy()
        for report in reports:
            k, version = report.client, report.version if report.profile is None else report.profile.version
            value = report.divergence if report.profile is None else self.compare(state, report.profile)
            if value is not None and version >= versions[k]:
                divergences[k], versions[k] = max(value, 0.0), version
        return {**state, DIVERGENCE: divergences, VERSION: versions}

    def compare(self, state: State, profile: Profile) -> float | None:
        """Compare a profile with the baseline of its own version; None if none that is kept fits it."""
        kept = state.get(f"{BASELINE}{profile.version}")
        if kept is None or kept.shape[1] != profile.q:
            return None
        return divergence(profile, Profile(kept[0], kept[1], count=1, version=profile.version))

    def log_lambda(self, state: State, population: Population) -> NDArray[np.float64]:
        """Line 9: log lambda_k. A client without a profile counts with the median divergence (the neutral score)."""
        divergences = state[DIVERGENCE].astype(np.float64)
        known = np.isfinite(divergences)
        if not known.all():
            divergences[~known] = np.median(divergences[known]) if known.any() else 0.0
        return log_scores(divergences, self.alpha, sizes=population.sizes)

    def select(self, state: State, population: Population, rng: np.random.Generator) -> Selection:
        """Line 10: choose K clients by lambda_k / Lambda."""
        return Selection.of(sample(self.log_lambda(state, population), population.cohort, rng, self.replace))

    def scores(self, state: State, population: Population) -> NDArray[np.float64]:
        """lambda_k / Lambda."""
        return normalise(self.log_lambda(state, population))

    def divergences(self, state: State) -> NDArray[np.float64]:
        """Last known divergence of each client."""
        return state[DIVERGENCE].astype(np.float64)


def _outdated(name: str, version: int) -> bool:
    return name.startswith(BASELINE) and int(name.removeprefix(BASELINE)) <= version
