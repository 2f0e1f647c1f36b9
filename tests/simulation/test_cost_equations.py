"""Equations 10 to 16 of the paper against hand computation."""

import numpy as np
import pytest

from fedprof.algorithms.base import Selection
from fedprof.simulation.costs import CostModel
from fedprof.simulation.federation import Federation
from fedprof.simulation.fleet import Devices, devices, truncated_normal
from fedprof.tasks.load import plan
from fedprof.tasks.settings import Conditions, Costs, Normal

# One EMNIST client by hand: s = 1 GHz, bw = 1 MHz, SNR = 10 dB = 10, msize = 3.05 MB = 24.4 Mbit.
RATE = 1e6 * np.log2(11)
DOWNLOAD = 24.4e6 / RATE
EPOCH = 480 * 6272 * 400 / 1e9
BOTH = np.arange(2)


def emnist(**more):
    costs = Costs(bits_per_sample=6272, cycles_per_bit=400, model_megabytes=3.05)
    fleet = Devices(np.array([1.0, 2.0]), np.array([1.0, 0.5]), 10.0)
    return CostModel(costs, fleet, np.array([480, 960]), epochs=5, **more)


def test_communication_takes_a_download_and_an_upload_at_half_the_rate():
    seconds = emnist().seconds(BOTH, profile=False)
    assert seconds.download[0] == pytest.approx(DOWNLOAD)
    assert seconds.upload[0] == pytest.approx(2 * DOWNLOAD)
    assert seconds.download[0] + seconds.upload[0] == pytest.approx(3 * 24.4e6 / RATE)  # eq:T_comm


def test_half_the_bandwidth_takes_twice_as_long():
    seconds = emnist().seconds(BOTH, profile=False)
    assert seconds.download[1] == pytest.approx(2 * seconds.download[0])


def test_training_takes_e_epochs_of_cycles():
    seconds = emnist().seconds(BOTH, profile=False)
    assert seconds.training[0] == pytest.approx(5 * EPOCH)  # eq:T_train
    assert seconds.training[1] == pytest.approx(5 * EPOCH)  # twice the samples on twice the processor


def test_a_profile_takes_one_epoch_and_its_bytes_at_half_the_rate():
    plain, profiled = (emnist(profile_bytes=8 * 84).seconds(BOTH, profile=profile) for profile in (False, True))
    assert profiled.profiling[0] == pytest.approx(plain.training[0] / 5)  # T_RPgen
    assert profiled.upload[0] - plain.upload[0] == pytest.approx(8 * 8 * 84 / (RATE / 2))  # T_RPup
    assert (plain.profiling == 0).all()


def test_energy_is_power_times_time():
    model = emnist(profile_bytes=8 * 84)
    seconds = model.seconds(BOTH, profile=True)
    joules = model.joules(seconds, BOTH)
    assert joules.download[1] + joules.upload[1] == pytest.approx(0.75 * (seconds.download[1] + seconds.upload[1]))
    assert joules.training[1] == pytest.approx(0.7 * 2.0**3 * seconds.training[1])  # eq:E_train
    assert joules.profiling[1] == pytest.approx(0.7 * 2.0**3 * seconds.profiling[1])  # eq:E_RP
    assert joules.total[0] == pytest.approx(0.75 * (3 * DOWNLOAD + 8 * 8 * 84 / (RATE / 2)) + 0.7 * 6 * EPOCH)


def test_the_first_profile_needs_no_model_on_the_air():
    model = emnist(profile_bytes=8 * 84)
    first = model.initial(BOTH)
    assert (first.download == 0).all()
    assert (first.training == 0).all()
    assert first.total[0] == pytest.approx(EPOCH + 8 * 8 * 84 / (RATE / 2))


def test_private_matching_adds_bytes_both_ways_and_cycles():
    model = emnist(profile_bytes=1000, baseline_bytes=500, profile_cycles=2e9)
    seconds, plain = model.seconds(BOTH, profile=True), emnist().seconds(BOTH, profile=True)
    assert seconds.download[0] - plain.download[0] == pytest.approx(8 * 500 / RATE)
    assert seconds.upload[0] - plain.upload[0] == pytest.approx(8 * 1000 / (RATE / 2))
    assert (seconds.profiling - plain.profiling).tolist() == pytest.approx([2.0, 1.0])


def test_a_round_lasts_as_long_as_its_slowest_client_and_costs_the_sum():
    model = emnist(profile_bytes=8 * 84)
    selection = Selection(BOTH, np.ones_like(BOTH))
    outcome = Federation(model, Conditions(), seed=0).round(1, 100.0, selection, profile=True)
    seconds = model.seconds(BOTH, profile=True)
    assert outcome.ended - 100 == pytest.approx(seconds.total.max())  # eq:T_round
    assert [sum(one.seconds) for one in outcome.merged] == pytest.approx(sorted(seconds.total))
    spent = sum(sum(one.joules) for one in outcome.charged)
    assert spent == pytest.approx(model.joules(seconds, BOTH).total.sum())  # eq:E


def test_decibels_become_a_ratio():
    assert devices(plan("gasturbine").settings.fleet, 3, seed=0).snr == pytest.approx(5.0119, abs=1e-4)


def test_speeds_and_bandwidths_follow_their_laws_and_stay_off_zero():
    law = Normal(mean=1.0, std=0.3, floor=0.05)
    values = truncated_normal(law, 200_000, np.random.default_rng(0))
    assert values.min() >= 0.05
    assert values.mean() == pytest.approx(1.0, abs=0.003)
    assert values.std() == pytest.approx(0.3, abs=0.003)


def test_what_falls_below_the_floor_is_drawn_again_not_clipped():
    values = truncated_normal(Normal(mean=1.0, std=1.0, floor=0.5), 10_000, np.random.default_rng(0))
    assert values.min() >= 0.5
    assert len(np.unique(values)) == len(values)


def test_a_fleet_is_a_function_of_the_seed():
    law = plan("emnist").settings.fleet
    one, same, other = (devices(law, 20, seed) for seed in (1, 1, 2))
    assert (one.speed == same.speed).all()
    assert (one.bandwidth == same.bandwidth).all()
    assert not np.isclose(one.speed, other.speed).any()
    assert abs(np.corrcoef(one.speed, one.bandwidth)[0, 1]) < 0.9
