"""Every way of matching runs over Flower's messages, with the same outcome."""

import pytest

pytest.importorskip("flwr", reason="needs the flower extra: pip install 'fedprof[flower]'")

import numpy as np
from flower_fakes import federation, fedprof, loader, model, start, unavailable
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict

from fedprof.core.capture import profile
from fedprof.core.profile import Profile
from fedprof.errors import MatchingError
from fedprof.flower.protocol import KEY, QUERY, Question
from fedprof.matching import MATCHINGS, encrypted_mean, make

pytestmark = pytest.mark.flower


def is_second(message):
    return KEY in message.content.config_records and message.content[KEY]["second"]


def run(matching, change=None, rounds=2):
    if matching == "encrypted-mean":
        pytest.importorskip("tenseal", reason="needs the private extra: pip install 'fedprof[private]'")
    grid = federation(3, bad=(2,), matching=matching)
    if change:
        grid.node("client-1").wrong = change
    strategy = fedprof(matching=matching, cohort=2)
    start(strategy, grid, rounds)
    return grid, strategy


@pytest.mark.parametrize("matching", MATCHINGS)
def test_every_way_finds_the_same_divergences_and_the_same_cohorts(matching):
    plain_grid, plain = run("plain")
    grid, strategy = run(matching)
    mine, expected = (s.members.state["client/divergence"] for s in (strategy, plain))
    assert np.allclose(mine, expected, rtol=1e-4, atol=1e-4)
    assert {n: sorted(a) for n, a in grid.asked().items()} == {n: sorted(a) for n, a in plain_grid.asked().items()}


def sent_by_client_1(matching):
    """The bytes of its first answer, and the means of the profile that it is about."""
    sent = []
    run(matching, lambda message, reply: sent.append(bytes(reply.content[KEY]["message"])) or reply, rounds=0)
    return sent[0], profile(model(), loader(1, 44), "fc1").mean.tobytes()


@pytest.mark.parametrize("matching", ["client", "masked"])
def test_a_private_answer_does_not_hold_the_profile(matching):
    answer, means = sent_by_client_1(matching)
    assert all(means[start : start + 4] not in answer for start in range(0, len(means), 4))


def test_the_plain_answer_does():
    answer, means = sent_by_client_1("plain")
    assert means in answer


def test_a_second_exchange_that_breaks_off_leaves_what_is_known():
    def change(message, reply):
        return unavailable(message) if is_second(message) and message.content[KEY]["version"] > 0 else reply

    _, strategy = run("masked", change)
    assert np.isfinite(strategy.members.state["client/divergence"]).all()
    assert strategy.members.state["client/version"][1] == 0
    assert strategy.going.dropped == {}


def test_a_second_exchange_that_is_malformed_discredits_the_reply():
    def change(message, reply):
        if is_second(message) and message.content[KEY]["version"] > 0:
            reply.content[KEY] = ConfigRecord({**reply.content[KEY], "message": b"lies" * 30})
        return reply

    _, strategy = run("masked", change)
    assert "bad profile" in strategy.going.dropped[1]


def test_a_first_second_exchange_that_fails_leaves_the_neutral_score():
    _, strategy = run("masked", lambda m, r: unavailable(m) if is_second(m) else r, rounds=0)
    assert np.isnan(strategy.members.state["client/divergence"][1])


@pytest.mark.parametrize("matching", ["client", "masked"])
def test_a_clients_memory_of_what_it_answered_is_the_runs(matching):
    """Flower gives every run a context of its own."""
    node = next(iter(federation(1, matching=matching).nodes.values()))
    asked = make(matching).server(profile(model(), loader(99), "fc1")).ask()

    def failure():
        question = Question(0, asked, layer="fc1").to_record()
        content = RecordDict({KEY: question, "arrays": ArrayRecord(model().state_dict())})
        return node(Message(content, 100, QUERY)).content[KEY]["failure"]

    assert failure() == ""
    assert "already asked about model version 0" in failure()
    node.context.state = RecordDict()
    assert failure() == ""


def masked_baseline(outside):
    """A baseline that goes beyond what masked matching takes in some versions."""
    return lambda arrays, version: Profile(np.full(6, 3e5 if version in outside else 0.0), np.ones(6), 9, version)


def test_a_baseline_out_of_range_in_mid_run_leaves_what_is_known_of_the_clients(caplog):
    strategy = fedprof(matching="masked", cohort=3, baseline=masked_baseline({1}))
    start(strategy, federation(3, bad=(), matching="masked"), 2)
    assert strategy.members.state["client/version"].tolist() == [0, 0, 0]
    assert strategy.going.heard.keys() == {0, 1, 2}
    assert "No client is asked for its profile under model version 1: masked matching takes means" in caplog.text


def test_clients_are_profiled_again_once_the_baseline_is_in_range():
    strategy = fedprof(matching="masked", cohort=3, baseline=masked_baseline({1}))
    start(strategy, federation(3, bad=(), matching="masked"), 3)
    assert strategy.members.state["client/version"].tolist() == [2, 2, 2]


def test_a_baseline_out_of_range_at_the_start_is_an_error():
    with pytest.raises(MatchingError, match="use matching='client'"):
        start(fedprof(matching="masked", baseline=masked_baseline({0})), federation(3, bad=(), matching="masked"), 1)


def test_a_client_set_to_another_way_sends_nothing_and_keeps_the_neutral_score():
    grid = federation(3, bad=(), matching="masked")
    strategy = fedprof(matching="plain", cohort=2)
    start(strategy, grid, 1)
    assert np.isnan(strategy.members.state["client/divergence"]).all()
    assert all("use the same matching=" in why for why in strategy.members.failures.values())


def test_keys_that_the_server_cannot_compute_with_cost_clients_their_profile_and_not_the_run(monkeypatch):
    pytest.importorskip("tenseal", reason="needs the private extra: pip install 'fedprof[private]'")
    keys = encrypted_mean.new_keys()
    monkeypatch.setattr(encrypted_mean, "new_keys", lambda: keys)
    without_rotations = keys.serialize(save_public_key=True, save_galois_keys=False, save_relin_keys=True)
    monkeypatch.setattr(encrypted_mean, "_public", lambda _: bytes(without_rotations))
    _, strategy = run("encrypted-mean", rounds=1)
    assert all("no keys and ciphertexts to compute with" in why for why in strategy.members.failures.values())
    assert len(strategy.members.failures) == 3
    assert len(strategy.going.heard) == 2
