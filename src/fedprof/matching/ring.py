"""The ring R = Z_Q[X] / (X^N + 1) of the ``masked`` scheme: arithmetic, samplers and the security parameters.

A polynomial is an array of shape (primes, N): its values at the 2N-th roots of unity modulo each prime ("transformed"),
so that products are element-wise. Nothing is ever transformed back: all that is read from a product is its constant
coefficient, which is the mean of those values.

Security: N = 8192 and a 214-bit Q, uniform ternary secrets and errors of standard deviation 3.24. For 128-bit security
against classical attacks the guidelines of 2024 (ePrint 2024/463, table 5.2) allow 214 bits at this N, and the
Homomorphic Encryption Standard of 2018 (table 1) 218; tests/matching/test_matching_ring.py has SEAL confirm these very
primes against the latter.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

Residues = NDArray[np.uint64]

N = 8192
PRIMES = (2147352577, 2147205121, 2147074049, 2146959361, 2146713601, 2146418689, 268369921)
"""The six largest primes below 2**31, and the largest below 2**28, that are 1 modulo 2N."""
Q = math.prod(PRIMES)
ERROR_BITS = 21
"""Errors are centred binomial: the difference of two sums of this many fair bits (variance 10.5), as in SEAL."""
SEED_BYTES = 32
POLYNOMIAL_BYTES = 4 * len(PRIMES) * N
SCALAR_BYTES = 28
"""Enough for a number below Q."""

_P = np.array(PRIMES, dtype=np.uint64)[:, None]
_SPARE = 512  # a word is rejected with probability below 6e-4; 512 rejections do not happen


def transform(coefficients: Residues) -> Residues:
    """The values at the roots of unity of the polynomial with these coefficients: a negacyclic transform.

    Each stage splits every block modulo X^n - r^2 into blocks modulo X^(n/2) - r and X^(n/2) + r. Blocks lie
    interleaved, so every stage works on the two halves of the array.
    """
    values = coefficients
    half = N // 2
    for root, quotient in _twiddles():
        low, high = values[:, :half], values[:, half:]
        turned = _reduced(high * root - (high * quotient >> np.uint64(32)) * _P)  # Shoup's modular product
        values = np.empty_like(values)
        values[:, 0::2] = _reduced(low + turned)
        values[:, 1::2] = _reduced(low + _P - turned)
    return values


def times(a: Residues, b: Residues) -> Residues:
    """The element-wise product: that of two transformed polynomials."""
    product: Residues = a * b % _P
    return product


def plus(a: Residues, b: Residues) -> Residues:
    """The sum of two polynomials."""
    return _reduced(a + b)


def minus(a: Residues, b: Residues) -> Residues:
    """The difference of two polynomials."""
    return _reduced(a + _P - b)


def constant(values: Residues) -> int:
    """The constant coefficient of a transformed polynomial, modulo Q."""
    return _combine(values.sum(axis=1, dtype=np.uint64)) * pow(N, -1, Q) % Q  # 8192 values of 31 bits fit in 64


def centred(number: int) -> int:
    """The representative of a number modulo Q that is nearest to zero."""
    return (number + Q // 2) % Q - Q // 2


def fixed_point(values: ArrayLike, bits: int) -> Residues:
    """The residues of the numbers rint(value * 2**bits), exact however large they are: shape (primes, values)."""
    fraction, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    shift = np.maximum(exponent + bits - 53, 0)
    integers = np.rint(np.ldexp(fraction, exponent + bits - shift)).astype(np.int64)
    powers = np.array([[pow(2, power, p) for power in range(shift.max() + 1)] for p in PRIMES], dtype=np.uint64)
    residues = (integers % _P.astype(np.int64)).astype(np.uint64)
    return times(residues, powers[:, shift])


def polynomial(coefficients: Residues) -> Residues:
    """The transformed polynomial with these coefficients, at most N of them."""
    return transform(np.pad(coefficients, ((0, 0), (0, N - coefficients.shape[1]))))


def reversed_polynomial(coefficients: Residues) -> Residues:
    """The polynomial whose product with ``polynomial(b)`` has their inner product as its constant coefficient."""
    padded = np.pad(coefficients, ((0, 0), (0, N - coefficients.shape[1])))
    padded[:, 1:] = minus(np.zeros_like(padded[:, 1:]), padded[:, :0:-1])
    return transform(padded)


def inner(a: Residues, b: Residues) -> int:
    """The inner product of two rows of residues, modulo Q."""
    return _combine(times(a, b).sum(axis=1, dtype=np.uint64))


def expand(seed: bytes, label: str) -> Residues:
    """A public uniform polynomial from a seed, by SHAKE-256; nobody can choose it."""
    rows = []
    for index, prime in enumerate(PRIMES):
        stream = hashlib.shake_256(seed + f"{label}/{index}".encode()).digest(4 * (N + _SPARE))
        words = np.frombuffer(stream, dtype="<u4") & ((1 << prime.bit_length()) - 1)
        rows.append(words[words < prime][:N])
    return np.array(rows, dtype=np.uint64)


def secret(seed: bytes) -> Residues:
    """A transformed polynomial with uniform coefficients in {-1, 0, 1}; as secret as its seed."""
    stream = np.frombuffer(hashlib.shake_256(seed + b"secret").digest(N + _SPARE), dtype=np.uint8)
    return transform(small(stream[stream < 255][:N].astype(np.int64) % 3 - 1))


def error() -> Residues:
    """The coefficients of a fresh error polynomial."""
    return small(error_coefficients(N))


def error_coefficients(count: int) -> NDArray[np.int64]:
    """Independent draws from the error distribution, from the system's random source."""
    packed = np.frombuffer(secrets.token_bytes(6 * count), dtype=np.uint8).reshape(count, 6)
    bits = np.unpackbits(packed, axis=1)
    plus_ones, minus_ones = bits[:, :ERROR_BITS], bits[:, ERROR_BITS : 2 * ERROR_BITS]
    draws: NDArray[np.int64] = plus_ones.sum(axis=1, dtype=np.int64) - minus_ones.sum(axis=1, dtype=np.int64)
    return draws


def small(coefficients: NDArray[np.int64]) -> Residues:
    """The residues of integers far smaller than every prime."""
    return np.where(coefficients < 0, coefficients + _P.astype(np.int64), coefficients).astype(np.uint64)


def to_bytes(values: Residues) -> bytes:
    """A polynomial as ``POLYNOMIAL_BYTES`` of little-endian 32-bit words."""
    return values.astype("<u4").tobytes()


def from_bytes(data: bytes) -> Residues:
    """Read a polynomial; ``ValueError`` if a word is not below its prime."""
    values = np.frombuffer(data, dtype="<u4").reshape(len(PRIMES), N).astype(np.uint64)
    if (values >= _P).any():
        raise ValueError("a coefficient is not reduced modulo its prime")
    return values


def _combine(sums: NDArray[np.uint64]) -> int:
    weights = zip(sums, _crt(), strict=True)
    return sum(int(residue) * weight for residue, weight in weights) % Q


def _reduced(values: Residues) -> Residues:
    reduced: Residues = np.minimum(values, values - _P)  # values are below 2p; below p, the difference wraps to huge
    return reduced


@cache
def _crt() -> tuple[int, ...]:
    return tuple(Q // p * pow(Q // p, -1, p) for p in PRIMES)


@cache
def _twiddles() -> tuple[tuple[Residues, Residues], ...]:
    """For every stage the root of each pair of elements, and Shoup's 2**32 * root / p."""
    exponents = np.array([N // 2])
    stages = []
    while len(exponents) < N:
        roots = np.array([[pow(_root(p), int(e), p) for e in exponents] for p in PRIMES], dtype=np.uint64)
        tiled = np.tile(roots, N // 2 // len(exponents))
        stages.append((tiled, (tiled << np.uint64(32)) // _P))
        exponents = np.stack([exponents // 2, exponents // 2 + N // 2], axis=1).ravel()
    return tuple(stages)


@cache
def _root(prime: int) -> int:
    """A primitive 2N-th root of unity."""
    candidates = (pow(base, (prime - 1) // (2 * N), prime) for base in range(2, prime))
    return next(root for root in candidates if pow(root, N, prime) == prime - 1)
