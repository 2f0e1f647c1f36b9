"""What FedProf adds to Flower's messages, and how strictly it is read."""

import pytest

pytest.importorskip("flwr", reason="needs the flower extra: pip install 'fedprof[flower]'")

import numpy as np
from flwr.app import ConfigRecord, MetricRecord, RecordDict

from fedprof.core.profile import HEADER_BYTES, Profile
from fedprof.errors import MatchingError
from fedprof.flower.protocol import KEY, LONGEST, Answer, Question
from fedprof.matching import make
from fedprof.matching.frames import OVERHEAD

pytestmark = pytest.mark.flower

ANSWER = {"name": "hospital-3", "samples": 12, "message": b"abc", "failure": ""}


def content(record):
    return RecordDict({KEY: record, "metrics": MetricRecord({"loss": 1.0})})


@pytest.mark.parametrize("question", [Question(3), Question(0, b"\x00\xff", second=True, layer="fc1")])
def test_a_question_survives_the_journey_and_is_taken_out_of_the_message(question):
    message = content(question.to_record())
    assert Question.take(message) == question
    assert list(message) == ["metrics"]


def test_a_message_without_a_question_is_left_alone():
    message = RecordDict({"metrics": MetricRecord({"loss": 1.0})})
    assert Question.take(message) is None
    assert list(message) == ["metrics"]


def test_an_answer_survives_the_journey_and_is_taken_out_before_the_base_strategy_sees_it():
    message = content(ConfigRecord(ANSWER))
    assert Answer.take(message, "a") == Answer("hospital-3", 12, b"abc")
    assert list(message) == ["metrics"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": ""}, "printable"),
        ({"name": "x" * (LONGEST + 1)}, "printable"),
        ({"name": "a\x1b[2J"}, "printable"),
        ({"name": 3}, "name is a int"),
        ({"samples": -1}, "cannot hold -1"),
        ({"samples": 2**60}, "cannot hold"),
        ({"samples": 1.5}, "samples is a float"),
        ({"samples": True}, "samples is a bool"),
        ({"message": "text"}, "message is a str"),
        ({"extra": 1}, "has the fields"),
    ],
)
def test_a_malformed_answer_is_refused_with_the_reason(change, said):
    with pytest.raises(MatchingError, match=said):
        Answer.take(content(ConfigRecord({**ANSWER, **change})), "a")


def test_a_reply_without_an_answer_says_what_the_node_lacks():
    answer = Answer.take(RecordDict(), "node-7")
    assert answer.name == "node-7"
    assert "runs no FedProfClientApp" in answer.failure


def test_what_leaves_a_client_is_its_name_its_sample_count_and_8q_bytes_with_two_headers():
    q = 64
    profile = Profile(np.zeros(q), np.ones(q), count=12)
    way = make("plain")
    message = way.client().first(way.server(profile).ask(), profile)
    assert len(message) == OVERHEAD + HEADER_BYTES + 8 * q
    record = Answer("hospital-3", 12, message).to_record()
    assert set(record) == {"name", "samples", "message", "failure"}
