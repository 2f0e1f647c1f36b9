"""The gate every reply passes before it may touch the global model, whatever brought it here."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fedprof.algorithms.base import Reply, Report, Vector

LARGEST = 1e30
"""Weights and losses beyond this are no result of training, and sums of them would leave float32's range."""
NOISE = 1e-3
"""How far below 0 a divergence may be: encrypted matching is not exact, and a lie of this size gains nothing."""


def fault(reply: Reply, weights: Vector) -> str | None:
    """Say why a reply must not be used, or None."""
    return weights_fault(reply.weights, weights) or report_fault(reply)


def weights_fault(answer: Vector, weights: Vector) -> str | None:
    """Say why a client's weights cannot be combined, or None."""
    if answer.shape != weights.shape:
        return f"wrong shape: {answer.shape} weights, expected {weights.shape}"
    if answer.dtype != np.float32:
        return f"wrong type: {answer.dtype} weights, expected float32"
    return _range_fault(answer, "weights")


def report_fault(report: Report) -> str | None:
    """Say why what a client reports besides its weights cannot be used, or None."""
    if report.loss is not None and (reason := _range_fault(np.asarray(report.loss), "loss")):
        return reason
    if report.divergence is not None and not (np.isfinite(report.divergence) and report.divergence >= -NOISE):
        return f"impossible divergence: {report.divergence}"
    return None


def _range_fault(values: NDArray[np.floating], what: str) -> str | None:
    if values.min() > -LARGEST and values.max() < LARGEST:  # NaN is neither
        return None
    return f"{what} beyond {LARGEST:g}" if np.isfinite(values).all() else f"non-finite {what}"


def gate(replies: Iterable[Reply], weights: Vector) -> tuple[list[Reply], dict[int, str]]:
    """Split replies into those accepted, in client order, and those dropped, by client and with the reason.

    A client that answers twice is dropped: which answer counted would depend on the order of arrival.
    """
    by_client: dict[int, list[Reply]] = {}
    for reply in replies:
        by_client.setdefault(reply.client, []).append(reply)
    accepted, dropped = [], {}
    for client, (reply, *others) in sorted(by_client.items()):
        reason = "answered twice" if others else fault(reply, weights)
        if reason is None:
            accepted.append(reply)
        else:
            dropped[client] = reason
    return accepted, dropped
