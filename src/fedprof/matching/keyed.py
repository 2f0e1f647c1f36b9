"""The shape that encrypted schemes share: two exchanges under a key that the client makes for one profile."""

from __future__ import annotations

import secrets
import struct
from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from fedprof.errors import MatchingError
from fedprof.matching import frames
from fedprof.matching.base import Client, Server, pack_number, rounded
from fedprof.matching.frames import Frame, Kind

if TYPE_CHECKING:
    from fedprof.core.profile import Profile

_OPEN = struct.Struct("<16sI")  # key id and q; the secret follows
TOLERANCE = 1e-3
"""A divergence decrypted as less than minus this is no rounding error: the server's answer was not honest."""


class KeyedClient(Client):
    """Encrypts its profile under a key of its own, used for this one profile and then forgotten."""

    def answer(self, asked: Frame, profile: Profile) -> bytes:
        """The encrypted profile, with what the server needs to compute on it."""
        asked.require_match(profile.q, profile.version)
        payload, secret = self._encrypted(asked, profile)
        key = secrets.token_bytes(16)
        self._pending = _OPEN.pack(key, asked.q) + secret
        return Frame(self.scheme, Kind.FIRST, asked.q, asked.version, payload, self.parameters, key).pack()

    def second(self, answer: bytes) -> bytes:
        """Decrypt and report the divergence, rounded."""
        # Forgotten first: with a key that outlives a refusal, answers could be tried until one is not refused.
        pending, self._pending = self._pending, b""
        if not pending:
            raise MatchingError("no exchange is open here: this profile was matched already, or never sent")
        frame = frames.unpack(answer).require(self.scheme, Kind.ANSWER, self.parameters)
        key, q = _OPEN.unpack_from(pending)
        frame.require_match(q, self._next_version - 1, key)
        value = self._decrypted(frame, pending[_OPEN.size :])
        if value < -TOLERANCE:
            # Without the value: over Flower a refusal's text goes to the server, which must not learn it.
            raise MatchingError("the server's answer decrypts to an impossible divergence; no baseline gives that")
        payload = pack_number(rounded(value))
        return Frame(self.scheme, Kind.SECOND, q, frame.version, payload, self.parameters, key).pack()

    @abstractmethod
    def _encrypted(self, asked: Frame, profile: Profile) -> tuple[bytes, bytes]:
        """The payload to send, and the secret to keep until the answer."""

    @abstractmethod
    def _decrypted(self, answer: Frame, secret: bytes) -> float:
        """The divergence in an answer."""


class KeyedServer(Server):
    """Computes on one encrypted profile, once."""

    parameters: ClassVar[int]

    def __init__(self, baseline: Profile) -> None:
        super().__init__(baseline)
        self._key = frames.NO_KEY

    def ask(self) -> bytes:
        """The question, with what the client needs to encrypt."""
        return self._frame(Kind.QUESTION, self._offered(), self.parameters).pack()

    def receive(self, reply: bytes) -> bytes:
        """The encrypted divergence; given once."""
        frame = self._read(reply, Kind.FIRST, self.parameters)
        if self._key != frames.NO_KEY:
            raise MatchingError("this exchange was answered already: each answer tells the client one number more")
        frame.require_match(self.baseline.q, self.baseline.version, frame.key)
        payload = self._evaluated(frame)
        self._key = frame.key
        return self._frame(Kind.ANSWER, payload, self.parameters, self._key).pack()

    def finish(self, reply: bytes) -> float:
        """The number the client reports."""
        return self._number(self._read(reply, Kind.SECOND, self.parameters), self._key)

    @abstractmethod
    def _offered(self) -> bytes:
        """The payload of the question."""

    @abstractmethod
    def _evaluated(self, reply: Frame) -> bytes:
        """The payload of the answer to an encrypted profile."""
