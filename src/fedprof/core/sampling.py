"""Choosing clients by their scores (Algorithm 1, line 10), in log space."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedprof.core.scores import normalise
from fedprof.errors import SettingsError


def sample(log_weights: ArrayLike, k: int, rng: np.random.Generator, replace: bool = False) -> NDArray[np.int64]:
    """Draw ``k`` indices with weights exp(log_weights), in the order drawn.

    Without replacement, by the Gumbel top-k trick: adding independent Gumbel noise to the logarithms and taking the k
    largest is the same as drawing one after the other, each by its weight among those left (Vieira 2014; Kool et al.
    2019). With replacement, the draws are independent, as Lemmas 4 and 5 of the paper assume. A weight of ``-inf`` is
    never drawn.
    """
    logs = np.asarray(log_weights, dtype=np.float64)
    _check(logs, k, replace)
    if not k:
        return np.zeros(0, np.int64)
    if replace:
        return rng.choice(len(logs), size=k, p=normalise(logs)).astype(np.int64)
    keys = rng.gumbel(size=len(logs))
    keys += logs - logs.max()  # relative to the largest, so that the noise is not lost beside huge divergences
    drawn = np.argpartition(keys, len(keys) - k)[len(keys) - k :]
    return drawn[np.argsort(-keys[drawn])].astype(np.int64)


def _check(logs: NDArray[np.float64], k: int, replace: bool) -> None:
    if logs.ndim != 1:
        raise SettingsError(f"log weights have shape {logs.shape}; one per client is needed")
    if k < 0:
        raise SettingsError(f"cannot draw k = {k} clients")
    if np.isnan(logs).any() or np.isposinf(logs).any():
        raise SettingsError("a log weight is NaN or +infinity; weights must be finite (-infinity: never draw)")
    possible = int(np.count_nonzero(logs > -np.inf))
    if k and (not possible if replace else k > possible):
        raise SettingsError(
            f"cannot draw {k} clients {'with' if replace else 'without'} replacement: only {possible} can be drawn"
        )
