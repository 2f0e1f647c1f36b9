"""Who the clients are. A client is its name; Flower's node id only says where it can be reached just now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from flwr.app import Error, RecordDict
from flwr.common.constant import ErrorCode
from numpy.typing import NDArray

from fedprof.errors import MatchingError
from fedprof.flower.grid import LOG, NO_ANSWER, reason
from fedprof.flower.protocol import Answer, one_line

_GONE = (ErrorCode.NODE_UNAVAILABLE, ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE)


@dataclass
class Roster:
    """Clients in the order in which they joined; those that join together, in the order of their names."""

    names: list[str] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    """0 where a client could not say."""
    _client_at: dict[int, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """|D_k|; a client that cannot say counts with the median."""
        sizes = np.array(self.samples, np.int64)
        known = sizes > 0
        return np.where(known, sizes, max(1, int(np.median(sizes[known]))) if known.any() else 1)

    def strangers(self, connected: Iterable[int]) -> list[int]:
        """Connected nodes that have not said who they are. Nodes that are gone are forgotten, their clients are not."""
        here = list(connected)
        self._client_at = {node: self._client_at[node] for node in here if node in self._client_at}
        return [node for node in here if node not in self._client_at]

    def present(self) -> dict[int, int]:
        """Node of each client that can be reached, in client order."""
        return {client: node for node, client in sorted(self._client_at.items(), key=lambda pair: pair[1])}

    def client_at(self, node: int) -> int:
        """The client at a node."""
        return self._client_at[node]

    def find(self, node: int) -> int | None:
        """The client at a node, if it has said who it is."""
        return self._client_at.get(node)

    def forget(self, node: int) -> None:
        """Ask a node again who it is."""
        del self._client_at[node]

    def note(self, client: int, samples: int) -> None:
        """Take note of how many samples a client holds, if it could say."""
        self.samples[client] = samples or self.samples[client]

    def admit(self, introductions: Mapping[int, Answer]) -> None:
        """Take in nodes by what they said of themselves."""
        known, connected = {name: client for client, name in enumerate(self.names)}, set(self._client_at.values())
        for node, answer in sorted(introductions.items(), key=lambda pair: _by_name(pair[1].name, pair[0])):
            client = known.setdefault(answer.name, len(self))
            if client == len(self):
                self.names.append(answer.name)
                self.samples.append(0)
            if client in connected:
                LOG.warning("Node %d says it is '%s', but that client is connected: it is left out", node, answer.name)
            else:
                self._client_at[node] = client
                connected.add(client)
                self.note(client, answer.samples)


def introduction(node: int, outcome: RecordDict | Error | None) -> Answer | None:
    """What a node said of itself. One that cannot answer still takes part, under a name made from its node id."""
    if outcome is None or (isinstance(outcome, Error) and outcome.code in _GONE):
        LOG.warning("Node %d: %s; it is asked again next round", node, reason(outcome) if outcome else NO_ANSWER)
        return None
    name = stand_in(node)
    if isinstance(outcome, Error):
        return Answer(name, failure=reason(outcome))
    try:
        return Answer.take(outcome, name)
    except MatchingError as error:
        return Answer(name, failure=one_line(str(error)))


def stand_in(node: int) -> str:
    """The name of a node that did not say one."""
    return f"node-{node}"


def _by_name(name: str, node: int) -> tuple[int, str, int]:
    return len(name), name, node  # partition-2 before partition-10
