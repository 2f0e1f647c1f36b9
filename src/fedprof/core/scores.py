"""Client scores, lambda_k = exp(-alpha_k * div_k) (equation 8), kept as logarithms so that they never underflow."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedprof.errors import ProfileError, SettingsError

Vector = NDArray[np.float64]
Alpha = ArrayLike | Literal["optimal"]
"""A penalty factor for all clients, one per client, or ``"optimal"`` (Theorem 1)."""


def scores(divergences: ArrayLike, alpha: Alpha = 10.0, sizes: ArrayLike | None = None) -> Vector:
    """Selection probabilities lambda_k / Lambda: they add up to 1, whatever the divergences.

    ``alpha`` is one penalty factor, one per client, or ``"optimal"``, which needs the clients' data ``sizes``.
    To select clients, hand ``log_scores`` to ``sample``: probabilities too small for a float are zero here, not there.
    """
    return normalise(log_scores(divergences, alpha, sizes))


def log_scores(divergences: ArrayLike, alpha: Alpha = 10.0, sizes: ArrayLike | None = None) -> Vector:
    """Logarithms of the scores, log lambda_k = -alpha_k * div_k.

    With ``alpha="optimal"`` this is log(rho_k / max rho): the penalties of Theorem 1 (see ``optimal_alpha``) cancel the
    divergences, so that each client is drawn with probability rho_k, its share of the data.
    """
    div = _checked_divergences(divergences)
    if isinstance(alpha, str):
        if alpha != "optimal":
            raise SettingsError(f"alpha is {alpha!r}; it must be a number, one number per client, or 'optimal'")
        return _log_relative_sizes(sizes, len(div))
    with np.errstate(over="ignore"):
        return np.maximum(-_checked_alpha(alpha, len(div)) * div, np.finfo(np.float64).min)


def optimal_alpha(divergences: ArrayLike, sizes: ArrayLike) -> Vector:
    """Theorem 1's penalty factors, alpha_k = -ln(Lambda * rho_k) / div_k, for which q_k = lambda_k / Lambda = rho_k.

    Lambda is free: scores lambda_k = Lambda * rho_k add up to Lambda whatever it is. Lambda = 1 / max rho is the
    largest with no negative penalty; the client with most data gets 0. A client with divergence 0 has score 1 under
    every finite penalty: it gets 0 if it has most data, infinity otherwise (``log_scores`` with
    ``"optimal"`` is right there too).
    """
    div = _checked_divergences(divergences)
    needed = -_log_relative_sizes(sizes, len(div))  # alpha_k * div_k
    alpha = np.where(needed > 0, np.inf, 0.0)
    np.divide(needed, div, out=alpha, where=div > 0)
    return alpha


def normalise(log_weights: ArrayLike) -> Vector:
    """Probabilities proportional to exp(log_weights), computed relative to the largest, so never 0 / 0."""
    logs = np.asarray(log_weights, dtype=np.float64)
    weights: Vector = np.exp(logs - logs.max())
    weights /= weights.sum()
    return weights


def _checked_divergences(divergences: ArrayLike) -> Vector:
    div = np.asarray(divergences, dtype=np.float64)
    if div.ndim != 1 or not len(div):
        raise ProfileError(f"divergences have shape {div.shape}; one per client is needed")
    _reject_bad(div, "divergence", ProfileError)
    return div


def _checked_alpha(alpha: ArrayLike, clients: int) -> Vector:
    values = np.asarray(alpha, dtype=np.float64)
    if values.shape not in ((), (clients,)):
        raise SettingsError(
            f"alpha has shape {values.shape}; it must be one number or one for each of {clients} clients"
        )
    _reject_bad(np.atleast_1d(values), "alpha", SettingsError)
    return values


def _log_relative_sizes(sizes: ArrayLike | None, clients: int) -> Vector:
    if sizes is None:
        raise SettingsError("alpha='optimal' needs the clients' data sizes: pass sizes=")
    values = np.asarray(sizes, dtype=np.float64)
    if values.shape != (clients,):
        raise SettingsError(f"sizes have shape {values.shape}; one for each of {clients} clients is needed")
    _reject_bad(values, "size", SettingsError)
    if not values.all():
        raise SettingsError(f"size {int(values.argmin())} is 0: a client without data cannot be given a share")
    logs: Vector = np.log(values / values.max())
    return logs


def _reject_bad(values: Vector, name: str, error: type[ProfileError | SettingsError]) -> None:
    good = np.isfinite(values) & (values >= 0)
    if not good.all():
        where = int(good.argmin())
        raise error(f"{name} {where} is {values[where]}; it must be finite and not negative")
