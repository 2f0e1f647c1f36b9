"""Dissimilarity of two profiles: mean closed-form KL divergence, section III-B (``eq:RP_div``, ``eq:KL_div``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedprof.core.profile import Profile
from fedprof.errors import ProfileError

VARIANCE_FLOOR = 1e-12
"""Variances below this count as this much, on both sides.

A constant feature, a dead ReLU or a one-sample client has variance 0, where the KL divergence is infinite. A standard
deviation of 1e-6 is about the rounding noise of float32 activations of ordinary size, so the floor changes nothing that
was measured. What remains is finite and large: an element constant at a client but not at the server adds 13 nats (at
baseline variance 1); one constant at the server but not at the client, variance / 2e-12; one constant at both,
nothing if the means agree. The floor is absolute, not relative to the baseline, so that a client that never sees the
baseline (encrypted matching takes the logarithm before it encrypts) applies the same one as the server.
"""


@overload
def divergence(client: Profile, baseline: Profile) -> float: ...
@overload
def divergence(client: Iterable[Profile], baseline: Profile) -> NDArray[np.float64]: ...
def divergence(client: Profile | Iterable[Profile], baseline: Profile) -> float | NDArray[np.float64]:
    """Mean KL divergence from the client's normal distributions to the baseline's, over the q elements, in nats.

    For one profile a float, for several an array. It is 0 exactly for equal profiles (after ``VARIANCE_FLOOR``) and
    positive otherwise. This is the true divergence, with the -1/2 that the paper's equation ``eq:KL_div`` drops but its
    appendix on encryption keeps: without it equal profiles would have 1/2. With one alpha for all clients that
    constant multiplies every score by the same factor and cancels in the selection probabilities; with alpha per client
    it does not.
    """
    if isinstance(client, Profile):
        return float(divergence([client], baseline)[0])
    profiles = list(client)
    for position, profile in enumerate(profiles):
        _check_comparable(profile, baseline, position)
    means = np.array([p.mean for p in profiles]).reshape(-1, baseline.q)
    variances = np.array([p.variance for p in profiles]).reshape(-1, baseline.q)
    return divergence_arrays(means, variances, baseline)


def divergence_arrays(mean: ArrayLike, variance: ArrayLike, baseline: Profile) -> NDArray[np.float64]:
    """As ``divergence``, for the ``(N, q)`` means and variances of N profiles of the baseline's version."""
    means, variances = np.asarray(mean, np.float64), np.asarray(variance, np.float64)
    if means.ndim != 2 or means.shape != variances.shape or means.shape[1] != baseline.q:
        raise ProfileError(f"means {means.shape} and variances {variances.shape} do not match (N, q = {baseline.q})")
    if not (np.isfinite(means).all() and np.isfinite(variances).all() and (variances >= 0).all()):
        raise ProfileError("means and variances must be finite, and variances not negative")
    ours, theirs = (
        np.maximum(variances, VARIANCE_FLOOR),
        np.maximum(baseline.variance.astype(np.float64), VARIANCE_FLOOR),
    )
    gap = ours - theirs
    # log(ours / theirs), exact also where the two are nearly equal or worlds apart.
    log_ratio = np.copysign(np.log1p(np.abs(gap) / np.minimum(ours, theirs)), gap)
    shift = np.square(means - baseline.mean)
    result: NDArray[np.float64] = 0.5 * ((gap + shift) / theirs - log_ratio).mean(axis=1)
    return result


def _check_comparable(profile: Profile, baseline: Profile, position: int) -> None:
    if profile.q != baseline.q:
        raise ProfileError(
            f"profile {position} has q = {profile.q} but the baseline has q = {baseline.q}: not the same layer"
        )
    if profile.version != baseline.version:
        raise ProfileError(
            f"profile {position} was made by model version {profile.version} but the baseline by version "
            f"{baseline.version}; compare it with the baseline of its own version"
        )
