"""The envelope of every matching message: what it is, whom it concerns, and a checksum."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum

from fedprof.errors import MatchingError

MAGIC = b"FPRM"
FORMAT = 1
_HEADER = struct.Struct("<4sBBBBIQ16sQ")  # magic, format, scheme, kind, parameters, q, version, key, payload length
_CHECKSUM = struct.Struct("<I")
OVERHEAD = _HEADER.size + _CHECKSUM.size
"""Bytes that a message has beyond its payload."""
NO_KEY = bytes(16)


class Scheme(IntEnum):
    """The four ways to match, as they appear on the wire."""

    PLAIN = 1
    CLIENT = 2
    MASKED = 3
    ENCRYPTED_MEAN = 4


class Kind(IntEnum):
    """The place of a message in the exchange."""

    QUESTION = 1
    FIRST = 2
    ANSWER = 3
    SECOND = 4


@dataclass(frozen=True)
class Frame:
    """One message: a payload and what it belongs to."""

    scheme: Scheme
    kind: Kind
    q: int
    version: int
    payload: bytes = b""
    parameters: int = 0
    key: bytes = NO_KEY

    def pack(self) -> bytes:
        """The bytes to send."""
        head = _HEADER.pack(
            MAGIC, FORMAT, self.scheme, self.kind, self.parameters, self.q, self.version, self.key, len(self.payload)
        )
        body = head + self.payload
        return body + _CHECKSUM.pack(zlib.crc32(body))

    def require(self, scheme: Scheme, kind: Kind, parameters: int = 0) -> Frame:
        """Return this frame if it is of the scheme, kind and parameter set that its receiver waits for."""
        expected = (scheme, kind, parameters)
        if (self.scheme, self.kind, self.parameters) != expected:
            got = f"{self.scheme.name} {self.kind.name} with parameter set {self.parameters}"
            raise MatchingError(
                f"received a {got} message where {scheme.name} {kind.name} with parameter set {parameters} was due; "
                "use the same matching= on server and clients"
            )
        return self

    def require_match(self, q: int, version: int, key: bytes = NO_KEY) -> Frame:
        """Return this frame if it concerns a profile of length ``q`` of model ``version`` under this key."""
        if self.q != q:
            raise MatchingError(f"the message is about profiles of length {self.q}, not {q}; profile the same layer")
        if self.version != version:
            raise MatchingError(f"the message is about model version {self.version}, not {version}; ask again")
        if self.key != key:
            raise MatchingError(f"the message names key {self.key.hex()}, not {key.hex()}: another exchange's")
        return self

    def require_size(self, size: int) -> Frame:
        """Return this frame if its payload has exactly ``size`` bytes."""
        if len(self.payload) != size:
            raise MatchingError(f"{self.kind.name} message carries {len(self.payload)} bytes where {size} were due")
        return self


def unpack(message: bytes) -> Frame:
    """Read a message; anything truncated, altered or of another format is refused."""
    if len(message) < OVERHEAD:
        raise MatchingError(f"a matching message has at least {OVERHEAD} bytes, this one {len(message)}")
    magic, fmt, scheme, kind, parameters, q, version, key, length = _HEADER.unpack_from(message)
    if magic != MAGIC or fmt != FORMAT:
        raise MatchingError(f"not a matching message of format {FORMAT}: it begins {message[:5].hex()}")
    if len(message) != OVERHEAD + length:
        raise MatchingError(f"the message should have {OVERHEAD + length} bytes and has {len(message)}")
    (checksum,) = _CHECKSUM.unpack_from(message, len(message) - _CHECKSUM.size)
    body = message[: -_CHECKSUM.size]
    if zlib.crc32(body) != checksum:
        raise MatchingError("the message was damaged on its way: its checksum does not fit; send it again")
    try:
        return Frame(Scheme(scheme), Kind(kind), q, version, body[_HEADER.size :], parameters, key)
    except ValueError as error:
        raise MatchingError(f"unknown scheme or kind of message ({error}); use the same fedprof version") from error
