"""How a client's profile meets the server's baseline: in the clear, on the client, or encrypted."""

from fedprof.errors import SettingsError
from fedprof.matching import client, encrypted_mean, frames, masked, plain
from fedprof.matching.base import Client, Match, Matching, MatchingCost, Server, match

MATCHINGS: dict[str, Matching] = {
    "plain": Matching("plain", 1, plain.PlainClient, plain.PlainServer, plain.costs),
    "client": Matching("client", 1, client.DivergenceClient, client.BaselineServer, client.costs),
    "masked": Matching("masked", 2, masked.MaskedClient, masked.MaskedServer, masked.costs),
    "encrypted-mean": Matching(
        "encrypted-mean",
        2,
        encrypted_mean.EncryptedMeanClient,
        encrypted_mean.EncryptedMeanServer,
        encrypted_mean.costs,
    ),
}
"""Every way to match, by the name that ``matching=`` takes."""


def make(name: str) -> Matching:
    """The way to match of this name."""
    try:
        return MATCHINGS[name]
    except KeyError:
        raise SettingsError(f"matching is {name!r}; it must be one of {', '.join(MATCHINGS)}") from None


def asked_for(message: bytes) -> Matching:
    """The way to match that a server's message belongs to."""
    return make(frames.unpack(message).scheme.name.lower().replace("_", "-"))


__all__ = ["MATCHINGS", "Client", "Match", "Matching", "MatchingCost", "Server", "asked_for", "make", "match"]
