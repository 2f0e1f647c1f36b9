"""The client's side: a ClientApp, or a mod for one's own, that answers the server's questions about the local data.

The user gives a ``profile_source``: a function of Flower's ``Context`` that returns ``(model, loader)``, or
``(model, loader, layer)`` where the client, not the server, decides which layer is profiled. The model receives the
global weights that came with the message, before any training.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable, Mod

from fedprof import matching as ways
from fedprof.errors import DataError, MatchingError
from fedprof.flower.protocol import KEY, Answer, Question, one_line

if TYPE_CHECKING:
    from fedprof.core.profile import Profile

ProfileSource = Callable[[Context], tuple[Any, ...]]

LOG = logging.getLogger("flwr")
CANNOT_PROFILE = "cannot profile; the node's own log says why"
CANNOT_FINISH = "cannot finish matching; the node's own log says why"


class FedProfClientApp(ClientApp):
    """A Flower ``ClientApp`` whose train replies carry a profile and which answers ``query.fedprof``.

    ``matching`` names the one way in which the profile may be matched; a server that asks in another is refused. The
    node config's ``matching``, set by who operates the node, goes before it. With neither, the client answers as it is
    asked: a node that has nothing against ``plain`` loses nothing by another way.
    """

    def __init__(
        self, profile_source: ProfileSource, *, matching: str | None = None, mods: list[Mod] | None = None
    ) -> None:
        super().__init__(mods=[fedprof_mod(profile_source, matching=matching), *(mods or [])])
        self.query(KEY)(fedprof_query)


def fedprof_query(message: Message, _context: Context) -> Message:
    """Reply to ``query.fedprof``: register it with ``app.query("fedprof")`` where ``fedprof_mod`` is used by itself."""
    return Message(RecordDict(), reply_to=message)


def fedprof_mod(profile_source: ProfileSource, *, matching: str | None = None) -> Mod:
    """A Flower mod that answers the question in a message; messages without one pass as they are."""
    if matching is not None:
        ways.make(matching)  # a wrong name is an error here, not in every answer

    def mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        question = Question.take(message.content)
        if question is None:
            return call_next(message, context)
        answer = _answer(question, message.content, context, profile_source, matching)
        reply = call_next(message, context)
        if reply.has_content():
            reply.content[KEY] = answer.to_record()
        return reply

    return mod


def client_name(context: Context) -> str:
    """Who this client is: the node's ``name``, or its partition, or else its node id (stable with an auth key)."""
    config = context.node_config
    if "name" in config:
        return str(config["name"])
    return f"partition-{config['partition-id']}" if "partition-id" in config else f"node-{context.node_id}"


def _answer(
    question: Question, content: RecordDict, context: Context, source: ProfileSource, matching: str | None
) -> Answer:
    name = client_name(context)
    agreed = context.node_config.get("matching", matching)
    try:
        if question.second:
            return Answer(name, message=_second(question, context, agreed))
        if not question.message:
            with _discreet(CANNOT_PROFILE, hides=agreed not in {None, "plain"}):
                return Answer(name, samples=_count(source(context)[1]))
        return _first(name, question, content, context, source, agreed)
    except Exception as error:  # noqa: BLE001 - whatever the user's model or data raise, the client trains all the same
        return Answer(name, failure=one_line(f"{type(error).__name__}: {error}"))


def _first(
    name: str, question: Question, content: RecordDict, context: Context, source: ProfileSource, agreed: object
) -> Answer:
    side = _side(question, context, agreed)
    asked = side.begin(question.message)
    _remember(context, side.state())
    with _discreet(CANNOT_PROFILE, hides=side.hides):
        mine = _profile(question, content, *source(context))
        message = side.answer(asked, mine)
    _remember(context, side.state())
    return Answer(name, mine.count, message)


def _second(question: Question, context: Context, agreed: object) -> bytes:
    side = _side(question, context, agreed)
    try:
        with _discreet(CANNOT_FINISH, hides=side.hides):
            return side.second(question.message)
    finally:
        _remember(context, side.state())


def _profile(question: Question, content: RecordDict, model: Any, data: Any, own_layer: str | None = None) -> Profile:
    from fedprof.core.capture import profile
    from fedprof.flower.arrays import load

    load(model, _global_weights(content))
    return profile(model, data, own_layer or question.layer or None, version=question.version)


@contextmanager
def _discreet(said: str, *, hides: bool) -> Iterator[None]:
    """Inside, whatever goes wrong is told the server in these words alone, if the profile is hidden from it.

    The server chooses the weights and so what goes wrong: which error it is, and about which unit, depends on the data.
    """
    try:
        yield
    except Exception as error:
        if not hides:
            raise
        LOG.warning("%s: %s", type(error).__name__, error)
        raise MatchingError(said) from error


def _side(question: Question, context: Context, agreed: object) -> ways.Client:
    """The client's side of the way agreed to, or else of the one that is asked for."""
    way = ways.asked_for(question.message) if agreed is None else ways.make(str(agreed))
    return way.client(_memory(context))


def _global_weights(content: RecordDict) -> ArrayRecord:
    for arrays in content.array_records.values():
        return arrays
    raise MatchingError("a profile was asked for without a model to make it with: the message holds no ArrayRecord")


def _count(data: Any) -> int:
    dataset = getattr(data, "dataset", data)
    if not isinstance(dataset, Sized):
        raise DataError(f"cannot tell how many samples a {type(data).__name__} holds: use a sized dataset")
    return len(dataset)


def _memory(context: Context) -> bytes:
    """What the matching client remembered; it never leaves the node."""
    record = context.state.config_records.get(KEY)
    remembered = b"" if record is None else record["matching"]
    assert isinstance(remembered, bytes)
    return remembered


def _remember(context: Context, state: bytes) -> None:
    context.state[KEY] = ConfigRecord({"matching": state})
