"""The gate every reply passes before it may touch the global model, whatever brought it here."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fedprof.algorithms.base import Reply, Vector


def fault(reply: Reply, weights: Vector) -> str | None:
    """Say why a reply must not be used, or None."""
    if reply.weights.shape != weights.shape:
        return f"wrong shape: {reply.weights.shape} weights, expected {weights.shape}"
    if reply.weights.dtype != np.float32:
        return f"wrong type: {reply.weights.dtype} weights, expected float32"
    if not np.isfinite(reply.weights).all():
        return "non-finite weights"
    if reply.loss is not None and not np.isfinite(reply.loss):
        return "non-finite loss"
    if reply.divergence is not None and not (np.isfinite(reply.divergence) and reply.divergence >= 0):
        return f"impossible divergence: {reply.divergence}"
    return None


def gate(replies: Iterable[Reply], weights: Vector) -> tuple[list[Reply], dict[int, str]]:
    """Split replies into those accepted, in client order, and those dropped, by client and with the reason.

    A second reply of the same client is dropped: which of the two counted would depend on the order of arrival.
    """
    accepted: dict[int, Reply] = {}
    dropped: dict[int, str] = {}
    for reply in sorted(replies, key=lambda reply: reply.client):
        reason = "answered twice" if reply.client in accepted or reply.client in dropped else fault(reply, weights)
        if reason is None:
            accepted[reply.client] = reply
        else:
            dropped[reply.client] = reason
            accepted.pop(reply.client, None)
    return list(accepted.values()), dropped
