"""The loop: what a round does to the model, to the algorithm's state, and to the record."""

import numpy as np
import pytest
from simulated import ToyEngine, contents, played, small_plan, toy_run

from fedprof.errors import StoreError, WorkerError
from fedprof.simulation.history import EVERYBODY
from fedprof.simulation.start import simulate
from fedprof.simulation.summary import summarise
from fedprof.tasks.task import build

NAMES = ("fedavg", "cfcfm", "fedavg-rp", "fedprox", "fedadam", "afl", "fedprof")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.sqlite"


def test_partial_aggregation_moves_the_model_by_the_cohorts_mean(path):
    engine = ToyEngine()
    store = played(small_plan("fedprof", rounds=1), path, engine)
    ((_, cohort),) = engine.asked
    before = build(small_plan().settings, seed=0).initial_weights
    expected = np.mean([before.astype(np.float64) + k + 1 for k in cohort], axis=0)
    np.testing.assert_allclose(store.state()["weights"], expected, rtol=1e-6)
    store.close()


@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_is_recorded_round_by_round(path, name):
    store = played(small_plan(name), path)
    rows = store.rounds()
    assert [row.round for row in rows] == [0, 1, 2, 3, 4]
    assert [row.accepted for row in rows] == [0, 4, 4, 4, 4]
    assert [row.selected for row in rows] == [0, 4, 4, 4, 4]
    assert np.cumsum([row.seconds for row in rows]) == pytest.approx([row.clock for row in rows])
    assert np.cumsum([row.joules for row in rows]) == pytest.approx([row.total_joules for row in rows])
    assert np.maximum.accumulate([row.accuracy for row in rows]).tolist() == [row.best_accuracy for row in rows]
    assert rows[2].rate == pytest.approx(0.05 * 0.99)
    store.close()


def test_time_and_energy_of_a_round_are_those_of_its_clients(path):
    store = played(small_plan("fedavg"), path)
    sums = store.query(
        "SELECT MAX(download_s + profiling_s + training_s + upload_s), "
        "SUM(download_j + profiling_j + training_j + upload_j) FROM participation WHERE round > 0 GROUP BY round"
    )
    rows = store.rounds()[1:]
    assert [row.seconds for row in rows] == pytest.approx([one[0] for one in sums])
    assert [row.joules for row in rows] == pytest.approx([one[1] for one in sums])
    store.close()


def test_before_round_one_everybody_profiles(path):
    store = played(small_plan("fedprof", rounds=1), path)
    first = [row for row in store.participation() if row.round == 0]
    assert [row.client for row in first] == list(range(8))
    assert all(row.profiling_s > 0 and row.training_s == 0 and row.download_s == 0 for row in first)
    assert store.rounds()[0].seconds == pytest.approx(max(row.profiling_s + row.upload_s for row in first))
    assert store.rounds()[0].joules == pytest.approx(sum(row.profiling_j + row.upload_j for row in first))
    store.close()


def test_without_profiles_round_zero_costs_nothing(path):
    store = played(small_plan("fedavg", rounds=1), path)
    assert store.rounds()[0][5:9] == (0, 0, 0, 0)
    assert {row.round for row in store.participation()} == {1}
    store.close()


def test_scores_and_divergences_are_those_the_selection_was_made_with(path):
    store = played(small_plan("fedprof", rounds=1), path)
    rows = [row for row in store.participation() if row.round == 1]
    expected = [(0.1 * k) ** 2 / 2 for k in range(8)]  # KL of N(0.1 k, 1) from N(0, 1)
    assert [row.divergence for row in rows] == pytest.approx(expected, abs=1e-6)
    weights = np.exp(-10 * np.array(expected))
    assert [row.score for row in rows] == pytest.approx(weights / weights.sum(), abs=1e-6)
    store.close()


def test_few_clients_all_have_a_row_every_round_of_many_only_those_who_took_part(path, monkeypatch, tmp_path):
    assert EVERYBODY >= 500
    store = played(small_plan("fedavg", rounds=2), path)
    assert len(list(store.participation())) == 2 * 8
    monkeypatch.setattr("fedprof.simulation.history.EVERYBODY", 7)
    many = played(small_plan("fedavg", rounds=2), tmp_path / "many.sqlite")
    shown = [row for row in store.participation() if row.selected]
    assert list(many.participation()) == shown
    store.close()
    many.close()


def test_nobody_answering_leaves_the_model_as_it_was(path):
    store = played(small_plan("fedavg", rounds=3, overrides=["dropout=1"]), path)
    rows = store.rounds()
    assert {row.accuracy for row in rows} == {rows[0].accuracy}
    assert [row.accepted for row in rows] == [0, 0, 0, 0]
    assert [row.seconds for row in rows[1:]] == pytest.approx([10, 10, 10])
    assert {row.failure for row in store.participation() if row.selected} == {"unreachable"}
    store.close()


def test_a_client_that_answers_nan_is_dropped_with_the_reason(path):
    store = played(small_plan("fedavg", rounds=6), path, ToyEngine(faults={3: np.nan}))
    failures = {(row.client, row.failure) for row in store.participation() if row.failure}
    assert failures == {(3, "non-finite weights")}
    assert np.isfinite(store.state()["weights"]).all()
    store.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_client_whose_training_fails_is_left_out_and_the_run_goes_on(path, name):
    engine = ToyEngine(faults={3: WorkerError("while training client 3: no more memory")})
    store = played(small_plan(name, rounds=6), path, engine)
    assert store.last_round().round == 6
    failures = {(row.client, row.failure) for row in store.participation() if row.round and row.failure}
    assert failures <= {(3, "while training client 3: no more memory")}
    store.close()


def test_the_reason_is_the_same_with_and_without_worker_processes(tmp_path):
    here = ToyEngine(faults={3: RuntimeError("no more memory")})
    there = ToyEngine(faults={3: WorkerError("while training client 3: RuntimeError: no more memory")})
    for name, engine in (("here", here), ("there", there)):
        played(small_plan("fedavg", rounds=6), tmp_path / name, engine).close()
    assert contents(tmp_path / "here") == contents(tmp_path / "there")


def test_those_who_did_not_fail_are_not_harmed_by_one_who_did(path):
    store = played(small_plan("cfcfm", rounds=3), path, ToyEngine(faults={3: RuntimeError("x")}))
    for row in store.rounds()[1:]:
        failed = store.query("SELECT COUNT(*) FROM participation WHERE round = ? AND failure IS NOT NULL", row.round)
        assert row.accepted == 4 - failed[0][0]
    assert store.query("SELECT COUNT(*) FROM participation WHERE failure IS NOT NULL")[0][0] >= 1
    store.close()


def test_what_every_client_fails_at_from_the_start_is_raised(path):
    with pytest.raises(RuntimeError, match="wrong shape"):
        played(small_plan("fedavg"), path, ToyEngine(faults={k: RuntimeError("wrong shape") for k in range(8)}))


@pytest.mark.parametrize("overrides", [(), ("alpha=0",)], ids=["by score", "at random"])
def test_a_cohort_of_nothing_but_failures_leaves_the_model_as_it_was(path, overrides):
    engine = ToyEngine()
    played(small_plan(rounds=2, overrides=["fraction=0.125", *overrides]), path, engine).close()
    engine.faults = {k: RuntimeError("ill") for k in range(8)}
    store = played(small_plan(rounds=4, overrides=["fraction=0.125", *overrides]), path, engine)
    rounds = store.rounds()
    assert [row.accepted for row in rounds[1:]] == [1, 1, 0, 0]
    assert {row.accuracy for row in rounds[2:]} == {rounds[2].accuracy}
    store.close()
    with pytest.raises(RuntimeError, match="ill"):  # a run does not go on with nothing but empty rounds
        played(small_plan(rounds=9, overrides=["fraction=0.125", *overrides]), path, engine)


def test_a_client_that_cannot_be_profiled_gets_the_neutral_score(path):
    store = played(small_plan("fedprof", rounds=1), path, ToyEngine(faults={2: ValueError("infinite features")}))
    without = [row for row in store.participation() if row.round == 0 and row.failure]
    assert [(row.client, row.failure) for row in without] == [
        (2, "while profiling client 2: ValueError: infinite features")
    ]
    assert without[0].divergence is None
    scores = sorted(row.score for row in store.participation() if row.round == 0)
    assert without[0].score in scores[2:6]
    store.close()


def test_observers_see_every_round_once(path):
    seen = []

    class Watcher:
        def begin(self, run):
            seen.append(("begin", run.last.round))

        def round(self, run, row):
            assert run.store.last_round() == row
            seen.append(("round", row.round))

        def end(self, run):
            seen.append(("end", run.last.round))

    played(small_plan(rounds=2), path, observers=[Watcher()]).close()
    played(small_plan(rounds=3), path, observers=[Watcher()]).close()
    assert seen == [("begin", 0), ("round", 1), ("round", 2), ("end", 2), ("begin", 2), ("round", 3), ("end", 3)]


@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_was_interrupted_after_any_round_ends_as_if_it_had_not_been(tmp_path, name):
    conditions = ["crash=0.2", "dropout=0.1", "bandwidth_variation=0.3", "availability=0.8"]
    played(small_plan(name, rounds=5, overrides=conditions), tmp_path / "whole").close()
    for rounds in range(1, 6):
        played(small_plan(name, rounds=rounds, overrides=conditions), tmp_path / "parts").close()
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


def test_a_full_cache_survives_interruption(tmp_path):
    chosen = {rounds: small_plan("fedavg", rounds=rounds, overrides=["reading=cache"]) for rounds in (2, 5)}
    played(chosen[5], tmp_path / "whole").close()
    played(chosen[2], tmp_path / "parts").close()
    played(chosen[5], tmp_path / "parts").close()
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


def test_another_seed_gives_another_run(tmp_path):
    for seed in (0, 1):
        played(small_plan("fedavg", seed=seed), tmp_path / str(seed)).close()
    assert contents(tmp_path / "0")["participation"] != contents(tmp_path / "1")["participation"]


def test_the_torch_engine_learns_digits(path):
    store = simulate(small_plan("fedavg-rp", rounds=8, overrides=["fraction=1"]), path, engine="torch", workers=1)
    summary = summarise(store)
    store.close()
    assert summary.best_accuracy > 0.8
    assert summary.rounds == 8
    assert summary.engine == "torch"


def test_one_worker_equals_two(tmp_path):
    for workers in (1, 2):
        chosen = small_plan("fedprof", rounds=3, overrides=["crash=0.2"])
        simulate(chosen, tmp_path / str(workers), engine="torch", workers=workers).close()
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


def test_one_native_worker_equals_two(tmp_path):
    for workers in (1, 2):
        simulate(small_plan("fedprof", rounds=3), tmp_path / str(workers), engine="native", workers=workers).close()
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


def test_a_summary_needs_a_recorded_round(path):
    run = toy_run(small_plan(), path)
    with pytest.raises(StoreError, match="no recorded round"):
        summarise(run.store)
    run.store.close()
