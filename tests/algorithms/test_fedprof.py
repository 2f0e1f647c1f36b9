"""Algorithm 1: profiles meet the baseline of their own version, scores follow, and odd clients do no harm."""

import numpy as np
import pytest
from toy_federation import POPULATION, SIZES, play, profile_of

from fedprof.algorithms.base import Population, Report, with_clients
from fedprof.algorithms.fedprof import FedProf
from fedprof.core.divergence import divergence
from fedprof.core.profile import Profile
from fedprof.randomness import stream

START = np.zeros(9, np.float32)
NOBODY = np.full(len(SIZES), np.nan)


def profile(mean: float, version: int = 0, q: int = 4) -> Profile:
    return Profile(np.full(q, mean, np.float32), np.ones(q, np.float32), 10, version)


def begin(algorithm: FedProf):
    return algorithm.publish(algorithm.start(POPULATION, START), 0, profile(0.0))


def test_before_any_profile_every_client_is_as_likely():
    algorithm = FedProf()
    np.testing.assert_allclose(algorithm.scores(begin(algorithm), POPULATION), 1 / len(SIZES))


def test_initial_profiles_of_all_clients_give_the_scores_of_equation_8():
    algorithm = FedProf(alpha=2.0)
    profiles = [profile_of(START, k, 0) for k in range(len(SIZES))]
    state = algorithm.learn(begin(algorithm), POPULATION, [Report(k, 0, profile=p) for k, p in enumerate(profiles)])
    divergences = divergence(profiles, profile(0.0))
    np.testing.assert_array_equal(algorithm.divergences(state), divergences)
    lambdas = np.exp(-2.0 * divergences)
    np.testing.assert_allclose(algorithm.scores(state, POPULATION), lambdas / lambdas.sum(), rtol=1e-12)


def test_only_the_cohorts_divergences_change_after_that():
    algorithm = FedProf()
    state = algorithm.learn(begin(algorithm), POPULATION, [Report(k, 0, profile=profile(k)) for k in range(len(SIZES))])
    state = algorithm.publish(state, 1, profile(1.0, version=1))
    after = algorithm.learn(state, POPULATION, [Report(3, 1, profile=profile(1.5, version=1))])
    expected = np.arange(len(SIZES)) ** 2 / 2
    expected[3] = 0.5**2 / 2
    np.testing.assert_allclose(algorithm.divergences(after), expected, rtol=1e-6)


def test_a_late_profile_is_compared_with_the_baseline_of_its_own_version():
    algorithm = FedProf()
    state = algorithm.publish(begin(algorithm), 1, profile(5.0, version=1))
    state = algorithm.learn(state, POPULATION, [Report(2, 1, profile=profile(0.0, version=0))])
    assert algorithm.divergences(state)[2] == 0.0
    assert state["client/version"][2] == 0


def test_a_late_profile_does_not_replace_a_newer_one():
    algorithm = FedProf()
    state = algorithm.publish(begin(algorithm), 1, profile(5.0, version=1))
    state = algorithm.learn(state, POPULATION, [Report(2, 1, profile=profile(5.0, version=1))])
    state = algorithm.learn(state, POPULATION, [Report(2, 0, profile=profile(3.0, version=0))])
    assert algorithm.divergences(state)[2] == 0.0


def test_a_profile_whose_baseline_is_gone_leaves_what_was_known():
    algorithm = FedProf(memory=2)
    state = algorithm.learn(begin(algorithm), POPULATION, [Report(0, 0, profile=profile(1.0))])
    for version in (1, 2):
        state = algorithm.publish(state, version, profile(9.0, version))
    assert sorted(name for name in state if name.startswith("baseline/")) == ["baseline/1", "baseline/2"]
    state = algorithm.learn(state, POPULATION, [Report(0, 0, profile=profile(7.0)), Report(1, 0, profile=profile(7.0))])
    assert algorithm.divergences(state)[0] == 0.5
    assert np.isnan(algorithm.divergences(state)[1])


def test_a_profile_of_another_layer_is_no_profile():
    algorithm = FedProf()
    state = algorithm.learn(begin(algorithm), POPULATION, [Report(0, 0, profile=profile(1.0, q=5))])
    assert np.isnan(algorithm.divergences(state)[0])


def test_a_divergence_matched_in_private_is_taken_as_it_is():
    algorithm = FedProf()
    reports = [Report(0, 0, divergence=0.25), Report(1, 0, divergence=-1e-8), Report(2, 0, divergence=float("nan"))]
    state = algorithm.learn(begin(algorithm), POPULATION, reports)
    np.testing.assert_array_equal(algorithm.divergences(state)[:3], [0.25, 0.0, np.nan])


def test_a_client_without_a_profile_gets_the_neutral_score():
    """The median divergence: neither rewarded nor punished for saying nothing."""
    algorithm = FedProf(alpha=1.0)
    known = NOBODY.copy()
    known[:5] = [0.1, 0.2, 0.7, 3.0, 5.0]
    scores = algorithm.scores({**begin(algorithm), "client/divergence": known}, POPULATION)
    assert scores[5] == scores[6] == scores[2]


def test_a_client_that_joins_late_gets_the_neutral_score():
    algorithm = FedProf(alpha=1.0)
    state = algorithm.learn(begin(algorithm), POPULATION, [Report(k, 0, profile=profile(k)) for k in range(len(SIZES))])
    state = with_clients(state, 9)
    grown = Population(np.append(SIZES, [5, 5]), cohort=3)
    scores = algorithm.scores(state, grown)
    assert scores[7] == scores[8] == pytest.approx(np.median(scores[:7]))
    state = algorithm.learn(state, grown, [Report(8, 0, profile=profile(0.0))])
    assert algorithm.divergences(state)[8] == 0.0


def test_divergences_far_beyond_what_exp_can_hold_still_order_clients():
    algorithm = FedProf(alpha=25.0)
    known = np.array([900.0, 40.0, 800.0, 30.0, 700.0, 50.0, 1e300])
    state = {**begin(algorithm), "client/divergence": known}
    for turn in range(20):
        chosen = algorithm.select(state, POPULATION, stream(0, "select", turn))
        assert chosen.clients.tolist() == [3, 1, 5]


def test_one_state_serves_both_aggregations():
    full, partial = FedProf(aggregation="full"), FedProf(aggregation="partial")
    assert (full.combines.mode, partial.combines.mode) == ("full", "partial")
    assert play(full)[1].tobytes() != play(partial)[1].tobytes()


def test_the_whole_protocol_keeps_the_divergence_of_the_newest_version_of_each_client():
    state, _ = play(FedProf(), rounds=6)
    assert state["client/version"].max() == 5
    assert np.isfinite(state["client/divergence"]).all()
