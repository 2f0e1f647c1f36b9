"""An exchange of the masked scheme, and what a test wants to see or change of it."""

from profile_pairs import pair

from fedprof.matching import make, ring
from fedprof.matching.frames import Frame, unpack

MASKED = make("masked")


def exchange(q=8, seed=0):
    """Both sides, and the message of the first exchange that each has sent."""
    profile, baseline = pair(q, seed)
    client, server = MASKED.client(), MASKED.server(baseline)
    question = server.ask()
    reply = client.first(question, profile)
    return client, server, reply, server.receive(reply)


def resent(message, **changes):
    frame = unpack(message)
    return Frame(**{**frame.__dict__, **changes}).pack()


def secret_of(client):
    return ring.secret(seed_of(client))


def key_of(client):
    """The id of the open exchange: after the version in the client's memory; then come q, and the secret's seed."""
    return client.state()[8:24]


def seed_of(client):
    return client.state()[28:60]


def parts(message):
    """The transformed polynomials in a message."""
    payload = unpack(message).payload
    starts = range(0, len(payload) - ring.POLYNOMIAL_BYTES + 1, ring.POLYNOMIAL_BYTES)
    return [ring.from_bytes(payload[s : s + ring.POLYNOMIAL_BYTES]) for s in starts]


def impossible(sign):
    """The payload of an answer that decrypts to far too much, or to far too little."""
    return bytes(ring.POLYNOMIAL_BYTES) + (sign * (ring.Q // 3) % ring.Q).to_bytes(ring.SCALAR_BYTES, "little")
