import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedprof.reproduction.statistics import paired

FIGURES = st.floats(-10, 10).map(lambda value: round(value, 3))


def test_the_difference_is_ours_minus_theirs_over_common_seeds():
    test = paired({0: 3.0, 1: 5.0, 2: 9.0}, {0: 1.0, 1: 2.0, 7: 100.0})
    assert test.count == 2
    assert test.difference == pytest.approx(2.5)


@given(st.lists(st.tuples(FIGURES, FIGURES), min_size=3, max_size=8))
def test_it_is_the_paired_t_test(pairs):
    ours, theirs = map(np.array, zip(*pairs, strict=True))
    test = paired(dict(enumerate(ours)), dict(enumerate(theirs)))
    if np.ptp(ours - theirs) < 1e-6:
        return
    expected = stats.ttest_rel(ours, theirs)
    assert test.t_test == pytest.approx(expected.pvalue, abs=1e-9)
    assert test.low <= test.difference <= test.high


def test_five_seeds_that_all_agree_give_wilcoxons_smallest_p():
    test = paired({s: 10.0 + s for s in range(5)}, {s: 0.5 * s for s in range(5)})
    assert test.wilcoxon == pytest.approx(0.0625)


@pytest.mark.parametrize("ours", [{0: 1.0}, {0: 1.0, 1: 2.0}])
def test_without_spread_there_is_no_test(ours):
    test = paired(ours, {seed: value - 1 for seed, value in ours.items()})
    assert test.difference == 1
    assert test.t_test is None
    assert not test.significant


def test_nothing_in_common_is_no_comparison():
    assert paired({0: 1.0}, {1: 1.0}) is None
