"""Named random streams: the only source of randomness in the package.

A stream is a pure function of ``(seed, purpose, round, client)``. The key of a Philox counter generator is a hash of
the run's seed and the purpose; round and client sit in the upper words of its counter. Streams therefore never overlap
(each has 2**128 draws of its own), can be made in any order, on any worker, and cost microseconds.
"""

from __future__ import annotations

import hashlib
from operator import index

import numpy as np


def stream(seed: int, purpose: str, round: int = 0, client: int = 0) -> np.random.Generator:
    """Return the generator for one purpose of one client in one round of one run."""
    digest = hashlib.blake2b(f"{index(seed)}/{purpose}".encode(), digest_size=16).digest()
    counter = np.array([0, 0, index(client), index(round)], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=np.frombuffer(digest, dtype="<u8"), counter=counter))


def integer_seed(seed: int, purpose: str, round: int = 0, client: int = 0) -> int:
    """A 63-bit seed for a library that wants an integer (PyTorch generators, compiled kernels)."""
    return int(stream(seed, purpose, round, client).integers(2**63))
