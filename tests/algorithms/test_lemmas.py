"""Lemmas 4 and 5, and Li et al.'s two schemes: expectations by enumeration, and samplers that draw as enumerated."""

from itertools import combinations, permutations, product

import numpy as np
import pytest
from scipy.stats import chisquare
from toy_federation import reply

from fedprof.algorithms.base import Population, Selection
from fedprof.algorithms.fedavg import FedAvg
from fedprof.algorithms.fedavg_rp import FedAvgRP
from fedprof.algorithms.fedprof import FedProf
from fedprof.algorithms.fedprox import FedProx
from fedprof.randomness import stream

K = 2
POPULATION = Population(np.array([10, 20, 30, 40]), cohort=K)
RHO = POPULATION.shares
START = np.zeros(3, np.float32)
LOCAL = stream(0, "lemma").normal(size=(4, 3)).astype(np.float32)
"""v_k(t): every client's model after its local steps."""
MEAN = RHO @ LOCAL.astype(float)
WITH = FedProf(alpha="optimal", replace=True)
WITHOUT = FedProf(alpha="optimal", replace=False)


def with_replacement():
    """Every ordered outcome of K independent draws by rho, and its probability."""
    return [(drawn, float(np.prod(RHO[list(drawn)]))) for drawn in product(range(4), repeat=K)]


def without_replacement():
    """Every ordered outcome of K draws by rho among those left, and its probability."""
    return [((i, j), RHO[i] * RHO[j] / (1 - RHO[i])) for i, j in permutations(range(4), K)]


def aggregated(algorithm, drawn):
    chosen = Selection.of(np.array(drawn))
    pairs = zip(chosen.clients, chosen.draws, strict=True)
    replies = [reply(int(k), LOCAL[k], draws=int(n)) for k, n in pairs]
    return algorithm.combine(algorithm.start(POPULATION, START), POPULATION, START, replies)[1].astype(float)


def expectation(algorithm, outcomes):
    results = np.array([aggregated(algorithm, drawn) for drawn, _ in outcomes])
    chances = np.array([chance for _, chance in outcomes])
    assert chances.sum() == pytest.approx(1)
    mean = chances @ results
    return mean, float(chances @ np.square(results - MEAN).sum(1))


def drawn_counts(algorithm, outcomes, rounds=4000, **known):
    """How often each outcome comes out of ``select``, as sets with repeats, and how often it should."""
    state = {**algorithm.start(POPULATION, START), **known}
    keys = sorted({tuple(sorted(drawn)) for drawn, _ in outcomes})
    counts = dict.fromkeys(keys, 0)
    for turn in range(rounds):
        chosen = algorithm.select(state, POPULATION, stream(5, "select", turn))
        counts[tuple(sorted(np.repeat(chosen.clients, chosen.draws).tolist()))] += 1
    expected = dict.fromkeys(keys, 0.0)
    for drawn, chance in outcomes:
        expected[tuple(sorted(drawn))] += chance * rounds
    return list(counts.values()), list(expected.values())


def test_optimal_penalties_make_the_selection_probability_the_share_of_the_data():
    """q_k = lambda_k / Lambda = rho_k, whatever the divergences."""
    state = {**WITH.start(POPULATION, START), "client/divergence": np.array([40.0, 0.1, 3.0, 7.0])}
    np.testing.assert_allclose(WITH.scores(state, POPULATION), RHO, rtol=1e-12)


def test_lemma_4_aggregation_is_unbiased_with_replacement():
    mean, _ = expectation(WITH, with_replacement())
    np.testing.assert_allclose(mean, MEAN, atol=1e-6)


def test_lemma_5_variance_is_bounded_with_replacement():
    """v_k is tau steps of length eta |gradient| <= eta G away from the last synchronisation (here 0)."""
    _, variance = expectation(WITH, with_replacement())
    longest = np.linalg.norm(LOCAL, axis=1).max()  # eta tau G, where every gradient has the largest norm
    assert variance == pytest.approx(RHO @ np.square(LOCAL - MEAN).sum(1) / K, rel=1e-5)
    assert 0 < variance <= 4 / K * longest**2


def test_drawing_without_replacement_biases_towards_small_clients():
    """Inclusion probabilities are no longer K rho_k, so the mean is another one; the variance is lower."""
    outcomes = without_replacement()
    inclusion = [sum(chance for drawn, chance in outcomes if k in drawn) for k in range(4)]
    np.testing.assert_allclose(inclusion, [0.2345, 0.4413, 0.6083, 0.7159], atol=1e-4)
    np.testing.assert_allclose(K * RHO, [0.2, 0.4, 0.6, 0.8])
    mean, variance = expectation(WITHOUT, outcomes)
    np.testing.assert_allclose(mean, np.array(inclusion) / K @ LOCAL, atol=1e-6)
    assert np.abs(mean - MEAN).max() > 0.01
    assert variance < expectation(WITH, with_replacement())[1]


def test_without_replacement_is_unbiased_where_all_clients_hold_as_much():
    outcomes = [(drawn, 1 / 12) for drawn in permutations(range(4), K)]
    mean, _ = expectation(WITHOUT, outcomes)
    np.testing.assert_allclose(mean, LOCAL.mean(0), atol=1e-6)


@pytest.mark.parametrize(
    ("algorithm", "outcomes"),
    [
        (WITH, with_replacement()),
        (WITHOUT, without_replacement()),
        (FedAvgRP(scheme="I"), with_replacement()),
        (FedAvgRP(scheme="II"), [(drawn, 1 / 6) for drawn in combinations(range(4), K)]),
        (FedProx(), without_replacement()),
        (FedProx(replace=True), with_replacement()),
    ],
    ids=["fedprof with", "fedprof without", "scheme I", "scheme II", "fedprox", "fedprox with"],
)
def test_selection_draws_as_enumerated(algorithm, outcomes):
    counts, expected = drawn_counts(algorithm, outcomes)
    assert chisquare(counts, expected).pvalue > 0.01


def test_scheme_one_is_unbiased():
    mean, _ = expectation(FedAvgRP(scheme="I"), with_replacement())
    np.testing.assert_allclose(mean, MEAN, atol=1e-6)


def test_scheme_two_is_unbiased():
    outcomes = [(drawn, 1 / 6) for drawn in combinations(range(4), K)]
    mean, _ = expectation(FedAvgRP(scheme="II"), outcomes)
    np.testing.assert_allclose(mean, MEAN, atol=1e-6)


def test_alpha_zero_is_random_selection():
    """Every pair of clients is equally likely, whatever the divergences."""
    pairs = [(drawn, 1 / 6) for drawn in combinations(range(4), K)]
    known = {"client/divergence": np.array([50.0, 0.0, 1.0, 9.0])}
    counts, expected = drawn_counts(FedProf(alpha=0.0), pairs, **known)
    assert chisquare(counts, expected).pvalue > 0.01
    biased, _ = drawn_counts(FedProf(alpha=0.1), pairs, **known)
    assert chisquare(biased, expected).pvalue < 1e-6


def test_alpha_zero_selects_the_very_cohorts_of_fedavg():
    fedprof, fedavg = FedProf(alpha=0.0), FedAvg()
    state = {**fedprof.start(POPULATION, START), "client/divergence": np.array([50.0, 0.0, 1.0, 9.0])}
    for turn in range(50):
        ours = fedprof.select(state, POPULATION, stream(9, "select", turn))
        theirs = fedavg.select({}, POPULATION, stream(9, "select", turn))
        np.testing.assert_array_equal(ours.clients, theirs.clients)


def test_alpha_ten_is_not_random_selection():
    algorithm = FedProf(alpha=10.0)
    state = {**algorithm.start(POPULATION, START), "client/divergence": np.array([0.5, 0.0, 0.1, 0.9])}
    expected = np.exp(-10 * np.array([0.5, 0.0, 0.1, 0.9]))
    np.testing.assert_allclose(algorithm.scores(state, POPULATION), expected / expected.sum(), rtol=1e-12)
