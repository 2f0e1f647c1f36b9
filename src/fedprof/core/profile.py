"""The representation profile of section III-B (``eq:RP``): one normal distribution per representation element."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedprof.errors import ProfileError

MAX_Q = 1 << 20
"""Longest profile accepted: 8 MiB on the wire, four times the widest layers in use; a larger q is a corrupt message."""

_MAGIC = b"FDPF"
_FORMAT = 1
_HEADER = struct.Struct("<4sIIQQ")  # magic, format version, q, model version, count
_CHECKSUM = struct.Struct("<I")  # crc32 of the header and the body
HEADER_BYTES = _HEADER.size + _CHECKSUM.size
"""What the wire format adds to the 8q bytes of values."""


@dataclass(frozen=True, eq=False)
class Profile:
    """Mean and variance of every representation element over some data: an immutable value.

    ``variance`` is the population variance (divided by ``count``), so one sample gives zeros. ``version`` says which
    global model made it; profiles can only be compared within one version.
    """

    mean: NDArray[np.float32]
    variance: NDArray[np.float32]
    count: int
    version: int = 0

    def __post_init__(self) -> None:
        """Copy into read-only float32 and reject what no data can give."""
        object.__setattr__(self, "mean", _frozen(self.mean, "mean"))
        object.__setattr__(self, "variance", _frozen(self.variance, "variance"))
        if len(self.mean) != len(self.variance):
            raise ProfileError(f"the profile has {len(self.mean)} means but {len(self.variance)} variances")
        if self.variance.min() < 0:
            where = int(self.variance.argmin())
            raise ProfileError(f"variance[{where}] is {self.variance[where]}: a variance cannot be negative")
        object.__setattr__(self, "count", _integer(self.count, "count", at_least=1))
        object.__setattr__(self, "version", _integer(self.version, "version", at_least=0))

    @property
    def q(self) -> int:
        """Number of representation elements."""
        return len(self.mean)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Profile):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[object, ...]:
        return Profile, (self.mean, self.variance, self.count, self.version)  # so that copies stay read-only

    def to_bytes(self) -> bytes:
        """Serialise: ``HEADER_BYTES`` of header, then 8q bytes of little-endian float32 (means, then variances)."""
        header = _HEADER.pack(_MAGIC, _FORMAT, self.q, self.version, self.count)
        body = self.mean.astype("<f4").tobytes() + self.variance.astype("<f4").tobytes()
        return header + _CHECKSUM.pack(zlib.crc32(body, zlib.crc32(header))) + body

    @classmethod
    def from_bytes(cls, data: bytes) -> Profile:
        """Parse strictly: anything but the output of ``to_bytes`` raises ``ProfileError``."""
        q, version, count = _read_header(data)
        values = np.frombuffer(data, dtype="<f4", offset=HEADER_BYTES)
        return cls(values[:q], values[q:], count, version)

    def _key(self) -> tuple[bytes, bytes, int, int]:
        return self.mean.tobytes(), self.variance.tobytes(), self.count, self.version


def _frozen(values: ArrayLike, name: str) -> NDArray[np.float32]:
    try:
        given = np.asarray(values)
    except ValueError as error:  # ragged
        raise ProfileError(f"{name} is no array of numbers: {error}") from None
    if given.dtype.kind not in "fiu":
        raise ProfileError(f"{name} holds {given.dtype} values; real numbers are needed")
    with np.errstate(over="ignore"):  # too large for float32 becomes infinite and is reported below
        array = given.astype(np.float32) + np.float32(0)  # + 0 turns -0.0 into 0.0: one value, one encoding
    if array.ndim != 1:
        raise ProfileError(f"{name} has shape {array.shape}; a profile needs one value per element, shape (q,)")
    _check_length(len(array))
    finite = np.isfinite(array)
    if not finite.all():
        where = int(finite.argmin())
        raise ProfileError(f"{name}[{where}] is {array[where]} in float32; has the model diverged?")
    return np.frombuffer(array.tobytes(), dtype=np.float32)  # backed by bytes, so it can never be made writable


def _check_length(q: int) -> None:
    if not 1 <= q <= MAX_Q:
        raise ProfileError(f"a profile of q = {q} elements; q must be between 1 and {MAX_Q}")


def _integer(value: int, name: str, at_least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not at_least <= value < 2**64:
        raise ProfileError(f"{name} is {value!r}; it must be an integer of at least {at_least}")
    return int(value)


def _read_header(data: bytes) -> tuple[int, int, int]:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise ProfileError(f"a profile is read from bytes, not from {type(data).__name__}")
    if len(data) < HEADER_BYTES:
        raise ProfileError(f"{len(data)} bytes are too few for a profile: its header alone has {HEADER_BYTES}")
    magic, fmt, q, version, count = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise ProfileError(f"not a profile: it starts with {magic!r} instead of {_MAGIC!r}")
    if fmt != _FORMAT:
        raise ProfileError(f"profile format {fmt} is unknown; this version of fedprof reads format {_FORMAT}")
    _check_length(q)
    if len(data) != HEADER_BYTES + 8 * q:
        raise ProfileError(
            f"a profile of q = {q} has {HEADER_BYTES + 8 * q} bytes, not {len(data)}: cut short or padded"
        )
    (expected,) = _CHECKSUM.unpack_from(data, _HEADER.size)
    if zlib.crc32(data[HEADER_BYTES:], zlib.crc32(data[: _HEADER.size])) != expected:
        raise ProfileError("the profile's checksum does not match: it was damaged on its way")
    return q, version, count


class Moments:
    """Running mean and spread of ``(n, q)`` batches in float64: one pass, O(q) memory, stable where |mean| >> std.

    Partial results merge by Chan, Golub and LeVeque's pairwise formula, so any split of the data, in any order, gives
    the moments of the whole up to float64 rounding. (Profiles hold rounded float32 values, which would not.)
    """

    def __init__(self, q: int) -> None:
        _check_length(q)
        self.count = 0
        self.mean: NDArray[np.float64] = np.zeros(q)
        self.m2: NDArray[np.float64] = np.zeros(q)
        """Sum of squared deviations from the mean."""

    @np.errstate(invalid="ignore", over="ignore")  # non-finite activations are reported by the Profile they end in
    def update(self, batch: ArrayLike) -> None:
        """Add the samples of a batch, one row each."""
        rows = np.array(batch, dtype=np.float64)  # a copy, worked on in place: large temporaries cost far more
        if rows.ndim != 2 or rows.shape[1] != len(self.mean):
            raise ProfileError(f"a batch of shape {rows.shape} where (n, {len(self.mean)}) was expected")
        if len(rows):
            mean = rows.mean(axis=0)
            rows -= mean
            self._add(len(rows), mean, np.einsum("ij,ij->j", rows, rows))

    def merge(self, other: Moments) -> None:
        """Add all samples another accumulator has seen."""
        if len(other.mean) != len(self.mean):
            raise ProfileError(f"cannot merge moments of q = {len(other.mean)} into moments of q = {len(self.mean)}")
        if other.count:
            self._add(other.count, other.mean, other.m2)

    @np.errstate(invalid="ignore", over="ignore")
    def _add(self, count: int, mean: NDArray[np.float64], m2: NDArray[np.float64]) -> None:
        total = self.count + count
        delta = mean - self.mean
        self.mean = self.mean + delta * (count / total)
        self.m2 = self.m2 + m2 + np.square(delta) * (self.count * count / total)
        self.count = total

    def to_profile(self, version: int = 0) -> Profile:
        """Round to a float32 profile."""
        if not self.count:
            raise ProfileError("no samples were seen: a profile needs at least one")
        with np.errstate(over="ignore"):  # Profile reports values too large for float32
            return Profile(self.mean.astype(np.float32), (self.m2 / self.count).astype(np.float32), self.count, version)
