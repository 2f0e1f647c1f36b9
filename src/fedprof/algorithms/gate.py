"""The gate every reply passes before it may touch the global model, whatever brought it here."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fedprof.algorithms.base import Reply, Report, Vector

NOISE = 1e-3
"""How far below 0 a divergence may be: encrypted matching is not exact, and a lie of this size gains nothing."""


def fault(reply: Reply, weights: Vector, profile_length: int | None = None) -> str | None:
    """Say why a reply must not be used, or None."""
    return weights_fault(reply.weights, weights) or report_fault(reply, profile_length)


def weights_fault(answer: Vector, weights: Vector) -> str | None:
    """Say why a client's weights cannot be combined, or None."""
    if answer.shape != weights.shape:
        return f"wrong shape: {answer.shape} weights, expected {weights.shape}"
    if answer.dtype != np.float32:
        return f"wrong type: {answer.dtype} weights, expected float32"
    return None if np.isfinite(answer).all() else "non-finite weights"


def report_fault(report: Report, profile_length: int | None = None) -> str | None:
    """Say why what a client reports besides its weights cannot be used, or None."""
    if report.loss is not None and not np.isfinite(report.loss):
        return "non-finite loss"
    if report.divergence is not None and not (np.isfinite(report.divergence) and report.divergence >= -NOISE):
        return f"impossible divergence: {report.divergence}"
    if report.profile is not None and profile_length not in {None, report.profile.q}:
        return f"wrong profile: {report.profile.q} elements, expected {profile_length}"
    return None


def gate(
    replies: Iterable[Reply], weights: Vector, profile_length: int | None = None
) -> tuple[list[Reply], dict[int, str]]:
    """Split replies into those accepted, in client order, and those dropped, by client and with the reason.

    A client that answers twice is dropped: which answer counted would depend on the order of arrival.
    """
    by_client: dict[int, list[Reply]] = {}
    for reply in replies:
        by_client.setdefault(reply.client, []).append(reply)
    accepted, dropped = [], {}
    for client, (reply, *others) in sorted(by_client.items()):
        reason = "answered twice" if others else fault(reply, weights, profile_length)
        if reason is None:
            accepted.append(reply)
        else:
            dropped[client] = reason
    return accepted, dropped
