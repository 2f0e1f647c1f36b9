"""Clients are drawn by their scores: one after the other without replacement, or independently with it."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from fedprof import log_scores, sample, stream
from fedprof.errors import SettingsError

log_weights = st.lists(st.one_of(st.floats(-1e30, 1e30), st.just(-np.inf)), min_size=1, max_size=30)


def counts(draw, times, keys):
    seen = Counter(draw() for _ in range(times))
    assert set(seen) <= set(keys)
    return [seen[key] for key in keys]


@given(log_weights, st.data(), st.integers(0, 100))
def test_draws_are_distinct_and_possible(logs, data, seed):
    possible = [i for i, w in enumerate(logs) if w > -np.inf]
    k = data.draw(st.integers(0, len(possible)))
    drawn = sample(logs, k, stream(seed, "sample"))
    assert drawn.dtype == np.int64
    assert len(set(drawn.tolist())) == len(drawn) == k
    assert set(drawn.tolist()) <= set(possible)


@given(log_weights.filter(lambda w: max(w) > -np.inf), st.integers(0, 60))
def test_with_replacement_any_number_can_be_drawn(logs, k):
    drawn = sample(logs, k, stream(0, "sample"), replace=True)
    assert drawn.dtype == np.int64
    assert len(drawn) == k
    assert all(logs[i] > -np.inf for i in drawn)


def test_without_replacement_is_one_draw_after_another():
    """The probability of every ordered pair is the product of two proportional draws."""
    weights = np.array([5.0, 3, 1, 1])
    p = weights / weights.sum()
    pairs = list(permutations(range(4), 2))
    expected = np.array([p[a] * p[b] / (1 - p[a]) for a, b in pairs])
    rng, logs = stream(0, "pairs"), np.log(weights) + 1000
    seen = counts(lambda: tuple(sample(logs, 2, rng).tolist()), 20_000, pairs)
    assert chisquare(seen, 20_000 * expected).pvalue > 1e-3


def test_with_replacement_each_draw_is_proportional():
    weights = np.array([5.0, 3, 1, 1])
    drawn = sample(np.log(weights) - 5000, 20_000, stream(0, "with"), replace=True)
    assert chisquare(np.bincount(drawn, minlength=4), 2000 * weights).pvalue > 1e-3


@pytest.mark.parametrize("replace", [False, True])
def test_alpha_0_selects_uniformly(replace):
    logs = log_scores([0.0, 0.4, 3.0, 80.0, 1e6], alpha=0.0)
    rng = stream(1, "uniform")
    drawn = np.concatenate([sample(logs, 2, rng, replace) for _ in range(5000)])
    assert chisquare(np.bincount(drawn, minlength=5)).pvalue > 1e-3


def test_scores_that_underflow_still_rank_and_stay_random():
    """exp(-25 * 1e6) is 0 as a float: the equal best two are drawn first, in either order, and the third is never."""
    logs = log_scores([1e6, 2e6, 1e6], alpha=25.0)
    rng = stream(0, "underflow")
    seen = counts(lambda: tuple(sample(logs, 2, rng).tolist()), 2000, [(0, 2), (2, 0)])
    assert chisquare(seen).pvalue > 1e-3


def test_one_stream_gives_one_result():
    logs = np.linspace(-3, 0, 50)
    assert sample(logs, 9, stream(7, "s", 3)).tolist() == sample(logs, 9, stream(7, "s", 3)).tolist()
    assert sample(logs, 9, stream(7, "s", 3)).tolist() != sample(logs, 9, stream(7, "s", 4)).tolist()


def test_drawing_all_is_a_permutation():
    assert sorted(sample(np.zeros(20), 20, stream(0, "all")).tolist()) == list(range(20))


def test_a_million_clients_are_one_vectorised_pass():
    div = stream(0, "million").random(1_000_000) * 30
    drawn = sample(log_scores(div, 10.0), 1000, stream(0, "draw"))
    assert len(set(drawn.tolist())) == 1000
    assert div[drawn].max() < 1.5  # exp(-10 * 1.5) of the best score: the draw follows the scores


@pytest.mark.parametrize(
    ("logs", "k", "replace", "says"),
    [
        ([0, -np.inf, 0], 3, False, "only 2 can be drawn"),
        ([-np.inf], 1, True, "only 0 can be drawn"),
        ([], 1, False, "only 0 can be drawn"),
        ([0, 0], -1, False, "k = -1"),
        ([0, np.nan], 1, False, "NaN"),
        ([0, np.inf], 1, False, "infinity"),
        ([[0.0]], 1, False, "shape"),
    ],
)
def test_impossible_draws_are_errors(logs, k, replace, says):
    with pytest.raises(SettingsError, match=says):
        sample(logs, k, stream(0, "bad"), replace)
