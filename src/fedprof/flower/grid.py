"""Flower's grid, narrowed to some nodes, and one exchange of messages over it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from flwr.app import Error, Message, RecordDict
from flwr.serverapp import Grid

from fedprof.errors import FederationError
from fedprof.flower.protocol import one_line

if TYPE_CHECKING:
    from flwr.supercore.run import Run

LOG = logging.getLogger("flwr")
NO_ANSWER = "no answer in time"
_POLL_SECONDS = 1.0


class SomeNodes(Grid):
    """A grid on which only some nodes are connected: all that the base strategy gets to see."""

    def __init__(self, grid: Grid, nodes: Sequence[int]) -> None:
        self._grid = grid
        self._nodes = list(nodes)

    def get_node_ids(self) -> Iterable[int]:
        """These nodes."""
        return list(self._nodes)

    def set_run(self, run: Run) -> None:
        """Hand on."""
        self._grid.set_run(run)

    @property
    def run(self) -> Run:
        """The grid's own."""
        return self._grid.run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Hand on."""
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Hand on."""
        ids: Iterable[str] = self._grid.push_messages(messages)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Hand on."""
        replies: Iterable[Message] = self._grid.pull_messages(message_ids)
        return replies

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Hand on."""
        replies: Iterable[Message] = self._grid.send_and_receive(messages, timeout=timeout)
        return replies


def wait_for_nodes(grid: Grid, wanted: int, timeout: float) -> list[int]:
    """Node ids, once at least so many are connected."""
    deadline = time.monotonic() + timeout
    while len(nodes := sorted(grid.get_node_ids())) < wanted:
        if time.monotonic() >= deadline:
            raise FederationError(
                f"{len(nodes)} of at least {wanted} nodes connected within {timeout:g} s: start more SuperNodes, raise "
                "timeout=, or lower the base strategy's min_available_nodes and min_train_nodes"
            )
        LOG.info("Waiting for nodes: %d connected, at least %d needed", len(nodes), wanted)
        time.sleep(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic())))
    return nodes


def exchange(
    grid: Grid, kind: str, contents: Mapping[int, RecordDict], timeout: float
) -> dict[int, RecordDict | Error | None]:
    """Send every node its content; by node, what came back, the error, or None for no answer."""
    messages = [Message(content, node, kind, ttl=timeout) for node, content in contents.items()]
    replies = list(grid.send_and_receive(messages, timeout=timeout)) if messages else []
    by_node = answers(messages, replies)
    return {node: _outcome(by_node.get(node, ())) for node in contents}


def with_lifetime(message: Message, content: RecordDict, timeout: float) -> Message:
    """The same message with another content, of no use after the time-out (Flower's own default is 12 hours)."""
    about = message.metadata
    return Message(content, about.dst_node_id, about.message_type, ttl=timeout, group_id=about.group_id)


def answers(sent: Sequence[Message], replies: Iterable[Message]) -> dict[int, list[Message]]:
    """Replies by the node that was asked. An error made by the SuperLink names the SuperLink as its source."""
    asked = {message.metadata.message_id: message.metadata.dst_node_id for message in sent}
    found: dict[int, list[Message]] = {}
    for reply in replies:
        node = asked.get(reply.metadata.reply_to_message_id)
        if node is not None:
            found.setdefault(node, []).append(reply)
    return found


def reason(error: Error) -> str:
    """An error's text in a line."""
    return one_line(error.reason or f"error {error.code}")


def _outcome(replies: Sequence[Message]) -> RecordDict | Error | None:
    for reply in replies:
        return reply.error if reply.has_error() else reply.content
    return None
