"""The baseline goes to the client and only the divergence comes back: cheap, but every client learns the baseline."""

from __future__ import annotations

from fedprof.core.divergence import divergence
from fedprof.core.profile import HEADER_BYTES, Profile
from fedprof.matching.base import NUMBER_BYTES, Client, MatchingCost, Server, pack_number, rounded
from fedprof.matching.frames import OVERHEAD, Frame, Kind, Scheme
from fedprof.matching.plain import parse_profile

CYCLES = (95_000, 25)
"""Cycles of one divergence: fixed, and for each of the q elements (benchmarks/private.py)."""


class DivergenceClient(Client):
    """Computes the divergence from the baseline it is sent and reports that alone."""

    scheme = Scheme.CLIENT

    def answer(self, asked: Frame, profile: Profile) -> bytes:
        """The divergence of ``profile``, rounded."""
        asked.require_match(profile.q, profile.version)
        value = rounded(divergence(profile, parse_profile(asked)))
        return Frame(self.scheme, Kind.FIRST, asked.q, asked.version, pack_number(value)).pack()


class BaselineServer(Server):
    """Sends its baseline."""

    scheme = Scheme.CLIENT

    def ask(self) -> bytes:
        """The baseline's own bytes."""
        return self._frame(Kind.QUESTION, self.baseline.to_bytes()).pack()

    def receive(self, reply: bytes) -> float:
        """The number the client reports."""
        return self._number(self._read(reply, Kind.FIRST))


def costs(q: int) -> MatchingCost:
    """The baseline down, one number up."""
    fixed, each = CYCLES
    return MatchingCost(OVERHEAD + NUMBER_BYTES, OVERHEAD + HEADER_BYTES + 8 * q, fixed + each * q)
