"""From samples, a partition and damage to clients' data."""

import numpy as np
import pytest

from fedprof.data import partition as deal
from fedprof.data.build import client_data, standardisation
from fedprof.data.clients import ClientData, Samples
from fedprof.data.damage import DAMAGES, Clean
from fedprof.errors import DataError, SettingsError
from fedprof.randomness import stream

PAPER = {
    "irrelevant": {"share": 0.15},
    "blur": {"share": 0.20, "sigma": 1.0},
    "pixel": {"share": 0.25, "density": 0.3},
}


@pytest.fixture(scope="module")
def digits(real):
    raw = real("digits")
    return raw.train_x, raw.train_y


def dealt(y, clients=40, **more):
    return deal.dominant_class(y, clients, 0.4, stream(0, "partition"), **more)


def test_without_damage_clients_share_the_pool_and_nothing_is_copied(digits):
    x, y = digits
    parts = dealt(y)
    data = client_data(x, y, parts, {}, seed=0)
    assert data.pool.x is x
    assert data.kinds == ("normal",)
    assert np.array_equal(data.samples(7)[1], y[parts.of(7)])


def test_normal_clients_hold_their_rows_as_they_are_and_damaged_ones_do_not(digits):
    x, y = digits
    parts = dealt(y)
    data = client_data(x, y, parts, PAPER, seed=0)
    assert data.kinds == ("normal", "irrelevant", "blur", "pixel")
    assert np.bincount(data.kind).tolist() == [16, 6, 8, 10]
    for client in range(40):
        held, labels = data.pool.x[data.rows_of(client)], data.pool.y[data.rows_of(client)]
        assert np.array_equal(held, x[parts.of(client)]) == (data.kind_of(client) == "normal")
        assert np.array_equal(labels, y[parts.of(client)])
    assert data.pool.x.dtype == np.uint8


def test_each_clients_damage_comes_from_its_own_stream(digits):
    x, y = digits
    parts = dealt(y)
    data = client_data(x, y, parts, PAPER, seed=3)
    client = int(np.flatnonzero(data.kind == 3)[0])
    mine = parts.of(client)
    expected, _ = DAMAGES["pixel"](x[mine], y[mine], stream(3, "damage", 0, client), Clean.of(x, y), density=0.3)
    assert np.array_equal(data.pool.x[data.rows_of(client)], expected)


def test_the_seed_alone_decides(digits):
    x, y = digits
    first, again, other = (client_data(x, y, dealt(y), PAPER, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.pool.x, again.pool.x)
    assert np.array_equal(first.kind, again.kind)
    assert not np.array_equal(first.kind, other.kind)


def test_a_hundred_thousand_clients_share_a_small_pool_even_when_damaged(digits):
    x, y = digits
    parts = deal.iid(len(y), 100_000, stream(0, "partition"), np.full(100_000, 20))
    data = client_data(x, y, parts, PAPER, seed=0)
    assert len(data) == 100_000
    assert len(data.pool) == 4 * len(x)
    for kind in range(4):
        client = int(np.flatnonzero(data.kind == kind)[0])
        rows = data.rows_of(client)
        assert np.array_equal(data.pool.x[rows], x[parts.of(client)]) == (kind == 0)
        assert np.array_equal(data.pool.y[rows], y[parts.of(client)])


def test_standardised_pixels_have_mean_0_and_deviation_1(digits):
    x, y = digits
    shift, scale = standardisation(x)
    data = client_data(x, y, deal.iid(len(y), 1, stream(0, "p")), {}, 0, shift=shift, scale=scale)
    held, _ = data.samples(0)
    assert abs(held.mean()) < 1e-4
    assert abs(held.std() - 1) < 1e-4


def test_emnist_has_the_mean_and_deviation_that_are_known_for_it(real):
    shift, scale = standardisation(real("emnist").train_x)
    assert abs(shift.item() / 255 - 0.1733) < 0.001
    assert abs(scale.item() / 255 - 0.3317) < 0.001


def test_colour_images_are_standardised_channel_by_channel(real):
    x = real("cifar10").train_x[:1000]
    shift, scale = standardisation(x)
    held = (x - shift) / scale
    assert np.allclose(held.mean(axis=(0, 2, 3)), 0, atol=1e-4)
    assert np.allclose(held.std(axis=(0, 2, 3)), 1, atol=1e-4)


@pytest.mark.parametrize("constant", [0.0, 5.0, 0.1, -1e9, 1e-9])
def test_a_constant_feature_becomes_zero_and_not_noise(constant):
    x = np.column_stack([np.arange(5000) % 2, np.full(5000, constant)]).astype(np.float32)
    shift, scale = standardisation(x)
    held = Samples(x, x[:, 0], shift, scale).standardised()
    assert np.array_equal(np.unique(held[:, 0]), [-1, 1])
    assert np.abs(held[:, 1]).max() == 0


def test_the_deviation_is_numpys(real):
    x = real("gasturbine").train_x
    shift, scale = standardisation(x)
    assert np.allclose(shift, x.mean(axis=0, dtype=np.float64), rtol=1e-6)
    assert np.allclose(scale, x.std(axis=0, dtype=np.float64), rtol=1e-6)


def test_the_gas_turbine_has_five_polluted_and_twenty_noisy_sensors(real):
    raw = real("gasturbine")
    there = 25_733
    x, y = raw.train_x[:there], raw.train_y[:there]
    rng = stream(0, "partition")
    parts = deal.iid(there, 50, rng, deal.normal_sizes(there, 50, 514, 101, rng))
    shift, scale = standardisation(x)
    damage = {"polluted": {"share": 0.1}, "noise": {"share": 0.4}}
    data = client_data(x, y, parts, damage, 0, shift=shift, scale=scale)
    assert np.bincount(data.kind).tolist() == [25, 5, 20]
    spread = {
        kind: np.mean([data.samples(k)[0].std() for k in np.flatnonzero(data.kind == i)])
        for i, kind in enumerate(data.kinds)
    }
    assert spread["normal"] < 1.05 < 1.2 < spread["noise"] < 2 < spread["polluted"]


def test_arrays_that_do_not_belong_together_are_rejected(digits):
    x, y = digits
    with pytest.raises(DataError, match="1797 inputs but 1796 targets"):
        Samples(x, y[1:])
    with pytest.raises(DataError, match="2 clients but 3 kinds"):
        ClientData(Samples(x, y), np.array([0, 5, 9]), kind=np.zeros(3, np.uint8))


def test_unknown_damage_is_an_error_that_lists_what_there_is(digits):
    with pytest.raises(SettingsError, match=r"no damage 'blurr'. Did you mean 'blur'"):
        client_data(*digits, dealt(digits[1]), {"blurr": {"share": 0.1}}, seed=0)


def test_strengths_are_checked_even_if_nobody_is_damaged(digits):
    with pytest.raises(SettingsError, match=r"damage\.blur\.sgma"):
        client_data(*digits, dealt(digits[1]), {"blur": {"share": 0.0, "sgma": 1.0}}, seed=0)
