"""Aggregation is what the papers' formulas say, on cases computed by hand."""

from itertools import permutations

import numpy as np
import pytest
import torch
from toy_federation import POPULATION, SIZES, play, reply

from fedprof.algorithms.afl import AFL
from fedprof.algorithms.aggregation import Full, Partial, SchemeTwo, ServerAdam, ServerMomentum
from fedprof.algorithms.base import Population, with_clients
from fedprof.algorithms.fedadam import FedAdam
from fedprof.algorithms.fedavg import FedAvg
from fedprof.algorithms.fedavg_rp import FedAvgRP
from fedprof.algorithms.registry import NAMES, create
from fedprof.randomness import stream

FOUR = Population(np.array([10, 20, 30, 40]), cohort=2)
START = np.array([1.0, -1.0], np.float32)


def combine(aggregation, replies, *, state=None, population=FOUR, weights=START):
    state = aggregation.start(population, weights) if state is None else state
    return aggregation.combine(state, population, weights, replies)


def test_partial_is_the_plain_mean_whatever_the_sizes():
    _, new = combine(Partial(), [reply(0, [2, 2]), reply(3, [4, 8])])
    np.testing.assert_array_equal(new, [3, 5])


def test_partial_counts_a_client_drawn_twice_twice():
    _, new = combine(Partial(), [reply(0, [0, 3]), reply(3, [3, 0], draws=2)])
    np.testing.assert_array_equal(new, [2, 1])


def test_scheme_two_weighs_by_share_times_n_over_k():
    _, new = combine(SchemeTwo(), [reply(0, [1, 0]), reply(3, [0, 1])])
    np.testing.assert_allclose(new, [4 / 2 * 0.1, 4 / 2 * 0.4], rtol=1e-7)


@pytest.mark.parametrize("reading", ["fresh", "cache"])
def test_full_with_everybody_is_the_mean_by_data_size(reading):
    vectors = stream(0, "vectors").normal(size=(4, 2)).astype(np.float32)
    _, new = combine(Full(reading), [reply(k, vectors[k]) for k in range(4)])
    np.testing.assert_allclose(new, FOUR.shares @ vectors.astype(float), rtol=1e-6)


def test_full_fresh_moves_by_the_cohorts_share_of_the_data():
    _, new = combine(Full("fresh"), [reply(0, [2, -1]), reply(3, [1, 4])])
    np.testing.assert_allclose(new, [1 + 0.1 * 1, -1 + 0.4 * 5], rtol=1e-6)


def test_full_cache_lets_an_absent_client_count_with_its_latest_upload():
    full = Full("cache")
    state, first = combine(full, [reply(0, [11, -1]), reply(1, [1, 9])])
    np.testing.assert_allclose(first, [1 + 0.1 * 10, -1 + 0.2 * 10], rtol=1e-6)
    _, second = combine(full, [reply(1, [6, -1])], state=state, weights=first)
    np.testing.assert_allclose(second, [1 + 0.1 * 10 + 0.2 * 5, -1], rtol=1e-6)


def test_the_two_readings_differ_from_the_second_round_on():
    cache_state, first = combine(Full("cache"), [reply(0, [11, -1])])
    _, cached = combine(Full("cache"), [reply(1, first)], state=cache_state, weights=first)
    _, fresh = combine(Full("fresh"), [reply(1, first)], weights=first)
    np.testing.assert_allclose(cached, [1 + 0.1 * 10 + 0.2 * 1, -1], rtol=1e-6)
    np.testing.assert_array_equal(fresh, first)


def test_a_dropped_client_counts_as_absent_in_both_readings():
    both = [reply(0, [2, -1]), reply(3, [1, 4])]
    for reading in ("fresh", "cache"):
        _, with_both = combine(Full(reading), both)
        _, without = combine(Full(reading), both[:1])
        np.testing.assert_allclose(with_both - without, [0, 0.4 * 5], atol=1e-6)


def test_full_cache_stays_right_when_clients_join():
    """Shares change for everybody; a newcomer counts with the initial model until it uploads."""
    state, first = combine(Full("cache"), [reply(0, [11, -1])])
    grown = Population(np.array([10, 20, 30, 40, 100]), cohort=2)
    _, new = combine(Full("cache"), [reply(4, [1, 7])], state=with_clients(state, 5), population=grown, weights=first)
    np.testing.assert_allclose(new, [1 + 0.05 * 10, -1 + 0.5 * 8], rtol=1e-6)


def test_full_cache_keeps_unchanged_entries_as_they_are():
    state, first = combine(Full("cache"), [reply(0, [11, -1]), reply(1, [1, 9])])
    after, _ = combine(Full("cache"), [reply(1, [6, -1])], state=state, weights=first)
    assert after["cache/0"] is state["cache/0"]
    assert after["cache/1"] is not state["cache/1"]


def test_server_adam_is_torchs_adam_on_the_negated_mean_update():
    adam, population = ServerAdam(rate=0.01, beta1=0.8, beta2=0.95), Population(np.array([5, 5, 5]), cohort=2)
    weights = stream(0, "start").normal(size=6).astype(np.float32)
    parameter = torch.tensor(weights, dtype=torch.float64, requires_grad=True)
    judge = torch.optim.Adam([parameter], lr=0.01, betas=(0.8, 0.95), eps=1e-8)
    state = adam.start(population, weights)
    for turn in range(20):
        updates = stream(0, "update", turn).normal(size=(2, 6)).astype(np.float32)
        replies = [reply(k, weights + updates[k]) for k in range(2)]
        gradient = weights.astype(float) - (replies[0].weights.astype(float) + replies[1].weights) / 2
        parameter.grad = torch.tensor(gradient)
        judge.step()
        state, weights = adam.combine(state, population, weights, replies)
        np.testing.assert_allclose(weights, parameter.detach().numpy(), rtol=0, atol=3e-7)
        parameter.data.copy_(torch.tensor(weights))


def test_server_momentum_accumulates_mean_updates():
    momentum = ServerMomentum(beta=0.75)
    state, first = combine(momentum, [reply(0, [2, -1]), reply(1, [2, 1])])
    np.testing.assert_allclose(first, [2, 0])
    _, second = combine(momentum, [reply(0, first), reply(1, first)], state=state, weights=first)
    np.testing.assert_allclose(second, [2.75, 0.75])


def test_server_momentum_without_beta_is_partial_aggregation():
    replies = [reply(0, [2, -1]), reply(1, [2, 1])]
    np.testing.assert_array_equal(combine(ServerMomentum(beta=0.0), replies)[1], combine(Partial(), replies)[1])


@pytest.mark.parametrize("aggregation", [ServerAdam(rate=0.1), ServerMomentum(beta=0.9)])
def test_server_optimisers_average_buffers_and_never_step_them(aggregation):
    population = Population(np.array([5, 5]), cohort=2, trainable=2)
    weights = np.array([0, 0, 10], np.float32)
    state = aggregation.start(population, weights)
    for buffer in (20, 40):
        replies = [reply(0, [*weights[:2] + 1, buffer]), reply(1, [*weights[:2] + 1, buffer + 2])]
        state, weights = aggregation.combine(state, population, weights, replies)
        assert weights[2] == buffer + 1
    assert (weights[:2] > 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_nobody_answers_and_the_model_stays_as_it_was(name):
    algorithm = create(name)
    state = algorithm.start(POPULATION, START)
    state = algorithm.learn(state, POPULATION, [])
    after, weights = algorithm.combine(state, POPULATION, START, [])
    assert weights is START
    assert after is state


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_arrival_never_matters_to_the_bit(name):
    state, weights = play(create(name))
    other_state, other_weights = play(create(name), arrival=lambda replies: replies[::-1])
    assert weights.tobytes() == other_weights.tobytes()
    assert {key: value.tobytes() for key, value in state.items()} == {
        key: value.tobytes() for key, value in other_state.items()
    }


@pytest.mark.parametrize(
    "algorithm",
    [FedAvg("fresh"), FedAvg("cache"), FedAvgRP(scheme="I"), FedAvgRP(scheme="II"), FedAdam(server_rate=1.0), AFL()],
    ids=str,
)
def test_the_order_of_summation_never_depends_on_the_order_of_replies(algorithm):
    """(1e30 + 1) - 1e30 is 0 and (1e30 - 1e30) + 1 is 1: any other order would show."""
    population, start = Population(np.array([5, 5, 5]), cohort=3), np.zeros(1, np.float32)
    answers = [reply(0, [1e30]), reply(1, [1]), reply(2, [-1e30])]
    state = algorithm.start(population, start)
    results = {algorithm.combine(state, population, start, order)[1].tobytes() for order in permutations(answers)}
    assert len(results) == 1


def test_shares_add_up_to_one():
    assert POPULATION.shares.sum() == pytest.approx(1)
    assert POPULATION.shares[3] == SIZES[3] / SIZES.sum()
