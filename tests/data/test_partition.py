"""What each partitioner promises."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedprof.data import partition as deal
from fedprof.errors import DataError, SettingsError
from fedprof.randomness import stream


def rng(purpose: str = "partition", seed: int = 0) -> np.random.Generator:
    return stream(seed, purpose)


def dominant_shares(labels, parts):
    return np.array([np.bincount(labels[parts.of(k)]).max() / len(parts.of(k)) for k in range(len(parts))])


def disjoint(parts) -> bool:
    return len(np.unique(parts.rows)) == len(parts.rows)


PARTITIONERS = {
    "iid": lambda y, g: deal.iid(len(y), 10, g),
    "dominant": lambda y, g: deal.dominant_class(y, 10, 0.5, g),
    "dirichlet": lambda y, g: deal.dirichlet(y, 10, 0.5, g),
    "shards": lambda y, g: deal.shards(y, 10, 2, g),
}


@pytest.mark.parametrize("name", PARTITIONERS)
def test_every_row_of_the_digits_goes_to_exactly_one_client(name, real):
    labels = real("digits").train_y
    parts = PARTITIONERS[name](labels, rng())
    assert len(parts) == 10
    assert sorted(parts.rows) == list(range(len(labels)))
    assert parts.sizes.sum() == len(labels)
    assert parts.sizes.min() >= 1


@pytest.mark.parametrize("name", PARTITIONERS)
def test_a_partition_is_a_function_of_the_seed_alone(name, real):
    labels = real("digits").train_y
    first, again, other = (PARTITIONERS[name](labels, rng(seed=seed)) for seed in (1, 1, 2))
    assert np.array_equal(first.rows, again.rows)
    assert np.array_equal(first.offsets, again.offsets)
    assert not np.array_equal(first.rows, other.rows)


def test_emnist_clients_have_a_dominant_class_of_60_percent(real):
    labels = real("emnist").train_y
    parts = deal.dominant_class(labels, 200, 0.6, rng(), np.full(200, 480))
    assert np.all(np.abs(dominant_shares(labels, parts) - 0.6) <= 0.02)
    assert disjoint(parts)


def test_all_of_emnist_can_be_dealt_to_500_clients(real):
    labels = real("emnist").train_y
    parts = deal.dominant_class(labels, 500, 0.6, rng())
    assert np.all(np.abs(dominant_shares(labels, parts) - 0.6) <= 0.02)
    assert len(parts.rows) == len(np.unique(parts.rows)) == len(labels)


def test_cifar_clients_have_a_dominant_class_of_37_percent(real):
    labels = real("cifar10").train_y
    parts = deal.dominant_class(labels, 10, 0.37, rng())
    assert np.all(np.abs(dominant_shares(labels, parts) - 0.37) <= 0.02)
    assert disjoint(parts)
    assert len({np.bincount(labels[parts.of(k)]).argmax() for k in range(10)}) == 10, "classes take turns"


def test_mnist_clients_have_a_dominant_class_of_more_than_half(real):
    labels = real("mnist").train_y
    shares = dominant_shares(labels, deal.dominant_class(labels, 100, 0.55, rng()))
    assert np.all(np.abs(shares - 0.55) <= 0.02)


def test_the_rest_of_a_client_is_spread_over_all_other_classes(real):
    labels = real("emnist").train_y
    parts = deal.dominant_class(labels, 200, 0.6, rng(), np.full(200, 480))
    counts = np.array([np.bincount(labels[parts.of(k)], minlength=10) for k in range(200)])
    others = np.sort(counts, axis=1)[:, :-1]
    assert others.min() >= 1
    assert abs(others.mean() - 480 * 0.4 / 9) < 0.01


def test_gas_turbine_sizes_follow_the_normal_distribution_of_table_2(real):
    there = len(real("gasturbine").train_y) - 11_000
    draws = np.concatenate([deal.normal_sizes(there, 50, 514, 101, rng(seed=seed)) for seed in range(40)])
    assert abs(draws.mean() - 514) < 10
    assert abs(draws.std() - 101) < 5
    sizes = draws.reshape(40, 50)
    assert np.all(sizes.sum(axis=1) <= there)
    assert disjoint(deal.iid(there, 50, rng(), sizes[0]))


def test_sizes_are_cut_off_at_three_deviations_and_at_one_sample():
    sizes = deal.normal_sizes(None, 20_000, 50, 10, rng())
    assert sizes.min() == 20
    assert sizes.max() == 80
    assert deal.normal_sizes(None, 1000, 2, 5, rng()).min() == 1


def test_sizes_that_the_data_cannot_give_are_an_error_and_not_a_smaller_mean():
    with pytest.raises(DataError, match="need 5140 rows, but there are 1000"):
        deal.normal_sizes(1000, 10, 514, 101, rng())


def test_iid_clients_have_the_classes_of_the_whole(real):
    labels = real("emnist").train_y
    parts = deal.iid(len(labels), 20, rng())
    counts = np.array([np.bincount(labels[parts.of(k)], minlength=10) for k in range(20)])
    assert np.all(np.abs(counts / 4800 - 0.1) < 0.02)


def test_shards_give_a_client_few_classes(real):
    labels = real("digits").train_y
    parts = deal.shards(labels, 20, 2, rng())
    assert max(len(np.unique(labels[parts.of(k)])) for k in range(20)) <= 4
    assert np.ptp(parts.sizes) <= 2


def test_a_small_alpha_makes_dirichlet_clients_unlike_and_a_large_one_alike(real):
    labels = real("digits").train_y
    unlike = dominant_shares(labels, deal.dirichlet(labels, 10, 0.1, rng(), min_size=10)).mean()
    alike = dominant_shares(labels, deal.dirichlet(labels, 10, 1000.0, rng(), min_size=10)).mean()
    assert unlike > 0.5
    assert alike < 0.2


def test_dirichlet_keeps_its_minimum_size_or_says_what_to_change(real):
    labels = real("digits").train_y
    assert deal.dirichlet(labels, 20, 0.5, rng(), min_size=20).sizes.min() >= 20
    with pytest.raises(DataError, match="raise the concentration"):
        deal.dirichlet(labels, 50, 0.01, rng(), min_size=30)


def test_rows_are_recycled_evenly_when_more_are_dealt_than_there_are():
    parts = deal.iid(100, 1000, rng(), np.full(1000, 5))
    assert np.array_equal(np.bincount(parts.rows, minlength=100), np.full(100, 50))


def test_recycled_clients_keep_their_dominant_class(real):
    labels = real("digits").train_y
    parts = deal.dominant_class(labels, 2000, 0.6, rng(), np.full(2000, 50))
    assert np.all(dominant_shares(labels, parts) >= 0.6 - 1e-9)
    assert dominant_shares(labels, parts).mean() < 0.61


def test_a_class_too_small_to_dominate_gives_what_it_has():
    labels = np.repeat([0, 1, 2], [900, 90, 10])
    parts = deal.dominant_class(labels, 10, 0.6, rng())
    assert sorted(parts.rows) == list(range(1000))
    assert [np.bincount(labels[parts.of(k)]).argmax() for k in range(10)] == [0] * 10


@given(
    counts=st.lists(st.integers(1, 60), min_size=2, max_size=6),
    clients=st.integers(1, 8),
    share=st.floats(0.1, 1.0),
    seed=st.integers(0, 99),
)
def test_dominant_class_never_loses_or_repeats_a_row(counts, clients, share, seed):
    labels = np.repeat(np.arange(len(counts)), counts)
    clients = min(clients, len(labels))
    parts = deal.dominant_class(labels, clients, share, rng(seed=seed))
    assert sorted(parts.rows) == list(range(len(labels)))
    assert np.array_equal(parts.sizes, deal.even_sizes(len(labels), clients))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: deal.iid(5, 10, rng()), "5 rows cannot be shared out in 10 parts"),
        (lambda: deal.iid(5, 2, rng(), [3]), "2 clients need 2 sizes"),
        (lambda: deal.iid(5, 2, rng(), [5, 0]), "sizes of at least 1"),
        (lambda: deal.shards(np.zeros(10, int), 4, 3, rng()), "10 rows cannot be shared out in 12 parts"),
        (lambda: deal.dirichlet(np.zeros(9, int), 3, 1.0, rng(), 4), "9 rows cannot be shared"),
        (lambda: deal.dominant_class(np.zeros(9), 3, 0.5, rng()), "one integer label"),
        (lambda: deal.dominant_class(np.full(9, -1), 3, 0.5, rng()), "label >= 0"),
    ],
)
def test_data_that_do_not_go_round_are_a_clear_error(call, message):
    with pytest.raises(DataError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: deal.iid(5, 0, rng()), "at least one client"),
        (lambda: deal.dominant_class(np.zeros(9, int), 3, 1.5, rng()), "must lie in"),
        (lambda: deal.dirichlet(np.zeros(9, int), 3, 0.0, rng()), "concentration must be positive"),
        (lambda: deal.normal_sizes(100, 3, 0.0, 1.0, rng()), "mean of at least 1"),
    ],
)
def test_impossible_settings_are_a_clear_error(call, message):
    with pytest.raises(SettingsError, match=message):
        call()
