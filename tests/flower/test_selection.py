"""Who trains: the algorithm decides, the base strategy combines and sees nobody else."""

import pytest

pytest.importorskip("flwr", reason="needs the flower extra: pip install 'fedprof[flower]'")

import numpy as np
from flower_fakes import FakeGrid, Net, Node, client_app, federation, fedprof, loader, model, start, weights
from flwr.app import ArrayRecord
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideFixedClipping,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedMedian,
    FedProx,
    Strategy,
)

from fedprof.algorithms.afl import AFL
from fedprof.algorithms.base import Population, Report
from fedprof.algorithms.fedprof import FedProf as Algorithm
from fedprof.algorithms.fedprox import FedProx as FedProxAlgorithm
from fedprof.core.capture import profile
from fedprof.core.profile import Profile
from fedprof.errors import LayerError, SettingsError
from fedprof.flower import FedProf
from fedprof.randomness import stream

pytestmark = pytest.mark.flower

BASES = {
    "FedAvg": FedAvg,
    "FedProx": lambda **options: FedProx(proximal_mu=0.1, **options),
    "FedAdam": lambda **options: FedAdam(eta=0.01, **options),
    "FedAvgM": lambda **options: FedAvgM(server_momentum=0.5, **options),
    "FedMedian": FedMedian,
}
SOME = {"fraction_train": 0.5, "fraction_evaluate": 0.0}


def test_a_client_with_bad_data_is_never_picked_and_the_others_are():
    grid = federation(6, bad=(5,))
    strategy = fedprof()
    start(strategy, grid, 6)
    picked = strategy.members.picked
    assert picked[5] == 0
    assert (picked[:5] > 0).all()


def test_alpha_zero_picks_whatever_the_data():
    grid = federation(6, bad=(5,))
    strategy = fedprof(alpha=0.0)
    start(strategy, grid, 6)
    assert strategy.members.picked[5] > 0


def test_the_first_divergences_and_the_first_cohort_are_those_of_the_same_algorithm_object_alone():
    grid = federation(6)
    strategy = fedprof(alpha=5.0, seed=3)
    start(strategy, grid, 1)
    algorithm, population = Algorithm(alpha=5.0), Population(np.arange(40, 64, 4), 3)
    state = algorithm.start(population, np.zeros(1, np.float32))
    state = algorithm.publish(state, 0, profile(model(), loader(99), "fc1"))
    mine = [profile(model(), loader(k, 40 + 4 * k, k == 5), "fc1") for k in range(6)]
    state = algorithm.learn(state, population, [Report(k, 0, profile=p) for k, p in enumerate(mine)])
    chosen = algorithm.select(state, population, stream(3, "select", 1)).clients
    assert np.allclose(strategy.members.state["client/divergence"], algorithm.divergences(state))
    assert sorted(grid.asked()[1]) == sorted(f"client-{k}" for k in chosen)


@pytest.mark.parametrize("name", BASES)
def test_the_base_strategy_combines_as_it_would_on_the_chosen_nodes_alone(name):
    grid = federation(6)
    found = start(fedprof(BASES[name](**SOME)), grid, 1)
    chosen = sorted(grid.asked()[1])
    alone = federation(6)
    alone.nodes = {i: node for i, node in alone.nodes.items() if alone.name(i) in chosen}
    expected = BASES[name](fraction_evaluate=0.0).start(alone, ArrayRecord(model().state_dict()), 1)
    assert np.allclose(weights(found), weights(expected), rtol=1e-5, atol=1e-6)


def test_the_base_strategys_own_settings_are_as_before_after_every_call():
    base = FedAvg(fraction_train=0.5, fraction_evaluate=0.4, min_available_nodes=3)
    before = dict(vars(base))
    start(fedprof(base), federation(6), 2)
    assert vars(base) == before


def test_a_privacy_wrapper_may_stand_between():
    base = DifferentialPrivacyServerSideFixedClipping(
        FedAvg(**SOME), noise_multiplier=0.0, clipping_norm=100.0, num_sampled_clients=3
    )
    grid = federation(6)
    start(fedprof(base), grid, 2)
    assert [len(asked) for asked in grid.asked().values()] == [3, 3]


def test_a_run_is_reproduced_by_its_seed_whatever_the_node_ids():
    one, two = federation(6), federation(6, first_id=9000)
    first, second = start(fedprof(seed=4), one, 4), start(fedprof(seed=4), two, 4)
    assert {n: sorted(a) for n, a in one.asked().items()} == {n: sorted(a) for n, a in two.asked().items()}
    assert np.array_equal(weights(first), weights(second))


def test_another_seed_selects_otherwise():
    one, two = federation(6), federation(6)
    start(fedprof(seed=4), one, 6)
    start(fedprof(seed=5), two, 6)
    assert {n: sorted(a) for n, a in one.asked().items()} != {n: sorted(a) for n, a in two.asked().items()}


def test_profiles_come_from_everybody_first_and_from_the_cohort_after_that():
    grid = federation(6)
    strategy = fedprof()
    start(strategy, grid, 3)
    assert len(grid.queries()) == 6
    versions = strategy.members.state["client/version"]
    asked = grid.asked()
    for k in range(6):
        rounds = [number for number, names in asked.items() if f"client-{k}" in names]
        assert versions[k] == (max(rounds) - 1 if rounds else 0)


def test_a_profile_sent_for_this_version_already_is_not_asked_for_again():
    grid = federation(4)
    start(fedprof(), grid, 2)
    first, second = (
        [m for m, config in grid.sent if config.get("config", {}).get("server-round") == n] for n in (1, 2)
    )
    assert not any(message.content["fedprof"]["message"] for message in first)
    assert all(message.content["fedprof"]["message"] for message in second)


@pytest.mark.parametrize("algorithm", ["afl", "fedprox", "fedavg", "fedavg-rp", "fedadam"])
def test_algorithms_that_do_not_profile_need_no_baseline_and_send_no_model_before_round_1(algorithm):
    grid = federation(6)
    start(FedProf(FedAvg(**SOME), algorithm=algorithm, timeout=5.0), grid, 3)
    assert [len(asked) for asked in grid.asked().values()] == [3, 3, 3]
    assert all(list(message.content) == ["fedprof"] for message in grid.queries())


def test_afl_learns_the_losses_that_clients_report():
    grid = federation(6)
    strategy = FedProf(FedAvg(**SOME), algorithm=AFL(alpha1=0.0), timeout=5.0)
    start(strategy, grid, 3)
    trained = {int(name[-1]) for names in grid.asked().values() for name in names}
    losses = strategy.members.state["client/loss"]
    assert {k for k in range(6) if np.isfinite(losses[k])} == trained


def test_fedprox_draws_by_data_size_from_what_clients_report():
    sizes = (10, 10, 400)
    counts = np.zeros(3)
    grid = FakeGrid({k: Node(client_app(loader(k, size)), f"client-{k}", k) for k, size in enumerate(sizes)})
    strategy = FedProf(FedAvg(fraction_evaluate=0.0), algorithm="fedprox", cohort=1, timeout=5.0)
    start(strategy, grid, 30)
    for names in grid.asked().values():
        counts[int(names[0][-1])] += 1
    assert strategy.members.roster.samples == list(sizes)
    assert counts[2] >= 24  # 28.6 expected, standard deviation 1.2


def test_a_client_drawn_twice_trains_once_and_counts_twice():
    grid = federation(3, bad=())
    algorithm = FedProxAlgorithm(replace=True)
    strategy = FedProf(FedAvg(fraction_evaluate=0.0), algorithm=algorithm, cohort=3, seed=1, timeout=5.0)
    found = start(strategy, grid, 1)
    draws = dict(strategy.going.cohort.draws)
    assert max(draws.values()) > 1
    assert len(grid.asked()[1]) == len(draws)
    sent = {k: one.reply.weights for k, one in strategy.going.heard.items()}
    total = sum(n * (40 + 4 * k) for k, n in draws.items())
    expected = sum(n * (40 + 4 * k) / total * sent[k] for k, n in draws.items())
    assert np.allclose(weights(found), expected, rtol=1e-5, atol=1e-6)


def test_an_algorithm_that_ends_rounds_early_is_refused():
    with pytest.raises(SettingsError, match="cfcfm ends a round"):
        start(FedProf(FedAvg(), algorithm="cfcfm", timeout=5.0), federation(3), 1)


@pytest.mark.parametrize(("cohort", "expected"), [(1, 1), (4, 4), (0.34, 2), (0.01, 1)])
def test_the_cohort_may_be_a_number_or_a_share(cohort, expected):
    grid = federation(6)
    start(fedprof(cohort=cohort), grid, 1)
    assert len(grid.asked()[1]) == expected


@pytest.mark.parametrize("cohort", [0, -1, 0.0, 1.5, float("nan")])
def test_an_impossible_cohort_is_refused(cohort):
    with pytest.raises(SettingsError, match="cohort is"):
        fedprof(cohort=cohort)


def test_without_a_cohort_the_base_must_say_how_many_nodes_train():
    with pytest.raises(SettingsError, match="pass cohort="):
        start(fedprof(FedAvg(fraction_train=0.0)), federation(3), 1)


def test_profiling_needs_a_baseline():
    with pytest.raises(SettingsError, match=r"baseline=\(model, loader, layer\)"):
        FedProf(FedAvg())


def test_alpha_is_given_once():
    with pytest.raises(SettingsError, match="not both"):
        fedprof(algorithm=Algorithm(), alpha=3.0)


@pytest.mark.parametrize("options", [{"alpha": -1.0}, {"algorithm": "fedproff"}, {"algorithm": "afl", "alpha": 1.0}])
def test_a_wrong_setting_is_refused_before_anything_runs(options):
    with pytest.raises(SettingsError):
        fedprof(**options)


def test_the_layer_is_checked_before_any_node_is_asked():
    grid = federation(3)
    with pytest.raises(LayerError, match="no layer 'fc7'"):
        start(fedprof(baseline=(Net(), loader(99), "fc7")), grid, 1)
    assert grid.sent == []


def test_without_a_layer_server_and_clients_take_the_same_default():
    grid = federation(3)
    strategy = fedprof(baseline=(Net(), loader(99)))
    start(strategy, grid, 1)
    assert strategy.members.layer == "fc1"


@pytest.mark.parametrize(
    ("made", "said"),
    [(Profile(np.zeros(6), np.ones(6), 9), "of model version 0 when asked for 1"), (None, "returned a NoneType")],
)
def test_a_wrong_profile_from_the_users_baseline_function_is_an_error(made, said):
    """Else every client would be blamed for not fitting it."""
    with pytest.raises(SettingsError, match=said):
        start(fedprof(baseline=lambda arrays, version: made), federation(3), 2)


def test_the_baseline_may_be_a_function_of_arrays_and_version():
    versions = []

    def baseline(arrays, version):
        versions.append(version)
        net = Net()
        net.load_state_dict(arrays.to_torch_state_dict())
        return profile(net, loader(99), "fc1", version=version)

    strategy = fedprof(baseline=baseline)
    start(strategy, federation(3), 3)
    assert versions == [0, 1, 2]
    assert np.isfinite(strategy.members.state["client/divergence"]).all()


def test_the_users_model_is_left_as_it_was():
    net = model()
    before = ArrayRecord(net.state_dict())
    start(fedprof(baseline=(net, loader(99), "fc1")), federation(3), 2)
    assert all(np.array_equal(a.numpy(), before[n].numpy()) for n, a in ArrayRecord(net.state_dict()).items())


def test_evaluating_nodes_are_drawn_from_the_seed_and_averaged_by_the_base():
    grids = federation(6), federation(6, first_id=9000)
    results = [start(fedprof(FedAvg(fraction_train=0.5, fraction_evaluate=0.5)), grid, 3) for grid in grids]
    asked = [{n: sorted(names) for n, names in grid.asked("evaluate").items()} for grid in grids]
    assert asked[0] == asked[1]
    assert [len(names) for names in asked[0].values()] == [3, 3, 3]
    assert 0 < results[0].evaluate_metrics_clientapp[3]["eval_acc"] <= 1


def test_every_message_lives_as_long_as_the_round_waits_and_no_longer():
    grid = federation(4)
    start(fedprof(FedAvg(fraction_train=0.5, fraction_evaluate=0.5), timeout=17.0), grid, 2)
    assert {message.metadata.ttl for message, _ in grid.sent} == {17.0}


def test_flowers_own_timeout_is_used_where_none_is_given():
    grid = federation(3)
    start(fedprof(timeout=None), grid, 1, timeout=23.0)
    assert {message.metadata.ttl for message, _ in grid.sent} == {23.0}


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan")])
def test_a_timeout_is_more_than_nothing(timeout):
    with pytest.raises(SettingsError, match="timeout is"):
        fedprof(timeout=timeout)


def test_it_is_a_flower_strategy():
    assert issubclass(FedProf, Strategy)
