"""Private matching in the simulator: what the server is told, what it costs, and that resuming is exact."""

import numpy as np
import pytest
from simulated import contents, played, small_plan

from fedprof.core.profile import Profile
from fedprof.matching import MATCHINGS, make, match
from fedprof.simulation.reports import shown

PRIVATE = [name for name in MATCHINGS if name != "plain"]


def private(name, rounds=3):
    return small_plan("fedprof", rounds=rounds, overrides=[f"matching={name}"])


def profiles(q=20):
    rng = np.random.default_rng(0)
    return [Profile(rng.normal(size=q), rng.uniform(0.5, 2, q), 10) for _ in range(2)]


def test_in_the_clear_the_server_sees_the_profile():
    ours, _ = profiles()
    assert shown(ours, None) == (ours, None)


@pytest.mark.parametrize("name", ["client", "masked"])
def test_in_private_it_is_told_what_the_real_scheme_tells(name):
    ours, baseline = profiles()
    seen, divergence = shown(ours, baseline)
    assert seen is None
    assert divergence == pytest.approx(match(make(name), ours, baseline).divergence, abs=2**-18)


@pytest.mark.parametrize("name", PRIVATE)
def test_its_bytes_and_cycles_enter_time_and_energy(tmp_path, name):
    plain = played(small_plan("fedprof", rounds=1), tmp_path / "plain")
    other = played(private(name, 1), tmp_path / name)
    costs, first, second = make(name).costs(64), *(next(store.participation()) for store in (plain, other))
    clients = plain.clients()
    rate = clients[0].bandwidth_mhz * 1e6 * np.log2(11)
    assert second.upload_s - first.upload_s == pytest.approx(16 * (costs.bytes_up - 8 * 64) / rate, rel=1e-6)
    assert second.download_s - first.download_s == pytest.approx(8 * costs.bytes_down / rate, rel=1e-6)
    cycles = costs.client_cycles / (clients[0].speed_ghz * 1e9)
    assert second.profiling_s - first.profiling_s == pytest.approx(cycles, rel=1e-6)
    for store in (plain, other):
        store.close()


def test_the_cohort_is_the_one_plain_matching_draws(tmp_path):
    cohorts = []
    for name in ("plain", "masked"):
        store = played(private(name), tmp_path / name)
        cohorts.append(store.query("SELECT round, client FROM participation WHERE selected ORDER BY 1, 2"))
        store.close()
    assert cohorts[0] == cohorts[1]


def test_it_resumes_exactly(tmp_path):
    played(private("masked", 4), tmp_path / "whole").close()
    for rounds in (1, 2, 4):
        played(private("masked", rounds), tmp_path / "parts").close()
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
