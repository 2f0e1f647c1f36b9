"""The profile is sent as it is: one exchange, 8q bytes and headers, nothing hidden from the server."""

from __future__ import annotations

from fedprof.core.divergence import divergence
from fedprof.core.profile import HEADER_BYTES, Profile
from fedprof.errors import MatchingError, ProfileError
from fedprof.matching.base import Client, MatchingCost, Server
from fedprof.matching.frames import OVERHEAD, Frame, Kind, Scheme


class PlainClient(Client):
    """Sends its profile whenever it is asked: it hides nothing, so there is nothing to ration."""

    scheme = Scheme.PLAIN
    hides = False

    def answer(self, asked: Frame, profile: Profile) -> bytes:
        """The profile's own bytes."""
        asked.require_match(profile.q, profile.version)
        return Frame(self.scheme, Kind.FIRST, asked.q, asked.version, profile.to_bytes()).pack()


class PlainServer(Server):
    """Computes the divergence itself."""

    scheme = Scheme.PLAIN

    def receive(self, reply: bytes) -> float:
        """The divergence of the profile in the reply from the baseline."""
        frame = self._read(reply, Kind.FIRST).require_match(self.baseline.q, self.baseline.version)
        return divergence(parse_profile(frame), self.baseline)


def parse_profile(frame: Frame) -> Profile:
    """The profile a frame carries, if it is well formed and is the one its header announces."""
    try:
        profile = Profile.from_bytes(frame.payload)
    except ProfileError as error:
        raise MatchingError(f"the {frame.kind.name} message holds no profile: {error}") from error
    frame.require_match(profile.q, profile.version)
    return profile


def costs(q: int) -> MatchingCost:
    """A bare question down, the profile up; the client only copies bytes."""
    return MatchingCost(bytes_up=OVERHEAD + HEADER_BYTES + 8 * q, bytes_down=OVERHEAD, client_cycles=0.0)
