"""Whatever a client does, the round has a defined outcome: the update is dropped, the reason logged and recorded."""

import pytest

pytest.importorskip("flwr", reason="needs the flower extra: pip install 'fedprof[flower]'")

import numpy as np
from flower_fakes import federation, fedprof, start, unavailable, weights, with_arrays
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord
from flwr.common.constant import ErrorCode
from flwr.serverapp.strategy import FedAvg

from fedprof.core.profile import Profile
from fedprof.flower.protocol import KEY, LONGEST, Question
from fedprof.matching import make
from fedprof.simulation.store import Store

pytestmark = pytest.mark.flower

VICTIM = "client-1"
UNREADABLE = Array("float32", (1,), "numpy.ndarray", b"\x93NUMPY\x01\0\x0b\0{'descr':()}")


def only_train(distort):
    """Distort training replies from round 2 on, when profiles travel with them."""

    def wrong(message, reply):
        trains = message.metadata.message_type == "train" and message.content["config"]["server-round"] >= 2
        return distort(message, reply) if trains else reply

    return wrong


def changed(**records):
    def distort(message, reply):
        for key, record in records.items():
            reply.content[key] = record
        return reply

    return distort


def with_profile(make_profile):
    """Send another profile in a well-formed message."""

    def distort(message, reply):
        fake = make_profile(message)
        way = make("plain")
        asked = way.server(fake).ask()
        record = reply.content[KEY]
        reply.content[KEY] = ConfigRecord({**record, "message": way.client().first(asked, fake)})
        return reply

    return distort


def answer_changed(**fields):
    def distort(message, reply):
        reply.content[KEY] = ConfigRecord({**reply.content[KEY], **fields})
        return reply

    return distort


def without(key):
    def distort(message, reply):
        del reply.content[key]
        return reply

    return distort


def renamed(record, reply):
    reply.content["other"] = reply.content.pop(record)
    return reply


def version(message):
    return message.content[KEY]["version"]


def corrupted(message, reply):
    sent = bytearray(reply.content[KEY]["message"])
    sent[-10] ^= 1
    return answer_changed(message=bytes(sent))(message, reply)


FAILURES = {
    "the node is killed mid-round": (lambda message, reply: unavailable(message), "Node Unavailable"),
    "the client process is killed": (
        lambda m, r: Message(Error(ErrorCode.CLIENT_APP_CRASHED, "exit code -9"), reply_to=m),
        "exit code -9",
    ),
    "the client raises": (
        lambda m, r: Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, "ValueError:\n  bad"), reply_to=m),
        "ValueError: bad",
    ),
    "it does not answer in time": (lambda message, reply: None, "no answer in time"),
    "the profile is damaged": (corrupted, "checksum"),
    "the profile is no message at all": (answer_changed(message=b"profile"), "at least"),
    "the profile is stale": (
        with_profile(lambda m: Profile(np.zeros(6), np.ones(6), 40, version(m) - 1)),
        "version 0, not 1",
    ),
    "the profile has the wrong q": (
        with_profile(lambda m: Profile(np.zeros(7), np.ones(7), 40, version(m))),
        "length 7, not 6",
    ),
    "the answer is malformed": (answer_changed(samples="many"), "samples is a str"),
    "the update is NaN": (with_arrays(lambda n, a: a * np.float32("nan")), "non-finite weights"),
    "the update is infinite": (with_arrays(lambda n, a: a + np.float32("inf")), "non-finite weights"),
    "the update has wrong shapes": (with_arrays(lambda n, a: a[:1]), "wrong array"),
    "the update has another type": (with_arrays(lambda n, a: a.astype(np.float16)), "is float16"),
    "the update is no arrays at all": (
        changed(arrays=ArrayRecord(dict.fromkeys(("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"), UNREADABLE))),
        "unreadable array",
    ),
    "the update has other arrays": (changed(arrays=ArrayRecord({"x": Array(np.zeros(2))})), "wrong arrays"),
    "there is no update": (without("arrays"), "0 ArrayRecords"),
    "there are two updates": (changed(more=ArrayRecord({"x": Array(np.zeros(2))})), "2 ArrayRecords"),
    "there are no metrics": (without("metrics"), "0 MetricRecords"),
    "the weight is missing": (changed(metrics=MetricRecord({"train_loss": 1.0})), "'num-examples' is None"),
    "the weight is zero": (changed(metrics=MetricRecord({"train_loss": 1.0, "num-examples": 0})), "is 0, expected"),
    "the weight is NaN": (
        changed(metrics=MetricRecord({"train_loss": 1.0, "num-examples": float("nan")})),
        "is nan, expected",
    ),
    "the weight is more than anybody has": (
        changed(metrics=MetricRecord({"train_loss": 1.0, "num-examples": 1e308})),
        "is 1e+308, expected",
    ),
    "the loss is NaN": (
        changed(metrics=MetricRecord({"train_loss": float("nan"), "num-examples": 4})),
        "non-finite loss",
    ),
    "its metrics are unlike the others'": (
        changed(metrics=MetricRecord({"train_loss": 1.0, "num-examples": 4, "secret": 1.0})),
        "the others sent",
    ),
    "a metric is a list, the others' is a number": (
        changed(metrics=MetricRecord({"train_loss": [1.0, 2.0], "num-examples": 4})),
        "metrics/train_loss[2]",
    ),
    "its metrics have another name": (lambda m, r: renamed("metrics", r), "the reply has ['other'"),
    "its arrays have another name": (lambda m, r: renamed("arrays", r), "the reply has ['other']"),
    "the reason for dropping it holds pages of its own text": (
        changed(arrays=ArrayRecord({"x\n" * 10_000: Array(np.zeros(2))})),
        "wrong arrays",
    ),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_failure_drops_that_update_alone(case, tmp_path, caplog):
    distort, said = FAILURES[case]
    grid = federation(4, bad=())
    grid.node(VICTIM).wrong = only_train(distort)
    strategy = fedprof(cohort=4, store=tmp_path / "run.sqlite")
    result = start(strategy, grid, 2)

    others = federation(4, bad=())
    others.node(VICTIM).wrong = only_train(lambda message, reply: unavailable(message))
    assert np.array_equal(weights(result), weights(start(fedprof(cohort=4), others, 2)))
    assert said in strategy.going.dropped[1]
    assert f"dropped '{VICTIM}'" in caplog.text
    store = Store.open(tmp_path / "run.sqlite")
    rows = {row.client: row for row in store.participation() if row.round == 2}
    store.close()
    assert said in rows[1].failure
    assert len(rows[1].failure) <= LONGEST
    assert rows[1].failure.isprintable()
    assert [rows[k].failure for k in (0, 2, 3)] == [None] * 3
    assert strategy.members.state["client/version"].tolist() == [1, 0, 1, 1]


def test_a_client_that_answers_twice_is_dropped():
    grid = federation(4, bad=())
    strategy = fedprof(cohort=4)
    deliver = grid.send_and_receive

    def twice(messages, *, timeout=None):
        replies = deliver(messages, timeout=timeout)
        return [*replies, *(r for r in replies if r.metadata.src_node_id == grid.node(VICTIM).context.node_id)]

    grid.send_and_receive = twice
    start(strategy, grid, 2)
    assert strategy.going.dropped == {1: "answered twice"}


def test_a_reply_to_nothing_that_was_asked_is_ignored():
    grid = federation(4, bad=())
    strategy = fedprof(cohort=4)
    deliver = grid.send_and_receive

    def with_stray(messages, *, timeout=None):
        replies = deliver(messages, timeout=timeout)
        stray = deliver([Message(m.content, m.metadata.dst_node_id, m.metadata.message_type) for m in messages[:1]])
        return [*replies, *stray]

    grid.send_and_receive = with_stray
    start(strategy, grid, 2)
    assert strategy.going.dropped == {}


def test_a_reply_under_another_name_is_dropped_and_the_node_asked_again_who_it_is():
    grid = federation(4, bad=())
    node = grid.node(VICTIM)

    def rename():
        node.context.node_config["name"] = "client-9"

    grid.before_send = lambda messages: rename() if len(grid.asked()) == 2 else None
    strategy = fedprof(cohort=4)
    start(strategy, grid, 2)
    assert strategy.going.dropped == {1: "the node answers as 'client-9' now"}
    start(strategy, grid, 3)
    assert strategy.members.roster.names[4] == "client-9"
    assert 4 in strategy.going.heard


def test_what_a_dropped_reply_says_of_its_client_is_not_kept():
    grid = federation(4, bad=())
    grid.node(VICTIM).wrong = only_train(lambda m, r: corrupted(m, answer_changed(samples=10**6)(m, r)))
    strategy = fedprof(cohort=4)
    start(strategy, grid, 2)
    assert "checksum" in strategy.going.dropped[1]
    assert strategy.members.roster.samples[1] == 44


def test_a_first_profile_that_is_malformed_leaves_the_neutral_score(caplog):
    grid = federation(4, bad=())

    def wrong(message, reply):
        return corrupted(message, reply) if message.metadata.message_type == "query.fedprof" else reply

    grid.node(VICTIM).wrong = wrong
    strategy = fedprof(cohort=4)
    start(strategy, grid, 0)
    assert np.isnan(strategy.members.state["client/divergence"][1])
    assert "checksum" in strategy.members.failures[1]


def test_a_long_reason_for_having_no_profile_is_cut_to_a_line(caplog):
    grid = federation(4, bad=())
    grid.node(VICTIM).wrong = answer_changed(message=b"", failure="x\n\x1b[2J" * 100_000)
    strategy = fedprof(cohort=4)
    start(strategy, grid, 0)
    assert strategy.members.failures[1].startswith("x ?[2Jx")
    assert len(strategy.members.failures[1]) <= LONGEST
    assert "\x1b" not in caplog.text


@pytest.mark.parametrize("distort", [answer_changed(message=b"", failure="OSError: disk"), without(KEY)])
def test_a_client_that_trained_but_could_not_profile_counts_and_keeps_its_divergence(distort):
    grid = federation(4, bad=())
    grid.node(VICTIM).wrong = only_train(distort)
    strategy = fedprof(cohort=4)
    start(strategy, grid, 2)
    assert 1 in strategy.going.heard
    assert strategy.members.state["client/version"].tolist() == [1, 0, 1, 1]


@pytest.mark.parametrize(
    ("distort", "said"),
    [
        (lambda m, r: unavailable(m), "Node Unavailable"),
        (changed(metrics=MetricRecord({"eval_acc": 1.0})), "'num-examples' is None"),
        (without("metrics"), "0 MetricRecords"),
        (changed(metrics=MetricRecord({"eval_acc": float("nan"), "num-examples": 4})), "['eval_acc'] are not finite"),
        (changed(metrics=MetricRecord({"eval_acc": [1.0], "num-examples": 4})), "metrics/eval_acc[1]"),
        (lambda m, r: renamed("metrics", r), "the reply has ['other'"),
    ],
)
def test_an_evaluation_that_cannot_be_averaged_is_left_out(distort, said, caplog):
    grid = federation(4, bad=())
    grid.node(VICTIM).wrong = lambda m, r: distort(m, r) if m.metadata.message_type == "evaluate" else r
    result = start(fedprof(FedAvg(fraction_train=0.5)), grid, 1)
    assert 0 <= result.evaluate_metrics_clientapp[1]["eval_acc"] <= 1
    assert said in caplog.text


def test_without_any_usable_evaluation_there_is_none():
    grid = federation(3, bad=())
    for node in grid.nodes.values():
        node.wrong = lambda m, r: None if m.metadata.message_type == "evaluate" else r
    result = start(fedprof(FedAvg()), grid, 1)
    assert result.evaluate_metrics_clientapp == {}


def test_a_question_that_is_malformed_is_an_error_reply_not_a_crash():
    grid = federation(1)
    (node,) = grid.nodes.values()
    record = Question(0).to_record()
    record["version"] = "new"
    from flwr.app import RecordDict

    assert node(Message(RecordDict({KEY: record}), 5, "query.fedprof")).has_error()
