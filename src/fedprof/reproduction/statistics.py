"""Paired tests over seeds: runs of one seed share their data, their damage, their devices and their first model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

LEVEL = 0.05


@dataclass(frozen=True)
class Paired:
    """FedProf minus a baseline, seed by seed."""

    count: int
    difference: float
    low: float | None
    high: float | None
    """95 % confidence interval of the mean difference (Student's t); None with a single seed."""
    t_test: float | None
    """Two-sided p of the paired t-test."""
    wilcoxon: float | None
    """Two-sided p of Wilcoxon's signed-rank test (exact); with five seeds it cannot fall below 0.0625."""

    @property
    def significant(self) -> bool:
        """Whether the t-test's p is below the level."""
        return self.t_test is not None and self.t_test < LEVEL


def paired(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Paired | None:
    """Compare over the seeds that both have; None where there is none."""
    seeds = sorted(ours.keys() & theirs.keys())
    if not seeds:
        return None
    differences = np.array([ours[seed] - theirs[seed] for seed in seeds])
    mean = float(differences.mean())
    if len(differences) < 2 or np.ptp(differences) == 0:
        return Paired(len(differences), mean, None, None, None, None)
    from scipy import stats

    test = stats.ttest_1samp(differences, 0.0)
    interval = test.confidence_interval(0.95)
    signed = stats.wilcoxon(differences) if np.any(differences) else None
    return Paired(
        len(differences),
        mean,
        float(interval.low),
        float(interval.high),
        float(test.pvalue),
        None if signed is None else float(signed.pvalue),
    )
