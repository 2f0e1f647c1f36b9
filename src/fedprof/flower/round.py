"""One round of training under way: whom the server asked, and what it makes of their replies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from flwr.app import ArrayRecord, Message, RecordDict
from flwr.serverapp import Grid

from fedprof.algorithms.gate import gate
from fedprof.errors import MatchingError
from fedprof.flower.arrays import Types, UnusableError, flatten
from fedprof.flower.cohort import Cohort
from fedprof.flower.grid import LOG, answers, with_lifetime
from fedprof.flower.members import Fault, Members
from fedprof.flower.protocol import KEY, Answer, one_line
from fedprof.flower.replies import Asked, Heard, evaluation_fault, hear, odd_ones_out
from fedprof.flower.roster import stand_in


@dataclass
class Round:
    """What was sent, to whom, and with which global model."""

    number: int
    members: Members
    cohort: Cohort
    grid: Grid
    arrays: ArrayRecord
    timeout: float
    types: Types
    """Of the arrays of the model that the run began with."""
    sent: list[Message] = field(default_factory=list)
    heard: dict[int, Heard] = field(default_factory=dict)
    """Replies that may be used, by client and in client order."""
    dropped: dict[int, str] = field(default_factory=dict)
    """Why the others may not."""

    @property
    def version(self) -> int:
        """Of the global model that was sent."""
        return self.number - 1

    @property
    def losses(self) -> Mapping[int, float | None]:
        """Training loss of each client whose reply was used."""
        return {client: one.reply.loss for client, one in self.heard.items()}

    def ask(self, messages: Iterable[Message]) -> list[Message]:
        """Add the question for each client's profile to the base strategy's messages."""
        profile = self.members.algorithm.profiles
        for message in messages:
            question = self.members.question(message.metadata.dst_node_id, self.version, profile=profile)
            content = RecordDict({**message.content, KEY: question.to_record()})
            self.sent.append(with_lifetime(message, content, self.timeout))
        return self.sent

    def hear(self, replies: Iterable[Message], weighted_by: str | None) -> None:
        """Sort replies into those that may be used and those that may not, and learn from the former."""
        self._read(replies, weighted_by)
        self._drop(odd_ones_out({client: one.message.content for client, one in self.heard.items()}))
        accepted, faults = gate((one.reply for one in self.heard.values()), flatten(self.arrays))
        self._drop(faults)
        self.heard = {reply.client: self.heard[reply.client] for reply in accepted}
        self._match()
        for client, why in self.dropped.items():
            LOG.warning("Round %d: dropped '%s': %s", self.number, self.members.roster.names[client], why)
        self.members.learn([one.reply for one in self.heard.values()], self.version)

    def usable(self) -> list[Message]:
        """What the base strategy combines, in client order; a client drawn twice counts twice."""
        return [one.message for one in self.heard.values() for _ in range(one.reply.draws)]

    def reasons(self) -> str:
        """Why replies were dropped, in a line."""
        told = [f"{self.members.roster.names[client]}: {why}" for client, why in self.dropped.items()]
        return "; ".join([*told[:5], *(["..."] if len(told) > 5 else [])])

    def _read(self, replies: Iterable[Message], weighted_by: str | None) -> None:
        by_node = answers(self.sent, replies)
        for node in (message.metadata.dst_node_id for message in self.sent):
            client = self.members.roster.client_at(node)
            asked = Asked(client, self.members.roster.names[client], self.cohort.draws[client], self.version)
            try:
                self.heard[client] = hear(asked, by_node.get(node, ()), self.arrays, self.types, weighted_by)
            except (UnusableError, MatchingError) as error:
                self._drop({client: str(error)})
                continue
            self._check_name(node, asked, self.heard[client].answer.name)

    def _check_name(self, node: int, asked: Asked, name: str) -> None:
        """A node that goes by another name now is another client, and is asked next round who it is."""
        if name != asked.name and asked.name != stand_in(node):
            self.members.roster.forget(node)
            self._drop({asked.client: f"the node answers as '{name}' now"})

    def _match(self) -> None:
        """Add the divergences; a malformed or stale profile, or one of another length, discredits its whole reply."""
        node = self.cohort.node
        sent = {node[client]: one.answer for client, one in self.heard.items()}
        results = self.members.settle(self.grid, sent, self.version, self.timeout)
        for client, one in list(self.heard.items()):
            result = results.get(node[client])
            if isinstance(result, Fault):
                self._drop({client: f"bad profile: {result.reason}"})
                continue
            self._note(client, one.answer)
            if result is not None:
                self.heard[client] = replace(one, reply=replace(one.reply, divergence=result))

    def _note(self, client: int, answer: Answer) -> None:
        roster = self.members.roster
        roster.note(client, answer.samples)
        if answer.failure:
            LOG.warning("'%s' trained but sent no profile: %s", roster.names[client], answer.failure)

    def _drop(self, faults: Mapping[int, str]) -> None:
        self.dropped |= {client: one_line(why) for client, why in faults.items()}
        self.heard = {client: one for client, one in self.heard.items() if client not in faults}


def usable_evaluations(
    members: Members, sent: Sequence[Message], replies: Iterable[Message], weighted_by: str | None
) -> list[Message]:
    """Evaluations that can be averaged, in client order."""
    usable: dict[int, Message] = {}
    for node, (message, *_) in answers(sent, replies).items():
        fault = evaluation_fault(message, weighted_by)
        if fault is None:
            usable[members.roster.client_at(node)] = message
        else:
            LOG.warning("Evaluation of node %d left out: %s", node, one_line(fault))
    odd = odd_ones_out({client: message.content for client, message in usable.items()})
    for client, why in odd.items():
        LOG.warning("Evaluation of '%s' left out: %s", members.roster.names[client], one_line(why))
    return [message for client, message in sorted(usable.items()) if client not in odd]
