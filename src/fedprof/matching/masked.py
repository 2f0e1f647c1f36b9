"""Profiles under encryption: the server learns one number a profile, the client next to nothing about the baseline.

The server knows its own baseline, so the divergence (``eq:RP_div``) is linear in what only the client knows::

    2 q div = sum_i (mu_i^2 + s_i) / S_i - 2 M_i mu_i / S_i + [M_i^2 / S_i + log S_i - 1]  -  sum_i log s_i

with (mu, s) the client's means and variances and (M, S) the baseline's. The client encrypts phi = [mu^2 + s, mu] (the
last sum has public coefficients: it adds that itself); the server multiplies by its plaintext coefficients. Numbers are
coefficients of polynomials over ``ring``, so an inner product is the constant coefficient of one product.

1. ``question``: a seed for the public polynomials a (key) and a_j (data).
2. ``first``: with s a fresh secret, the public key b = e - a s and ciphertexts c_j = phi_j + e_j - a_j s, one for every
   4096 elements.
3. ``answer``: with C_j the coefficients, u a fresh secret: d = sum_j C_j a_j + u a + e' and, of the polynomial
   sum_j C_j c_j + u b, the constant coefficient alone, plus the constant, an error and a random number below 2**-24 q.
   u a hides C in d; all other coefficients, which would tell more than the sum, are withheld (which is what adding a
   random mask without constant coefficient would amount to).
4. ``second``: the constant coefficient of d s, added to that number, is the divergence. It is rounded and reported.
"""

from __future__ import annotations

import math
import secrets
import struct
from typing import TYPE_CHECKING

import numpy as np

from fedprof.core.divergence import VARIANCE_FLOOR
from fedprof.errors import MatchingError
from fedprof.matching import ring
from fedprof.matching.base import NUMBER_BYTES, MatchingCost
from fedprof.matching.frames import OVERHEAD, Frame, Scheme
from fedprof.matching.keyed import KeyedClient, KeyedServer

if TYPE_CHECKING:
    from fedprof.core.profile import Profile
    from fedprof.matching.ring import Residues

PARAMETERS = 2
"""Identifies the ring and the scales below; a message made with others is refused."""
LIMIT = 2.0**18
"""Largest mean and standard deviation, on either side."""
MAX_Q = 2**16
CHUNK = ring.N // 2
"""Profile elements to a ciphertext."""

SQUARE_BITS, MEAN_BITS, COEFFICIENT_BITS = 62, 80, 57
"""Bits after the point of mu^2 + s, mu and 1 / (2 S). With errors of a few units in the last place, a coefficient up to
1 / (2 VARIANCE_FLOOR) and means up to LIMIT they keep the divergence's error below 2**-17 max(1, div); and q times the
largest divergence, at TOTAL_BITS, stays below Q / 2."""
TOTAL_BITS = SQUARE_BITS + COEFFICIENT_BITS
NOISE_BITS = TOTAL_BITS - 24
"""Bits of the random number that is added to q times the divergence, times q: 2**-24 of the divergence itself."""

CYCLES = (20_000_000, 12_000_000)
"""A client's cycles: fixed, and for each ciphertext (benchmarks/private.py)."""

_SECRET = struct.Struct("<32sd")  # seed of the secret polynomial, sum of logarithms


class MaskedClient(KeyedClient):
    """Encrypts phi; its secret is the seed of its key, and the sum of logarithms that it adds itself."""

    scheme = Scheme.MASKED
    parameters = PARAMETERS

    def _encrypted(self, asked: Frame, profile: Profile) -> tuple[bytes, bytes]:
        asked.require_size(ring.SEED_BYTES)
        require_in_range(profile)
        seed = secrets.token_bytes(ring.SEED_BYTES)
        polynomials = _encrypt(_phi(profile), ring.secret(seed), asked.payload)
        return b"".join(map(ring.to_bytes, polynomials)), _SECRET.pack(seed, _sum_of_logarithms(profile))

    def _decrypted(self, answer: Frame, secret: bytes) -> float:
        seed, logarithms = _SECRET.unpack(secret)
        value: float = (_decrypt(answer, seed) - logarithms / 2) / answer.q
        if value > 5 * LIMIT**2 / VARIANCE_FLOOR:
            raise MatchingError("the server's answer decrypts to an impossible divergence; no baseline gives that")
        return value


class MaskedServer(KeyedServer):
    """Multiplies the encrypted profile by its coefficients."""

    scheme = Scheme.MASKED
    parameters = PARAMETERS

    def __init__(self, baseline: Profile) -> None:
        super().__init__(baseline)
        require_in_range(baseline)
        self._seed = secrets.token_bytes(ring.SEED_BYTES)

    def _offered(self) -> bytes:
        return self._seed

    def _evaluated(self, reply: Frame) -> bytes:
        public, *ciphertexts = _polynomials(reply.require_size(_first_bytes(self.baseline.q)))
        return _evaluate(self.baseline, public, ciphertexts, self._seed)


def require_in_range(profile: Profile) -> None:
    """Refuse what the fixed-point numbers of this scheme cannot hold."""
    if profile.q > MAX_Q:
        raise MatchingError(f"masked matching takes q up to {MAX_Q}, not {profile.q}; use matching='client'")
    largest = max(float(np.abs(profile.mean).max()), math.sqrt(float(profile.variance.max())))
    if largest > LIMIT:
        raise MatchingError(  # without the value: a client's refusal goes to the server
            f"masked matching takes means and standard deviations up to {LIMIT:.0f}, and these go beyond; "
            "use matching='client', or profile a normalised layer"
        )


def costs(q: int) -> MatchingCost:
    """A ciphertext for every 4096 elements and a key up; one polynomial and two headers down."""
    fixed, each = CYCLES
    down = 2 * OVERHEAD + ring.SEED_BYTES + ring.POLYNOMIAL_BYTES + ring.SCALAR_BYTES
    return MatchingCost(2 * OVERHEAD + _first_bytes(q) + NUMBER_BYTES, down, fixed + each * _ciphertexts(q))


def _ciphertexts(q: int) -> int:
    return -(-q // CHUNK)


def _first_bytes(q: int) -> int:
    return (1 + _ciphertexts(q)) * ring.POLYNOMIAL_BYTES


def _phi(profile: Profile) -> list[Residues]:
    mean = profile.mean.astype(np.float64)
    variance = np.maximum(profile.variance.astype(np.float64), VARIANCE_FLOOR)
    squares = ring.plus(ring.fixed_point(mean**2, SQUARE_BITS), ring.fixed_point(variance, SQUARE_BITS))
    return _chunks(squares, ring.fixed_point(mean, MEAN_BITS))


def _sum_of_logarithms(profile: Profile) -> float:
    return float(np.log(np.maximum(profile.variance.astype(np.float64), VARIANCE_FLOOR)).sum())


def _chunks(squares: Residues, means: Residues) -> list[Residues]:
    starts = range(0, squares.shape[1], CHUNK)
    return [np.hstack([squares[:, s : s + CHUNK], means[:, s : s + CHUNK]]) for s in starts]


def _encrypt(phi: list[Residues], secret: Residues, seed: bytes) -> list[Residues]:
    """The public key, then the ciphertexts."""
    messages = [np.zeros((len(ring.PRIMES), ring.N), dtype=np.uint64), *phi]
    return [_encryption(message, ring.expand(seed, str(j)), secret) for j, message in enumerate(messages)]


def _encryption(message: Residues, a: Residues, secret: Residues) -> Residues:
    noisy = ring.error()
    noisy[:, : message.shape[1]] = ring.plus(noisy[:, : message.shape[1]], message)
    return ring.minus(ring.transform(noisy), ring.times(a, secret))


def _coefficients(baseline: Profile) -> tuple[list[Residues], int]:
    """The plaintext polynomials' coefficients, and the constant of the linear form."""
    mean = baseline.mean.astype(np.float64)
    variance = np.maximum(baseline.variance.astype(np.float64), VARIANCE_FLOOR)
    # 24 bits each, so that the products with the means are exact: they must cancel against one another.
    half = np.rint(np.ldexp((0.5 / variance).astype(np.float32).astype(np.float64), COEFFICIENT_BITS))
    halves = np.ldexp(half, -COEFFICIENT_BITS)
    squares = ring.fixed_point(halves, COEFFICIENT_BITS)
    means = ring.fixed_point(-2 * halves * mean, TOTAL_BITS - MEAN_BITS)
    constant = ring.inner(squares, ring.fixed_point(mean**2, SQUARE_BITS))
    return _chunks(squares, means), constant + int(math.ldexp(float((np.log(variance) - 1).sum()) / 2, TOTAL_BITS))


def _evaluate(baseline: Profile, public: Residues, ciphertexts: list[Residues], seed: bytes) -> bytes:
    coefficients, constant = _coefficients(baseline)
    mask = ring.secret(secrets.token_bytes(ring.SEED_BYTES))
    hidden = ring.plus(ring.times(mask, ring.expand(seed, "0")), ring.transform(ring.error()))
    total = ring.times(mask, public)
    for j, (c, ciphertext) in enumerate(zip(coefficients, ciphertexts, strict=True), start=1):
        factor = ring.reversed_polynomial(c)
        hidden = ring.plus(hidden, ring.times(factor, ring.expand(seed, str(j))))
        total = ring.plus(total, ring.times(factor, ciphertext))
    noise = int(ring.error_coefficients(1)[0]) + secrets.randbelow(baseline.q << NOISE_BITS)
    number = (ring.constant(total) + constant + noise) % ring.Q
    return ring.to_bytes(hidden) + number.to_bytes(ring.SCALAR_BYTES, "little")


def _decrypt(answer: Frame, seed: bytes) -> float:
    """The server's linear form of phi."""
    (hidden,) = _polynomials(answer.require_size(ring.POLYNOMIAL_BYTES + ring.SCALAR_BYTES))
    number = int.from_bytes(answer.payload[ring.POLYNOMIAL_BYTES :], "little")
    total = ring.centred(number + ring.constant(ring.times(hidden, ring.secret(seed))))
    return math.ldexp(float(total), -TOTAL_BITS)


def _polynomials(frame: Frame) -> list[Residues]:
    size = ring.POLYNOMIAL_BYTES
    starts = range(0, len(frame.payload) - size + 1, size)
    try:
        return [ring.from_bytes(frame.payload[start : start + size]) for start in starts]
    except ValueError as error:
        raise MatchingError(f"the {frame.kind.name} message holds no valid ciphertext: {error}") from error
