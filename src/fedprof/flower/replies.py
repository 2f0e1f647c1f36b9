"""From Flower's replies to a round of training to those the base strategy may aggregate, and why not the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

from fedprof.algorithms.base import Reply
from fedprof.flower.arrays import Types, UnusableError, flatten_like
from fedprof.flower.grid import NO_ANSWER, reason
from fedprof.flower.protocol import TOO_MANY, Answer


@dataclass(frozen=True)
class Heard:
    """A client's usable message, what it told the server, and the same as the algorithm sees it."""

    message: Message
    answer: Answer
    reply: Reply


@dataclass(frozen=True)
class Asked:
    """A client that was asked to train."""

    client: int
    name: str
    draws: int
    version: int


def hear(
    asked: Asked, messages: Sequence[Message], arrays: ArrayRecord, types: Types, weighted_by: str | None
) -> Heard:
    """Read what came of asking a client; an ``UnusableError`` says why there is nothing to use."""
    if len(messages) != 1:
        raise UnusableError("answered twice" if messages else NO_ANSWER)
    message = messages[0]
    if message.has_error():
        raise UnusableError(reason(message.error))
    answer = Answer.take(message.content, asked.name)
    if fault := content_fault(message.content, weighted_by):
        raise UnusableError(fault)
    weights = flatten_like(next(iter(message.content.array_records.values())), arrays, types)
    loss = metric(_metrics(message.content), "loss")
    reply = Reply(asked.client, asked.version, loss, weights=weights, draws=asked.draws)
    return Heard(message, answer, reply)


def content_fault(content: RecordDict, weighted_by: str | None, *, arrays: bool = True) -> str | None:
    """Say why Flower's aggregation could not use a reply, or would be led astray by it."""
    if arrays and len(content.array_records) != 1:
        return f"{len(content.array_records)} ArrayRecords in the reply, expected 1"
    if len(content.metric_records) != 1:
        return f"{len(content.metric_records)} MetricRecords in the reply, expected 1"
    if weighted_by is None:
        return None
    weight = _metrics(content).get(weighted_by)
    if isinstance(weight, list) or weight is None or not 0 < weight < TOO_MANY:
        return f"the metric '{weighted_by}' is {weight!r}, expected a positive number below 2**53"
    return None


def evaluation_fault(message: Message, weighted_by: str | None) -> str | None:
    """Say why an evaluation cannot be averaged, or None."""
    if message.has_error():
        return reason(message.error)
    if fault := content_fault(message.content, weighted_by, arrays=False):
        return fault
    wrong = [name for name, value in _metrics(message.content).items() if not np.isfinite(value).all()]
    return f"the metrics {wrong} are not finite" if wrong else None


def odd_ones_out(contents: Mapping[int, RecordDict]) -> dict[int, str]:
    """Clients whose replies are laid out unlike most others', which Flower's aggregation would refuse altogether."""
    layouts = {client: _layout(content) for client, content in contents.items()}
    usual = Counter(layouts.values()).most_common(1)[0][0] if layouts else frozenset()
    return {
        client: f"the reply has {sorted(found - usual)}, the others sent {sorted(usual - found)}"
        for client, found in layouts.items()
        if found != usual
    }


def metric(metrics: MetricRecord | None, name: str, short: str | None = None) -> float | None:
    """The metric of this name, or else the first whose name holds it (``train_loss``, ``eval_acc``)."""
    if metrics is None:
        return None
    keys = [name, *(key for key in metrics if (short or name) in key)]
    value = next((metrics[key] for key in keys if key in metrics), None)
    return None if value is None or isinstance(value, list) else float(value)


def _layout(content: RecordDict) -> frozenset[str]:
    """The names of the records and of the metrics, and which of these are lists, of what length."""
    (record,) = content.metric_records
    lengths = {name: f"[{len(value)}]" if isinstance(value, list) else "" for name, value in _metrics(content).items()}
    return frozenset({*content.array_records, record, *(f"{record}/{name}{lengths[name]}" for name in lengths)})


def _metrics(content: RecordDict) -> MetricRecord:
    return next(iter(content.metric_records.values()))
