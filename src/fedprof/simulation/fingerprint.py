"""Digests that tell models and data apart."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedprof.data.clients import ClientData, Samples

SLICE_BYTES = 1 << 24


def fingerprint(weights: NDArray[np.generic]) -> str:
    """SHA-256 of a model's weights, float32 little-endian."""
    return hashlib.sha256(weights.astype("<f4").tobytes()).hexdigest()


def data_fingerprint(clients: ClientData, validation: Samples) -> str:
    """Digest of every sample, of who holds which, and of what the server holds."""
    digest = hashlib.blake2b(digest_size=16)
    for samples in (clients.pool, validation):
        for array in (samples.x, samples.y, samples.shift, samples.scale):
            _add(digest, array)
    _add(digest, clients.offsets)
    if clients.rows is not None:
        _add(digest, clients.rows)
    return digest.hexdigest()


def server_fingerprint(clients: ClientData, validation: Samples) -> str:
    """Digest of what does not depend on who holds which sample: the validation set, and how inputs are scaled."""
    digest = hashlib.blake2b(digest_size=16)
    for array in (
        validation.x,
        validation.y,
        validation.shift,
        validation.scale,
        clients.pool.shift,
        clients.pool.scale,
    ):
        _add(digest, array)
    return digest.hexdigest()


def _add(digest: Any, array: NDArray[np.generic]) -> None:
    """Slice by slice, so that mapped data need not fit in memory."""
    digest.update(f"{array.dtype.str}{array.shape}".encode())
    flat = np.ravel(array)
    step = max(1, SLICE_BYTES // max(1, flat.itemsize))
    for start in range(0, len(flat), step):
        digest.update(np.ascontiguousarray(flat[start : start + step]))
