"""The baselines choose as their papers say, on cases made by hand."""

import numpy as np
import pytest
from toy_federation import POPULATION, SIZES, play

from fedprof.algorithms.afl import AFL
from fedprof.algorithms.base import Population, Report, with_clients
from fedprof.algorithms.cfcfm import CFCFM
from fedprof.algorithms.registry import NAMES, create
from fedprof.core.scores import normalise
from fedprof.randomness import stream

START = np.zeros(3, np.float32)
EIGHT = Population(np.array([4, 4, 4, 4, 16, 16, 16, 16]), cohort=4)


def rounds(algorithm, state, population, count=200):
    return [algorithm.select(state, population, stream(3, "select", turn)) for turn in range(count)]


def valued(losses):
    return {**AFL().start(EIGHT, START), "client/loss": np.array(losses, float)}


def test_afl_valuation_is_root_n_times_the_mean_loss():
    values = AFL().valuations(valued([1, 2, 3, 4, 1, 2, 3, 4]), EIGHT)
    np.testing.assert_array_equal(values, [2, 4, 6, 8, 4, 8, 12, 16])


def test_afl_leaves_the_share_alpha1_valued_lowest_out_of_the_draw_by_value():
    algorithm = AFL(alpha1=0.75, alpha2=0.5)
    weights = algorithm.weights_by_value(valued([1, 2, 3, 4, 1, 2.5, 3, 4]), EIGHT)
    np.testing.assert_array_equal(weights, [-np.inf] * 6 + [6, 8])
    np.testing.assert_allclose(
        algorithm.scores(valued([1, 2, 3, 4, 1, 2.5, 3, 4]), EIGHT), [0] * 6 + list(normalise([6, 8]))
    )


def test_afl_keeps_all_of_several_equal_clients_or_none():
    """At the start all are equal: leaving out by position would pick on the first clients of the list."""
    algorithm = AFL(alpha1=0.75)
    alike = Population(np.full(8, 5), cohort=4)
    np.testing.assert_array_equal(algorithm.scores(algorithm.start(alike, START), alike), [1 / 8] * 8)
    tied = algorithm.weights_by_value(valued([1, 1, 9, 9, 4.5, 1, 1, 4.5]), EIGHT)
    np.testing.assert_array_equal(np.isfinite(tied), [0, 0, 1, 1, 1, 0, 0, 1])


def test_afl_draws_by_value_first_and_the_share_alpha3_uniformly_from_the_rest():
    algorithm = AFL(alpha1=0.5, alpha2=10.0, alpha3=0.25)
    state = valued([1, 1, 1, 1, 5, 5, 5, 0.1])  # 5, 5, 5 at sixteen samples, then the equals 1 at four
    for chosen in rounds(algorithm, state, EIGHT):
        assert sorted(chosen.clients[:3].tolist()) == [4, 5, 6]
        assert chosen.clients[3] in {0, 1, 2, 3, 7}
    last = np.bincount([chosen.clients[3] for chosen in rounds(algorithm, state, EIGHT)], minlength=8)
    assert (last[[0, 1, 2, 3, 7]] > 20).all()


def test_afl_fills_the_cohort_uniformly_when_too_few_are_left_for_the_draw_by_value():
    algorithm = AFL(alpha1=0.75, alpha3=0.0)
    for chosen in rounds(algorithm, valued([1, 2, 3, 4, 1, 2.5, 3, 4]), EIGHT, 20):
        assert len(set(chosen.clients.tolist())) == 4
        assert set(chosen.clients[:2].tolist()) == {6, 7}


def test_afl_refreshes_a_loss_only_when_the_client_trains():
    algorithm = AFL()
    state = algorithm.learn(valued(range(8)), EIGHT, [Report(2, 0, loss=7.5), Report(3, 0)])
    np.testing.assert_array_equal(state["client/loss"], [0, 1, 7.5, 3, 4, 5, 6, 7])


def test_afl_values_a_client_never_tried_at_the_highest_loss_seen():
    values = AFL().valuations(valued([1, 5, np.nan, 2, 1, 1, 1, np.nan]), EIGHT)
    np.testing.assert_array_equal(values[[2, 7]], [2 * 5, 4 * 5])


def test_cfcfm_asks_everybody_for_k_submissions():
    algorithm = CFCFM()
    chosen = algorithm.select(algorithm.start(EIGHT, START), EIGHT, stream(0, "select"))
    assert chosen.clients.tolist() == list(range(8))
    assert chosen.quota == 4
    assert chosen.first is not None
    assert chosen.first.all()


def test_cfcfm_puts_those_not_merged_last_round_first():
    algorithm = CFCFM()
    state = algorithm.learn(algorithm.start(EIGHT, START), EIGHT, [Report(k, 0) for k in (5, 0, 3, 1)])
    chosen = algorithm.select(state, EIGHT, stream(0, "select"))
    assert np.flatnonzero(~chosen.first).tolist() == [0, 1, 3, 5]
    state = algorithm.learn(state, EIGHT, [Report(k, 1) for k in (2, 4, 6, 7)])
    assert np.flatnonzero(algorithm.select(state, EIGHT, stream(0, "select")).first).tolist() == [0, 1, 3, 5]


def test_cfcfm_lets_a_newcomer_go_first():
    algorithm = CFCFM()
    state = algorithm.learn(algorithm.start(EIGHT, START), EIGHT, [Report(k, 0) for k in range(8)])
    grown = Population(np.append(EIGHT.sizes, 4), cohort=4)
    assert np.flatnonzero(algorithm.select(with_clients(state, 9), grown, stream(0, "select")).first).tolist() == [8]


@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_asks_distinct_clients_and_says_how_often_each_was_drawn(name):
    algorithm = create(name)
    state, _ = play(algorithm, rounds=2)
    for chosen in rounds(algorithm, state, POPULATION, 20):
        assert len(set(chosen.clients.tolist())) == len(chosen.clients)
        assert set(chosen.clients.tolist()) <= set(range(len(SIZES)))
        asked = chosen.draws.sum()
        assert asked == (len(SIZES) if chosen.quota else POPULATION.cohort)


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("fedavg", "full"),
        ("cfcfm", "full"),
        ("fedavg-rp", "partial"),
        ("fedprox", "partial"),
        ("fedadam", "partial"),
        ("afl", "partial"),
        ("fedprof", "partial"),
    ],
)
def test_every_algorithm_aggregates_as_the_papers_table_says(name, mode):
    assert create(name).combines.mode == mode
