"""Scores are lambda_k = exp(-alpha_k * div_k); as selection probabilities they never degenerate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedprof import log_scores, scores
from fedprof.core.scores import optimal_alpha
from fedprof.errors import ProfileError, SettingsError

divergences = st.lists(st.floats(0, 1e30), min_size=1, max_size=20)
alphas = st.floats(0, 1e6)


@st.composite
def divergences_and_sizes(draw):
    div = draw(divergences)
    return div, draw(st.lists(st.integers(1, 10**6), min_size=len(div), max_size=len(div)))


def test_the_definition():
    div, alpha = np.array([0.1, 0.3, 0.0]), 10.0
    weights = np.exp(-alpha * div)
    np.testing.assert_allclose(scores(div, alpha), weights / weights.sum(), rtol=1e-12)
    np.testing.assert_allclose(np.exp(log_scores(div, alpha)), weights, rtol=1e-12)


@given(divergences, alphas)
def test_probabilities_add_up_to_1_however_large_the_divergences(div, alpha):
    p = scores(div, alpha)
    assert (p >= 0).all()
    assert p.sum() == pytest.approx(1, abs=1e-12)


@given(divergences)
def test_alpha_0_is_uniform(div):
    assert scores(div, 0.0).tolist() == [1 / len(div)] * len(div)


@given(st.floats(0, 1e30), alphas, st.integers(1, 20))
def test_equal_divergences_have_equal_scores(div, alpha, clients):
    assert scores([div] * clients, alpha).tolist() == [1 / clients] * clients


@given(divergences, alphas)
def test_a_larger_divergence_never_has_a_larger_score(div, alpha):
    ordered = scores(np.sort(div), alpha)
    assert (np.diff(ordered) <= 0).all()


@given(divergences, alphas, st.randoms(use_true_random=False))
def test_a_client_s_score_does_not_depend_on_its_place(div, alpha, random):
    order = list(range(len(div)))
    random.shuffle(order)
    np.testing.assert_allclose(scores(np.array(div)[order], alpha), scores(div, alpha)[order], rtol=1e-12)


@given(divergences)
def test_one_penalty_for_all_equals_that_penalty_for_each(div):
    assert scores(div, 3.0).tolist() == scores(div, [3.0] * len(div)).tolist()


def test_a_constant_added_to_every_divergence_cancels():
    div = np.array([0.2, 0.7, 1.4])
    np.testing.assert_allclose(scores(div + 0.5, 25.0), scores(div, 25.0), rtol=1e-12)


@given(divergences_and_sizes())
def test_the_optimal_penalty_selects_by_share_of_the_data(drawn):
    div, sizes = drawn
    np.testing.assert_allclose(scores(div, "optimal", sizes), np.array(sizes) / np.sum(sizes), rtol=1e-12)


@given(divergences_and_sizes())
def test_theorem_1_s_penalties_give_q_equal_to_rho(drawn):
    div = np.maximum(drawn[0], 1e-6)
    rho = np.array(drawn[1]) / np.sum(drawn[1])
    alpha = optimal_alpha(div, drawn[1])
    assert (alpha >= 0).all()
    scale = np.exp(log_scores(div, alpha)).sum()  # the Lambda of Theorem 1
    np.testing.assert_allclose(alpha, -np.log(scale * rho) / div, rtol=1e-9, atol=1e-9 / div.min())
    np.testing.assert_allclose(scores(div, alpha), rho, rtol=1e-9)


def test_no_finite_penalty_lowers_the_score_of_a_perfect_client():
    assert optimal_alpha([0, 0, 0.5], [10, 40, 20]).tolist() == [np.inf, 0, pytest.approx(np.log(2) / 0.5)]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1e-9])
def test_impossible_values_are_errors_that_name_the_client(bad):
    with pytest.raises(ProfileError, match="divergence 1 is"):
        scores([0, bad, 1])
    with pytest.raises(SettingsError, match="alpha 2 is"):
        scores([0, 1, 2], [1, 1, bad])
    with pytest.raises(SettingsError, match="size 0 is"):
        scores([0, 1], "optimal", [bad, 1])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (([0, 1], [1.0, 2, 3]), "alpha has shape"),
        (([0, 1], "best"), "'best'"),
        (([0, 1], "optimal"), "needs the clients' data sizes"),
        (([0, 1], "optimal", [1]), "sizes have shape"),
        (([0, 1], "optimal", [1, 0]), "size 1 is 0"),
        (([],), "divergences have shape"),
        (([[1.0]],), "divergences have shape"),
    ],
)
def test_arguments_that_do_not_fit_are_errors(arguments, says):
    with pytest.raises((ProfileError, SettingsError), match=says):
        scores(*arguments)


def test_an_absurd_penalty_keeps_the_scores_finite():
    assert np.isfinite(log_scores([1e200, 0], 1e200)).all()
