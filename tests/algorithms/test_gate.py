"""Nothing unusable touches the model, and whoever is dropped is named with the reason."""

from itertools import permutations

import numpy as np
import pytest
from toy_federation import POPULATION, reply

from fedprof.algorithms.afl import AFL
from fedprof.algorithms.base import Population, Reply
from fedprof.algorithms.fedadam import FedAdam
from fedprof.algorithms.fedavg_rp import FedAvgRP
from fedprof.algorithms.gate import LARGEST, gate
from fedprof.core.profile import Profile

START = np.zeros(3, np.float32)
GOOD = reply(0, [1, 2, 3], loss=0.5)


def profile(q):
    return Profile(np.zeros(q, np.float32), np.ones(q, np.float32), 5)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (reply(1, [1, np.nan, 3]), "non-finite weights"),
        (reply(1, [1, np.inf, 3]), "non-finite weights"),
        (reply(1, [1, 2]), "wrong shape: (2,) weights, expected (3,)"),
        (reply(1, [[1, 2, 3]]), "wrong shape: (1, 3) weights, expected (3,)"),
        (Reply(1, 0, weights=np.zeros(3)), "wrong type: float64 weights, expected float32"),
        (Reply(1, 0, weights=np.zeros(3, np.complex64)), "wrong type: complex64 weights, expected float32"),
        (reply(1, [1, 2, 3], loss=float("nan")), "non-finite loss"),
        (reply(1, [1, 2, 3], divergence=float("inf")), "impossible divergence: inf"),
        (reply(1, [1, 2, 3], divergence=-2.0), "impossible divergence: -2.0"),
        (reply(1, [1, 2, 3e38]), "weights beyond 1e+30"),
        (reply(1, [1, 2, 3], loss=1.7e308), "loss beyond 1e+30"),
    ],
)
def test_a_faulty_reply_is_dropped_and_named(bad, reason):
    accepted, dropped = gate([bad, GOOD], START)
    assert [one.client for one in accepted] == [0]
    assert dropped == {1: reason}


@pytest.mark.parametrize(
    "good",
    [
        reply(1, [1, 2, 3]),
        reply(1, [1, 2, 3], divergence=0.0),
        reply(1, [1, 2, 3], divergence=-1e-7),
        reply(1, [1, 2, 3], profile=profile(4)),
    ],
    ids=["bare", "divergence 0", "rounding of an encrypted 0", "profile"],
)
def test_a_sound_reply_passes(good):
    assert gate([good], START) == ([good], {})


def test_a_client_that_answers_twice_is_dropped_whatever_it_said():
    twice = [reply(1, [1, 2, 3]), reply(1, [7, 8, 9]), reply(1, [np.nan] * 3), reply(2, [0, 0, 0])]
    for order in permutations(twice):
        accepted, dropped = gate(order, START)
        assert [one.client for one in accepted] == [2]
        assert dropped == {1: "answered twice"}


def test_accepted_replies_come_in_client_order():
    accepted, dropped = gate([reply(k, [k] * 3) for k in (4, 1, 3)], START)
    assert [one.client for one in accepted] == [1, 3, 4]
    assert not dropped


def test_the_model_is_the_same_as_if_the_faulty_had_never_been_asked():
    accepted, _ = gate([GOOD, reply(1, [np.nan] * 3), reply(2, [3, 4, 5])], START)
    _, new = FedAvgRP(scheme="I").combine({}, POPULATION, START, accepted)
    np.testing.assert_array_equal(new, [2, 3, 4])


@pytest.mark.parametrize("algorithm", [FedAvgRP(), FedAdam(), AFL()], ids=lambda one: one.name)
def test_what_passes_the_gate_combines_to_something_finite(algorithm):
    largest = np.nextafter(np.float32(LARGEST), np.float32(0))
    population = Population(np.array([5, 5, 90]), cohort=3)
    state, weights = algorithm.start(population, START), START
    for number in range(30):
        replies = [Reply(k, number, loss=float(largest), weights=np.full(3, largest, np.float32)) for k in range(3)]
        accepted, dropped = gate(replies, weights)
        assert not dropped
        state = algorithm.learn(state, population, accepted)
        state, weights = algorithm.combine(state, population, weights, accepted)
        assert np.isfinite(weights).all()
        algorithm.select(state, population, np.random.default_rng(number))
