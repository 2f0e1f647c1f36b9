"""Partial moments merge to those of the whole: in any split, in any order, however large the mean."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedprof.core.profile import Moments
from fedprof.errors import ProfileError
from fedprof.randomness import stream

batches = arrays(
    np.float32,
    st.tuples(st.integers(1, 12), st.just(3)),
    elements=st.floats(-1000, 1000, width=32).map(lambda v: np.float32(v) + np.float32(0)),
)


def moments(*rows):
    total = Moments(3)
    for part in rows:
        total.update(part)
    return total


def merged(*parts):
    total = Moments(3)
    for part in parts:
        total.merge(part)
    return total


def assert_same(a, b):
    assert a.count == b.count
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(a.m2, b.m2, rtol=1e-9, atol=1e-6)


@given(batches, batches, batches)
def test_merge_is_associative(a, b, c):
    left = merged(merged(moments(a), moments(b)), moments(c))
    right = merged(moments(a), merged(moments(b), moments(c)))
    assert_same(left, right)


@given(batches, batches)
def test_merge_is_commutative(a, b):
    assert_same(merged(moments(a), moments(b)), merged(moments(b), moments(a)))


@given(batches, st.integers(1, 5))
def test_any_split_gives_the_moments_of_the_whole(rows, size):
    parts = [rows[i : i + size] for i in range(0, len(rows), size)]
    assert_same(moments(*parts), moments(rows))
    np.testing.assert_allclose(moments(*parts).mean, rows.astype(np.float64).mean(0), rtol=1e-9, atol=1e-9)


@given(batches, st.randoms(use_true_random=False))
def test_the_order_of_samples_does_not_matter(rows, random):
    order = list(range(len(rows)))
    random.shuffle(order)
    assert_same(moments(rows[order[:4]], rows[order[4:]]), moments(rows))


def test_an_empty_part_changes_nothing():
    rows = np.arange(12.0).reshape(4, 3)
    assert_same(merged(Moments(3), moments(rows), Moments(3), moments(np.empty((0, 3)))), moments(rows))


@pytest.mark.parametrize(("mean", "std"), [(1e4, 1e-2), (1e6, 1.0), (-3e7, 4.0), (0.0, 1e-15), (1e-20, 1.0)])
def test_stable_where_the_mean_dwarfs_the_spread(mean, std):
    rows = (mean + std * stream(0, "stability").standard_normal((5000, 3))).astype(np.float32)
    profile = moments(*np.array_split(rows, 71)).to_profile()
    exact = rows.astype(np.float64)
    np.testing.assert_allclose(profile.variance, exact.var(axis=0), rtol=1e-6)
    np.testing.assert_allclose(profile.mean, exact.mean(axis=0), rtol=1e-6)


def test_one_sample_has_no_variance():
    profile = moments(np.array([[1.0, 2, 3]])).to_profile(version=4)
    assert (profile.count, profile.version) == (1, 4)
    assert not profile.variance.any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_a_diverged_model_is_reported(bad):
    rows = np.array([[1.0, 2, 3], [4, bad, 6]])
    with pytest.raises(ProfileError, match=r"\[1\] is .* diverged"):
        moments(rows[:1], rows[1:]).to_profile()


def test_what_does_not_fit_is_an_error():
    with pytest.raises(ProfileError, match="no samples"):
        Moments(3).to_profile()
    with pytest.raises(ProfileError, match=r"\(2, 4\)"):
        Moments(3).update(np.zeros((2, 4)))
    with pytest.raises(ProfileError, match="q = 2"):
        Moments(3).merge(Moments(2))
    with pytest.raises(ProfileError, match="q = 0"):
        Moments(0)
