"""The paper's variant without logarithms (``eq:PHE_KL``), a reference: means encrypted, variances in the clear.

The server sends its variances and the client its own. The client encrypts its means, in units of the baseline's
deviations, under a CKKS key of its own; the server subtracts its means, squares, and sums the slots by rotations. The
part that the variances alone decide is never negative, so its square root goes into one slot more. The client decrypts,
rounds and reports. Relinearisation and rotation keys make a profile cost tens of megabytes; ``masked`` needs neither,
and shows no variances.
"""

from __future__ import annotations

import math
import struct
from contextlib import contextmanager
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedprof.core.divergence import VARIANCE_FLOOR, divergence_arrays
from fedprof.core.profile import Profile
from fedprof.errors import FedProfError, MatchingError, MissingExtraError, ProfileError
from fedprof.matching.base import NUMBER_BYTES, MatchingCost
from fedprof.matching.frames import OVERHEAD, Frame, Scheme
from fedprof.matching.keyed import KeyedClient, KeyedServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Vector = NDArray[np.float64]

PARAMETERS = 2
DEGREE = 8192
MODULUS_BITS = (53, 53, 52, 56)
"""214 bits: at degree 8192 the most that the guidelines of 2024 (ePrint 2024/463, table 5.2) allow for 128-bit
security; the Homomorphic Encryption Standard of 2018 allows 218."""
SCALE = 2.0**45
"""Without rescaling a square has scale 2**90, which leaves 67 of a ciphertext's 158 bits for its value and its sign."""
SLOTS = DEGREE // 2
MAX_Q = 2**16
LIMIT = 2.0**30
"""Largest mean, in standard deviations of the baseline, that doubles encode precisely enough."""
LARGEST_SUM = 2.0**64
"""Of either side's squared means, in those units. The squared differences then sum to at most 2**66, and with at most
twice ``LARGEST_SUM`` for the variances all stays below 2**67, beyond which the value would wrap unnoticed."""

KEY_BYTES, CIPHERTEXT_BYTES, ANSWER_BYTES = 37_357_200, 367_400, 367_400
"""Measured; TenSEAL compresses, so they vary by a few hundred bytes."""
CYCLES = (1_000_000_000, 60_000_000)
"""A client's cycles: fixed (nearly all for the keys), and for each ciphertext (benchmarks/private.py)."""

_LENGTH = struct.Struct("<I")


class EncryptedMeanClient(KeyedClient):
    """Encrypts its means; its secret is a TenSEAL context with the secret key."""

    scheme = Scheme.ENCRYPTED_MEAN
    parameters = PARAMETERS

    def _encrypted(self, asked: Frame, profile: Profile) -> tuple[bytes, bytes]:
        slots = np.append(_in_deviations(profile, _variances(asked.payload, asked), "client"), 0.0)
        keys = new_keys()
        encrypted = [tenseal().ckks_vector(keys, part.tolist()).serialize() for part in _parts(slots)]
        return _join([_floats(profile.variance), _public(keys), *encrypted]), _secret(keys)

    def _decrypted(self, answer: Frame, secret: bytes) -> float:
        keys = _load_keys(secret)
        with _sent("ciphertext of these keys"):
            (total,) = _load_vector(keys, answer.payload, 1).decrypt()
        return float(total) / (2 * answer.q)


class EncryptedMeanServer(KeyedServer):
    """Sums the squared differences of the encrypted means from its own."""

    scheme = Scheme.ENCRYPTED_MEAN
    parameters = PARAMETERS

    def __init__(self, baseline: Profile) -> None:
        super().__init__(baseline)
        tenseal()
        self._means = _in_deviations(baseline, baseline.variance.astype(np.float64), "baseline")

    def _offered(self) -> bytes:
        return _floats(self.baseline.variance)

    def _evaluated(self, reply: Frame) -> bytes:
        variances, public, *encrypted = _split(reply)
        spread = 2 * reply.q * _spread(_variances(variances, reply), self.baseline)
        if spread > 2 * LARGEST_SUM:
            raise MatchingError(
                "the client's variances differ more from the baseline's than encrypted-mean matching can express; "
                "use matching='client'"
            )
        slots = _parts(np.append(self._means, -math.sqrt(spread)))
        if len(encrypted) != len(slots):
            raise MatchingError(f"{len(encrypted)} ciphertexts came where {len(slots)} were due")
        keys = _load_keys(public)
        with _sent("keys and ciphertexts to compute with"):
            sums = (_sum_of_squares(keys, *pair) for pair in zip(encrypted, slots, strict=True))
            return bytes(reduce(add, sums).serialize())


def costs(q: int) -> MatchingCost:
    """Keys, variances and ciphertexts up, variances and one ciphertext down; within a per cent."""
    fixed, each = CYCLES
    ciphertexts = -(-(q + 1) // SLOTS)
    up = 2 * OVERHEAD + 4 * q + KEY_BYTES + ciphertexts * CIPHERTEXT_BYTES + NUMBER_BYTES
    return MatchingCost(up, 2 * OVERHEAD + 4 * q + ANSWER_BYTES, fixed + each * ciphertexts)


def tenseal() -> Any:
    """The TenSEAL module, which has no types."""
    try:
        import tenseal as module
        import tenseal.sealapi  # registers SEAL's own types, without which parameters cannot be read
    except ImportError as error:
        raise MissingExtraError("private", "matching='encrypted-mean'") from error
    return module


def new_keys() -> Any:
    """A TenSEAL context with fresh keys."""
    ts = tenseal()
    keys = ts.context(ts.SCHEME_TYPE.CKKS, DEGREE, coeff_mod_bit_sizes=list(MODULUS_BITS))
    keys.global_scale = SCALE
    keys.generate_galois_keys()
    return keys


def _public(keys: Any) -> bytes:
    return bytes(
        keys.serialize(save_public_key=True, save_secret_key=False, save_galois_keys=True, save_relin_keys=True)
    )


def _secret(keys: Any) -> bytes:
    return bytes(
        keys.serialize(save_public_key=False, save_secret_key=True, save_galois_keys=False, save_relin_keys=False)
    )


@contextmanager
def _sent(what: str) -> Iterator[None]:
    """Inside, TenSEAL works on the other side's bytes. Whatever it then raises, and it documents none, they caused."""
    try:
        yield
    except FedProfError:
        raise
    except Exception as error:
        raise MatchingError(f"the message holds no {what}: {error}") from error


def _load_keys(data: bytes) -> Any:
    with _sent("TenSEAL keys"):
        keys = tenseal().context_from(data)
        parameters = keys.seal_context().data.key_context_data().parms()
        bits = tuple(modulus.bit_count() for modulus in parameters.coeff_modulus())
    if (parameters.poly_modulus_degree(), bits) != (DEGREE, MODULUS_BITS):
        raise MatchingError(f"keys of degree {parameters.poly_modulus_degree()}, moduli {bits} are not parameter set 2")
    keys.auto_rescale = False
    return keys


def _load_vector(keys: Any, data: bytes, size: int) -> Any:
    with _sent("ciphertext of these keys"):
        vector = tenseal().ckks_vector_from(keys, data)
    if vector.size() != size:
        raise MatchingError(f"a ciphertext holds {vector.size()} numbers where {size} were due")
    return vector


def _sum_of_squares(keys: Any, ciphertext: bytes, shift: Vector) -> Any:
    vector = _load_vector(keys, ciphertext, len(shift))
    (inside,) = vector.ciphertext()
    if inside.scale != SCALE or inside.coeff_modulus_size() != len(MODULUS_BITS) - 1:
        raise MatchingError("a ciphertext has another scale or level than parameter set 2 gives it")
    difference = vector - shift.tolist()
    return (difference * difference).sum()


def _in_deviations(profile: Profile, variances: Vector, whose: str) -> Vector:
    means = np.asarray(profile.mean / np.sqrt(np.maximum(variances, VARIANCE_FLOOR)), dtype=np.float64)
    if profile.q > MAX_Q:
        raise MatchingError(f"encrypted-mean matching takes q up to {MAX_Q}, not {profile.q}; use matching='client'")
    if np.abs(means).max() > LIMIT or np.square(means).sum() > LARGEST_SUM:
        raise MatchingError(  # without the values
            f"encrypted-mean matching takes means up to {LIMIT:.0f} standard deviations of the baseline, whose squares "
            f"sum to {LARGEST_SUM:.1e} at most, and the {whose}'s go beyond; use matching='client'"
        )
    return means


def _spread(variances: Vector, baseline: Profile) -> float:
    """The divergence that the variances alone give: that of profiles with equal means."""
    return float(divergence_arrays(baseline.mean[None], variances[None], baseline)[0])


def _parts(values: Vector) -> list[Vector]:
    """Full vectors, filled up with zeros: TenSEAL would fill them with copies, which cost the sum its precision."""
    return list(np.pad(values, (0, -len(values) % SLOTS)).reshape(-1, SLOTS))


def _floats(values: NDArray[np.float32]) -> bytes:
    return values.astype("<f4").tobytes()


def _variances(data: bytes, frame: Frame) -> Vector:
    if len(data) != 4 * frame.q:
        raise MatchingError(f"{len(data)} bytes of variances came where {4 * frame.q} were due")
    values = np.frombuffer(data, dtype="<f4")
    try:
        return Profile(np.zeros(frame.q, np.float32), values, 1).variance.astype(np.float64)
    except ProfileError as error:
        raise MatchingError(f"the {frame.kind.name} message holds no variances: {error}") from error


def _join(parts: Sequence[bytes]) -> bytes:
    return b"".join(_LENGTH.pack(len(part)) + part for part in parts)


def _split(frame: Frame) -> list[bytes]:
    parts, at = [], 0
    while at + _LENGTH.size <= len(frame.payload):
        (length,) = _LENGTH.unpack_from(frame.payload, at)
        at += _LENGTH.size + length
        parts.append(frame.payload[at - length : at])
    if at != len(frame.payload) or len(parts) < 3:
        raise MatchingError("the message's parts do not add up to its length; it is not from this version of fedprof")
    return parts
