"""Damage does what it claims, to what it claims, and to nothing else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedprof.data.damage import DAMAGES, Clean, assign
from fedprof.errors import SettingsError
from fedprof.randomness import stream


def damaged(name, x, y, seed=0, **strength):
    return DAMAGES[name](x, y, stream(seed, "damage"), Clean.of(x, y), **strength)


@pytest.fixture(scope="module")
def digits(real):
    raw = real("digits")
    return raw.train_x[:400], raw.train_y[:400]


@pytest.fixture(scope="module")
def table():
    generator = stream(0, "table")
    x = generator.normal([0, 100, -5], [1, 20, 0.1], (2000, 3)).astype(np.float32)
    return x, x[:, :2] * 2


CASES = [(name, "digits") for name, damage in DAMAGES.items() if damage.images]
CASES += [(name, "table") for name, damage in DAMAGES.items() if damage.features]


@pytest.mark.parametrize(("name", "what"), CASES)
def test_shapes_and_dtypes_stay_and_the_originals_are_untouched(name, what, request):
    x, y = request.getfixturevalue(what)
    before = x.copy(), y.copy()
    new_x, new_y = damaged(name, x, y)
    assert (new_x.shape, new_x.dtype, new_y.shape, new_y.dtype) == (x.shape, x.dtype, y.shape, y.dtype)
    assert np.array_equal(x, before[0])
    assert np.array_equal(y, before[1])
    assert not (np.array_equal(new_x, x) and np.array_equal(new_y, y)), "damage changes something"
    assert not np.shares_memory(new_x, x)
    assert not np.shares_memory(new_y, y)
    assert np.isfinite(new_x).all()


@pytest.mark.parametrize(("name", "what"), CASES)
def test_damage_is_a_function_of_its_stream(name, what, request):
    x, y = request.getfixturevalue(what)
    first, again = damaged(name, x, y, seed=1), damaged(name, x, y, seed=1)
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1])
    if name != "blur":
        other = damaged(name, x, y, seed=2)
        assert not (np.array_equal(first[0], other[0]) and np.array_equal(first[1], other[1]))


@pytest.mark.parametrize("name", [name for name, damage in DAMAGES.items() if damage.images])
def test_images_keep_their_range(name, digits):
    x, _ = damaged(name, *digits)
    assert x.min() >= 0
    assert x.max() <= 16


@pytest.mark.parametrize("name", ["noise", "irrelevant", "blur", "pixel", "polluted", "missing"])
def test_labels_stay_when_inputs_are_damaged(name, digits, table):
    x, y = digits if DAMAGES[name].images else table
    assert np.array_equal(damaged(name, x, y)[1], y)


def test_salt_and_pepper_has_its_density_half_black_half_white(real):
    y = np.zeros(200, np.int64)
    x = np.full((200, 1, 28, 28), 100, np.uint8)
    x[0, 0, 0, 0], x[0, 0, 0, 1] = 0, 255
    new, _ = damaged("pixel", x, y)
    assert abs((new == 0).mean() - 0.15) < 0.005
    assert abs((new == 255).mean() - 0.15) < 0.005
    assert set(np.unique(new)) == {0, 100, 255}


def test_salt_and_pepper_dots_are_black_or_white_in_colour_images_too():
    x = np.full((50, 3, 32, 32), 100, np.uint8)
    x[0, :, 0, 0], x[0, :, 0, 1] = 0, 255
    new, _ = damaged("pixel", x, np.zeros(50, np.int64), density=0.3)
    changed = (new != x).any(axis=1, keepdims=True).repeat(3, axis=1)
    dots = new.transpose(0, 2, 3, 1)[changed[:, 0]]
    assert (dots == dots[:, :1]).all()


def test_noise_has_the_deviation_asked_for_in_units_of_each_feature(table):
    x, y = table
    new, _ = damaged("noise", x, y, sigma=0.5)
    assert np.allclose((new - x).std(axis=0) / x.std(axis=0), 0.5, atol=0.03)


def test_polluted_readings_are_outside_the_range_of_the_feature(table):
    x, y = table
    new, _ = damaged("polluted", x, y, density=0.25, reach=2.0)
    changed = new != x
    outside = (new < x.min(axis=0)) | (new > x.max(axis=0))
    assert np.array_equal(changed, outside)
    assert abs(changed.mean() - 0.25) < 0.02
    span = np.ptp(x, axis=0)
    assert np.all(new <= x.max(axis=0) + 2.001 * span)
    assert np.all(new >= x.min(axis=0) - 2.001 * span)


def test_blur_removes_detail_and_keeps_the_brightness_inside(real):
    x, y = real("digits").train_x[:200], real("digits").train_y[:200]
    weak, strong = (damaged("blur", x, y, sigma=sigma)[0].astype(float) for sigma in (0.7, 2.0))
    detail = [np.abs(np.diff(images.astype(float), axis=3)).mean() for images in (x, weak, strong)]
    assert detail[0] > 1.3 * detail[1]
    assert detail[1] > 1.3 * detail[2]
    flat = np.full((2, 1, 8, 8), 7, np.uint8)
    assert np.array_equal(damaged("blur", flat, y[:2])[0], flat)


def test_irrelevant_images_have_nothing_of_the_originals(real):
    x, y = real("digits").train_x, real("digits").train_y
    new, _ = damaged("irrelevant", x, y)
    alike = [np.corrcoef(a.ravel(), b.ravel())[0, 1] for a, b in zip(x, new, strict=True)]
    assert abs(np.mean(alike)) < 0.05
    classes = np.stack([new[y == c].mean(axis=0) for c in range(10)])
    assert classes.std(axis=0).max() < 2, "the labels say nothing about them"


def test_irrelevant_images_are_structured_and_use_the_whole_range():
    x, y = np.zeros((50, 1, 28, 28), np.uint8), np.zeros(50, np.int64)
    x[0, 0, 0, 0] = 255
    new = damaged("irrelevant", x, y)[0].astype(float)
    neighbours = np.corrcoef(new[:, :, :, :-1].ravel(), new[:, :, :, 1:].ravel())[0, 1]
    assert neighbours > 0.6, "white noise would have none"
    assert abs(new.mean() - 127.5) < 10
    assert np.percentile(new, 2) < 25
    assert np.percentile(new, 98) > 230
    assert len(np.unique(new.reshape(50, -1), axis=0)) == 50, "no two are the same"


def test_wrong_labels_are_wrong_and_as_many_as_asked_for(digits):
    x, y = digits
    new_x, new_y = damaged("mislabelled", x, y, density=0.3)
    assert np.count_nonzero(new_y != y) == 120
    assert new_y.min() >= 0
    assert new_y.max() <= 9
    assert np.array_equal(new_x, x)


def test_wrong_targets_in_regression_are_other_samples_targets(table):
    x, y = table
    _, new = damaged("mislabelled", x, y, density=0.4)
    assert (new != y).any(axis=1).sum() == 800
    assert np.array_equal(np.sort(new, axis=0), np.sort(y, axis=0))


def test_duplicates_are_copies_of_the_few_that_stay(digits):
    x, y = digits
    new_x, new_y = damaged("duplicated", x, y, density=0.9)
    distinct = np.unique(new_x.reshape(len(x), -1), axis=0)
    assert len(distinct) == 40
    originals = {image.tobytes(): label for image, label in zip(x, y, strict=True)}
    assert all(originals[image.tobytes()] == label for image, label in zip(new_x, new_y, strict=True))


def test_one_original_always_stays(digits):
    x, y = digits[0][:3], digits[1][:3]
    new, _ = damaged("duplicated", x, y, density=1.0)
    assert len(np.unique(new.reshape(3, -1), axis=0)) == 1


def test_missing_values_are_filled_with_the_mean_or_zero(table):
    x, y = table
    for fill, value in (("mean", x.mean(axis=0)), ("zero", np.zeros(3))):
        new, _ = damaged("missing", x, y, density=0.2, fill=fill)
        changed = new != x
        assert abs(changed.mean() - 0.2) < 0.02
        assert np.allclose(new[changed], np.broadcast_to(value, x.shape)[changed], rtol=1e-4)


@pytest.mark.parametrize("name", [name for name in DAMAGES if name not in ("irrelevant", "polluted")])
def test_damage_of_strength_zero_is_none(name, digits):
    x, y = digits
    strength = {"sigma" if "sigma" in DAMAGES[name].strengths else "density": 0}
    new_x, new_y = damaged(name, x, y, **strength)
    assert np.array_equal(new_x, x)
    assert np.array_equal(new_y, y)


@pytest.mark.parametrize("name", DAMAGES)
def test_a_client_with_one_sample_can_have_any_damage(name, digits, table):
    x, y = digits if DAMAGES[name].images else table
    new_x, new_y = DAMAGES[name](x[:1], y[:1], stream(0, "d"), Clean.of(x, y))
    assert (len(new_x), len(new_y)) == (1, 1)


def test_the_papers_shares_give_the_papers_numbers():
    shares = {"irrelevant": 0.15, "blur": 0.20, "pixel": 0.25}
    assert np.bincount(assign(shares, 40, stream(0, "kinds"))).tolist() == [16, 6, 8, 10]
    assert np.bincount(assign(shares, 500, stream(0, "kinds"))).tolist() == [200, 75, 100, 125]
    cifar = {"irrelevant": 0.1, "blur": 0.2, "pixel": 0.2}
    assert np.bincount(assign(cifar, 10, stream(0, "kinds"))).tolist() == [5, 1, 2, 2]
    assert np.bincount(assign({"polluted": 0.1, "noise": 0.4}, 50, stream(0, "kinds"))).tolist() == [25, 5, 20]


@given(shares=st.lists(st.floats(0, 1), max_size=5), clients=st.integers(1, 300))
def test_numbers_of_damaged_clients_are_within_one_of_their_shares(shares, clients):
    total = max(1.0, sum(shares))
    named = {str(i): share / total for i, share in enumerate(shares)}
    kind = assign(named, clients, stream(0, "kinds"))
    assert len(kind) == clients
    counts = np.bincount(kind, minlength=len(shares) + 1)
    expected = clients * np.array([1 - sum(named.values()), *named.values()])
    assert np.all(np.abs(counts - expected) < 1 + 1e-6)


def test_nobody_is_damaged_unless_asked():
    assert not assign({}, 7, stream(0, "kinds")).any()
    assert not assign({"blur": 0.0}, 7, stream(0, "kinds")).any()


@pytest.mark.parametrize("shares", [{"blur": -0.1}, {"blur": 0.6, "pixel": 0.6}])
def test_impossible_shares_are_an_error(shares):
    with pytest.raises(SettingsError, match="at most 1 in all"):
        assign(shares, 10, stream(0, "kinds"))


@pytest.mark.parametrize(
    ("name", "strength", "message"),
    [
        ("pixel", {"density": 1.2}, "damage.pixel.density = 1.2: must be a number from 0 to 1"),
        ("pixel", {"density": "much"}, "must be a number"),
        ("blur", {"sigma": -1}, "damage.blur.sigma = -1: must be a number of at least 0"),
        ("blur", {"radius": 2}, "damage.blur.radius: it takes sigma"),
        ("irrelevant", {"density": 0.5}, "damage.irrelevant.density: it takes no strengths"),
        ("missing", {"fill": "ones"}, "'mean' or 'zero'"),
        ("polluted", {}, "'polluted' cannot be done to images"),
    ],
)
def test_wrong_strengths_are_an_error_that_names_them(name, strength, message, digits):
    with pytest.raises(SettingsError, match=message):
        damaged(name, *digits, **strength)


def test_tables_cannot_be_blurred(table):
    with pytest.raises(SettingsError, match="'blur' cannot be done to tables"):
        damaged("blur", *table)
