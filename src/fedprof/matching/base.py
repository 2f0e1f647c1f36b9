"""What a way of matching is: two sides that exchange bytes, so that any transport can carry it.

One exchange (``plain``, ``client``)::

    server.ask() -> question      client.first(question, profile) -> reply      server.receive(reply) -> divergence

Two exchanges (``masked``, ``encrypted-mean``): the server's ``receive`` returns an answer for the client instead::

    client.second(answer) -> reply      server.finish(reply) -> divergence

A server side is made for one baseline and one client. A client side lives as long as its client: it remembers which
model version it was asked about last (and, between two exchanges, its secret key); ``state()`` is that memory as bytes.
Where the profile is hidden, asking uses up the version and a second message uses up the key, whether they are answered
or refused: a refusal can depend on the data too. ``first`` is ``begin``, which needs no profile yet, and ``answer``.
"""

from __future__ import annotations

import math
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from fedprof.errors import MatchingError
from fedprof.matching import frames
from fedprof.matching.frames import Frame, Kind, Scheme

if TYPE_CHECKING:
    from fedprof.core.profile import Profile

REPORTED_BITS = 20
"""A private scheme reports a divergence on a grid of 2**-20, relative where it is above one."""

_NUMBER = struct.Struct("<d")
NUMBER_BYTES = _NUMBER.size
_MEMORY = struct.Struct("<Q")
_R = TypeVar("_R", bytes, float, bytes | float)


def rounded(divergence: float) -> float:
    """The value a client reports: ``REPORTED_BITS`` bits after the point, or that many significant ones."""
    if not math.isfinite(divergence):
        raise MatchingError(
            "the divergence came out as no finite number; the server's message does not fit this profile"
        )
    step = 2.0 ** (max(math.frexp(divergence)[1], 0) - REPORTED_BITS)
    return max(round(divergence / step) * step, 0.0)


class Client(ABC):
    """A client's side. It takes one question about each model version, and none about one older than the last."""

    scheme: Scheme
    parameters: ClassVar[int] = 0
    """Identifies key sizes and scales; messages made with others are refused."""
    hides: ClassVar[bool] = True
    """Whether the server is not to see the profile."""

    def __init__(self, state: bytes = b"") -> None:
        (self._next_version,) = _MEMORY.unpack_from(state) if state else (0,)
        self._pending = state[_MEMORY.size :]

    def state(self) -> bytes:
        """All that this side must remember until the next call; keep it secret, it may hold a key."""
        return _MEMORY.pack(self._next_version) + self._pending

    def begin(self, question: bytes) -> Frame:
        """Take a question, which uses up its version: call it, and keep ``state()``, before the profile is made."""
        asked = frames.unpack(question).require(self.scheme, Kind.QUESTION, self.parameters)
        if self.hides:
            self._spend(asked.version)
        return asked

    @abstractmethod
    def answer(self, asked: Frame, profile: Profile) -> bytes:
        """Answer the question that ``begin`` took about ``profile``."""

    def first(self, question: bytes, profile: Profile) -> bytes:
        """Take the server's question and answer it about ``profile``."""
        return self.answer(self.begin(question), profile)

    def second(self, answer: bytes) -> bytes:
        """Answer the server's second message; only schemes of two exchanges have one."""
        raise MatchingError(f"{self.scheme.name} matching has one exchange; the server sent a second message")

    def _spend(self, version: int) -> None:
        if version < self._next_version:
            raise MatchingError(
                f"already asked about model version {self._next_version - 1}, so version {version} is refused: "
                "each answer, and each refusal, reveals something more about the profile"
            )
        self._next_version = version + 1


class Server(ABC):
    """The server's side of matching one client against one baseline."""

    scheme: Scheme

    def __init__(self, baseline: Profile) -> None:
        self.baseline = baseline

    def ask(self) -> bytes:
        """The question that opens the exchange."""
        return self._frame(Kind.QUESTION).pack()

    @abstractmethod
    def receive(self, reply: bytes) -> bytes | float:
        """The divergence, or the message for the client's ``second``."""

    def finish(self, reply: bytes) -> float:
        """The divergence from the client's second reply; only schemes of two exchanges have one."""
        raise MatchingError(f"{self.scheme.name} matching has one exchange; a second reply is not expected")

    def _frame(self, kind: Kind, payload: bytes = b"", parameters: int = 0, key: bytes = frames.NO_KEY) -> Frame:
        return Frame(self.scheme, kind, self.baseline.q, self.baseline.version, payload, parameters, key)

    def _read(self, reply: bytes, kind: Kind, parameters: int = 0) -> Frame:
        return frames.unpack(reply).require(self.scheme, kind, parameters)

    def _number(self, frame: Frame, key: bytes = frames.NO_KEY) -> float:
        frame.require_match(self.baseline.q, self.baseline.version, key)
        return unpack_number(frame)


def pack_number(value: float) -> bytes:
    """A divergence as a payload."""
    return _NUMBER.pack(value)


def unpack_number(frame: Frame) -> float:
    """The divergence in a frame; negative or non-finite ones are refused."""
    value = float(_NUMBER.unpack(frame.require_size(_NUMBER.size).payload)[0])
    if not (math.isfinite(value) and value >= 0.0):
        raise MatchingError(f"a divergence is finite and not negative; the client reported {value}")
    return value


@dataclass(frozen=True)
class MatchingCost:
    """What matching one profile costs: exact bytes each way, and a model of the client's work in CPU cycles."""

    bytes_up: int
    bytes_down: int
    client_cycles: float


@dataclass(frozen=True)
class Matching:
    """A way to match, by name."""

    name: str
    exchanges: int
    client: Callable[..., Client]
    server: Callable[[Profile], Server]
    costs: Callable[[int], MatchingCost]


@dataclass(frozen=True)
class Match:
    """The outcome of matching one profile in one process."""

    divergence: float
    bytes_up: int
    bytes_down: int
    client_seconds: float
    server_seconds: float


def match(matching: Matching, profile: Profile, baseline: Profile, client: Client | None = None) -> Match:
    """Run both sides in this process, through the same bytes as over a network."""
    ledger = _Ledger()
    client = client or matching.client()
    server = matching.server(baseline)
    question = ledger.server(server.ask)
    reply = ledger.client(client.first, question, profile)
    result = ledger.server(server.receive, reply)
    if not isinstance(result, float):
        result = ledger.server(server.finish, ledger.client(client.second, result))
    return Match(result, ledger.bytes_up, ledger.bytes_down, ledger.client_seconds, ledger.server_seconds)


class _Ledger:
    """Counts the bytes each side sends and the seconds it takes."""

    def __init__(self) -> None:
        self.bytes_up = self.bytes_down = 0
        self.client_seconds = self.server_seconds = 0.0

    def client(self, work: Callable[..., bytes], *arguments: object) -> bytes:
        begun = time.perf_counter()
        message = work(*arguments)
        self.client_seconds += time.perf_counter() - begun
        self.bytes_up += len(message)
        return message

    def server(self, work: Callable[..., _R], *arguments: object) -> _R:
        begun = time.perf_counter()
        result = work(*arguments)
        self.server_seconds += time.perf_counter() - begun
        self.bytes_down += len(result) if isinstance(result, bytes) else 0
        return result
