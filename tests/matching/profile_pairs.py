"""Profiles to match."""

import numpy as np
from hypothesis import strategies as st

from fedprof.core.profile import Profile


def pair(q, seed=0, version=3):
    """A client's profile and a baseline, of ordinary size."""
    rng = np.random.default_rng(seed)
    return tuple(Profile(rng.normal(size=q), rng.random(q) + 0.05, 100, version) for _ in range(2))


@st.composite
def pairs(draw, largest_mean=1e4, variances=(-6.0, 6.0), longest=20):
    """Profiles with variances over ``variances`` decades (or zero) and baselines that are equal, near or far away."""
    q = draw(st.integers(1, longest))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    mean = np.clip(rng.normal(size=q) * 10 ** rng.uniform(-6, 4, q), -largest_mean, largest_mean)
    variance = 10 ** rng.uniform(*variances, q) * (rng.random(q) > draw(st.sampled_from([0.0, 0.3])))
    distance = rng.choice([0.0, 0.1, 1.0, 30.0], q) * np.sqrt(variance)
    there = np.clip(mean + distance * rng.normal(size=q), -largest_mean, largest_mean)
    ratio = 10 ** (rng.uniform(-2, 2, q) * draw(st.sampled_from([0.0, 1.0])))
    return Profile(mean, variance, 10, 1), Profile(there, np.minimum(variance * ratio, 10 ** variances[1]), 10, 1)
