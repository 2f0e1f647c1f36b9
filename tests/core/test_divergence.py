"""The divergence is the true Kullback-Leibler divergence of normal distributions, averaged over the elements."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from fedprof import Profile, divergence
from fedprof.core.divergence import VARIANCE_FLOOR, divergence_arrays
from fedprof.errors import ProfileError

FLOAT32_MAX = float(np.finfo(np.float32).max)
means = st.floats(width=32, allow_nan=False, allow_infinity=False)
variances = st.one_of(st.just(0.0), st.floats(0, FLOAT32_MAX, width=32))


def profile_of(elements, count=10, version=0):
    return Profile([m for m, _ in elements], [v for _, v in elements], count, version)


@st.composite
def pairs(draw):
    """Two profiles of one q that may share elements, as real ones do."""
    element = st.tuples(means, variances)
    ours = draw(st.lists(element, min_size=1, max_size=6))
    theirs = [draw(st.one_of(st.just(e), element)) for e in ours]
    return profile_of(ours), profile_of(theirs)


def floored(profile):
    return np.maximum(profile.variance.astype(np.float64), VARIANCE_FLOOR)


@given(pairs())
def test_never_negative_and_zero_only_for_equal_profiles(pair):
    client, baseline = pair
    equal = np.array_equal(client.mean, baseline.mean) and np.array_equal(floored(client), floored(baseline))
    d = divergence(client, baseline)
    assert np.isfinite(d)
    assert d == 0 if equal else d > 0


@given(pairs())
def test_a_profile_has_divergence_exactly_0_from_itself(pair):
    assert divergence(pair[0], pair[0]) == 0.0


@given(pairs(), st.randoms(use_true_random=False))
def test_the_order_of_elements_does_not_matter(pair, random):
    order = list(range(pair[0].q))
    random.shuffle(order)
    client, baseline = (Profile(p.mean[order], p.variance[order], p.count) for p in pair)
    assert divergence(client, baseline) == pytest.approx(divergence(*pair), rel=1e-12)


@given(st.lists(pairs(), min_size=1, max_size=1), st.integers(1, 4))
def test_many_clients_at_once_equal_one_at_a_time(drawn, repeats):
    client, baseline = drawn[0]
    together = divergence([client, baseline] * repeats, baseline)
    assert together.shape == (2 * repeats,)
    assert together.tolist() == [divergence(client, baseline), 0.0] * repeats


@pytest.mark.parametrize(("m", "s", "mb", "sb"), [(0, 1, 0, 1), (1, 2, -0.5, 0.7), (3, 0.2, 3.5, 1.5), (0, 1, 0, 1.01)])
def test_it_is_the_integral_of_the_definition(m, s, mb, sb):
    p, b = norm(m, s), norm(mb, sb)
    exact = quad(lambda x: p.pdf(x) * (p.logpdf(x) - b.logpdf(x)), m - 12 * s, m + 12 * s)[0]
    assert divergence(Profile([m], [s**2], 5), Profile([mb], [sb**2], 5)) == pytest.approx(exact, rel=1e-5, abs=1e-9)


def test_the_paper_s_equation_6_has_one_half_more():
    client, baseline = Profile([1, 2], [0.5, 3], 5), Profile([0.5, 2], [1, 2], 5)
    s, sb = np.sqrt(client.variance), np.sqrt(baseline.variance)
    equation = np.log(sb / s) + (s**2 + (client.mean - baseline.mean) ** 2) / (2 * sb**2)
    assert divergence(client, baseline) == pytest.approx(equation.mean() - 0.5, rel=1e-6)


def test_a_tiny_difference_is_not_lost_to_cancellation():
    just_above_1 = np.nextafter(np.float32(1), np.float32(2))
    d = divergence(Profile([0], [just_above_1], 5), Profile([0], [1], 5))
    assert d == pytest.approx((float(just_above_1) - 1) ** 2 / 4, rel=1e-5)


def test_zero_variance_is_finite_and_large():
    flat, spread = Profile([0], [0], 5), Profile([0], [1], 5)
    assert 13 < divergence(flat, spread) < 14
    assert divergence(spread, flat) == pytest.approx(0.5 / VARIANCE_FLOOR, rel=1e-6)
    assert divergence(flat, flat) == 0
    assert divergence(Profile([1], [0], 5), flat) == pytest.approx(0.5 / VARIANCE_FLOOR)


def test_no_float32_input_overflows():
    widest = Profile([FLOAT32_MAX], [FLOAT32_MAX], 5)
    for other in (Profile([-FLOAT32_MAX], [0], 5), Profile([-FLOAT32_MAX], [1e-45], 5)):
        assert np.isfinite(divergence(widest, other))
        assert np.isfinite(divergence(other, widest))


def test_arrays_give_the_same_as_profiles():
    baseline = Profile([0, 1], [1, 2], 9)
    mean, variance = np.array([[0.5, 1], [0, 1], [7, 7]]), np.array([[1, 1], [1, 2], [0, 3]])
    expected = divergence([Profile(m, v, 5) for m, v in zip(mean, variance, strict=True)], baseline)
    assert divergence_arrays(mean, variance, baseline).tolist() == expected.tolist()
    assert divergence([], baseline).shape == (0,)


def test_only_profiles_of_one_layer_and_one_model_version_compare():
    baseline = Profile([0, 1], [1, 1], 9, version=3)
    with pytest.raises(ProfileError, match="profile 0 was made by model version 2 but the baseline by version 3"):
        divergence(Profile([0, 1], [1, 1], 9, version=2), baseline)
    with pytest.raises(ProfileError, match="profile 1 has q = 1 but the baseline has q = 2"):
        divergence([baseline, Profile([0], [1], 9, version=3)], baseline)


@pytest.mark.parametrize(
    ("mean", "variance"), [([[0.0]], [[1.0]]), ([[0, np.nan]], [[1, 1]]), ([[0, 0]], [[1, -1]]), ([0, 0], [1, 1])]
)
def test_malformed_arrays_are_errors(mean, variance):
    with pytest.raises(ProfileError):
        divergence_arrays(mean, variance, Profile([0, 1], [1, 1], 9))
