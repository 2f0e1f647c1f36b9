"""What FedProf adds to Flower's messages: one ConfigRecord each way, under ``KEY``.

To a client, a ``Question``; back, an ``Answer``. The bytes inside are a message of ``fedprof.matching``. They travel
with ``train`` messages, and in ``query.fedprof`` messages, which ask nodes before they first train.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from flwr.app import ConfigRecord, RecordDict

from fedprof.errors import MatchingError

KEY = "fedprof"
QUERY = "query.fedprof"
LONGEST = 200
"""Characters of a name, where more is refused, or of a reason, where more is cut off."""
TOO_MANY = 2**53
"""Samples that no client holds; more than this many, and sums of weights lose whole clients."""


@dataclass(frozen=True)
class Question:
    """What the server wants of a client."""

    version: int
    """Version of the global model that came along, or that an earlier message was about."""
    message: bytes = b""
    """From ``matching``'s server side; empty: say only who you are."""
    second: bool = False
    """Whether this is the second message of an exchange."""
    layer: str = ""
    """Layer to profile, unless the client has its own opinion; empty: the model's default layer."""

    def to_record(self) -> ConfigRecord:
        """As a Flower record."""
        return ConfigRecord(
            {"version": self.version, "message": self.message, "second": self.second, "layer": self.layer}
        )

    @classmethod
    def take(cls, content: RecordDict) -> Self | None:
        """Take the question out of a message's content, so that the user's own code never sees it; None if none."""
        if KEY not in content.config_records:
            return None
        fields = _fields(content.config_records[KEY], version=int, message=bytes, second=bool, layer=str)
        del content[KEY]
        return cls(**fields)


@dataclass(frozen=True)
class Answer:
    """What a client says besides its weights and metrics."""

    name: str
    """Stable from run to run: this, not Flower's node id, is who the client is."""
    samples: int = 0
    """How many samples it holds; 0: it cannot say."""
    message: bytes = b""
    """From ``matching``'s client side; empty: nothing was asked, or it failed."""
    failure: str = ""
    """Why there is no profile."""

    def to_record(self) -> ConfigRecord:
        """As a Flower record."""
        return ConfigRecord(
            {"name": self.name, "samples": self.samples, "message": self.message, "failure": self.failure}
        )

    @classmethod
    def take(cls, content: RecordDict, known_as: str) -> Self:
        """Take the answer out of a reply, so that the base strategy never sees it; anything malformed is refused.

        A node whose ClientApp knows nothing of FedProf says nothing; it is then who it is ``known_as``.
        """
        if KEY not in content.config_records:
            return cls(known_as, failure=f"no '{KEY}' record in the reply: the node runs no FedProfClientApp")
        record = content.config_records[KEY]
        del content[KEY]
        fields = _fields(record, name=str, samples=int, message=bytes, failure=str)
        answer = cls(**{**fields, "failure": one_line(fields["failure"])})
        if not (0 < len(answer.name) <= LONGEST and answer.name.isprintable()):
            raise MatchingError(f"a client's name must be 1 to {LONGEST} printable characters")
        if not 0 <= answer.samples < TOO_MANY:
            raise MatchingError(f"a client cannot hold {answer.samples} samples")
        return answer


def one_line(text: str) -> str:
    """A reason, whoever gave it, as it may be logged and stored: one printable line, not too long."""
    line = " ".join(text[: 10 * LONGEST].split())[:LONGEST]
    return "".join(character if character.isprintable() else "?" for character in line)


def _fields(record: ConfigRecord, **types: type) -> dict[str, Any]:
    """The record's fields, if they are exactly these, of these types."""
    if record.keys() != types.keys():
        raise MatchingError(f"the '{KEY}' record has the fields {sorted(record)}, expected {sorted(types)}")
    for name, wanted in types.items():
        if type(record[name]) is not wanted:
            raise MatchingError(f"'{KEY}' record: {name} is a {type(record[name]).__name__}, not {wanted.__name__}")
    return dict(record.items())
