"""A federation's run on disk: read like a simulator run, gone on with after a crash as if nothing had happened."""

import subprocess
import sys

import pytest

pytest.importorskip("flwr", reason="needs the flower extra: pip install 'fedprof[flower]'")

import numpy as np
from flower_fakes import federation, fedprof, start, weights
from flwr.app import MetricRecord
from flwr.serverapp.strategy import FedAdam, FedAvg, FedAvgM

from fedprof.errors import StoreError
from fedprof.flower import FedProf
from fedprof.simulation.store import Store
from fedprof.simulation.summary import summarise

pytestmark = pytest.mark.flower

HALF = {"fraction_train": 0.5, "fraction_evaluate": 0.0}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs" / "federation.sqlite"


@pytest.fixture
def opened(path):
    stores = []

    def open_it():
        stores.append(Store.open(path))
        return stores[-1]

    yield open_it
    for store in stores:
        store.close()


class KilledError(Exception):
    """The ServerApp's process ends."""


def killed_in(number):
    """A federation whose server is killed while it waits for the clients of a round."""
    grid = federation(6)

    def before_send(messages):
        if any(m.content.config_records.get("config", {}).get("server-round") == number for m in messages):
            raise KilledError

    grid.before_send = before_send
    return grid


def test_a_run_is_summarised_like_a_simulator_run(path, opened):
    start(fedprof(store=path, name="wards", goal=0.7, seed=2), federation(6), 4)
    summary = summarise(opened())
    assert (summary.task, summary.algorithm, summary.aggregation) == ("wards", "fedprof", "FedAvg")
    assert (summary.rounds, summary.seed, summary.engine, summary.goal) == (4, 2, "flower", 0.7)
    assert summary.best_accuracy >= summary.final_accuracy > 0
    assert summary.rounds_to_goal is not None


def test_every_client_has_a_row_every_round_with_what_the_server_thought_of_it(path, opened):
    start(fedprof(store=path), federation(6), 3)
    store = opened()
    rows = list(store.participation())
    assert [(row.round, row.client) for row in rows] == [(r, k) for r in range(4) for k in range(6)]
    assert all(row.divergence is not None and row.score is not None for row in rows)
    assert [sum(row.selected for row in rows if row.round == r) for r in range(4)] == [0, 3, 3, 3]
    assert all((row.loss is not None) == bool(row.selected) for row in rows)
    assert [(row.selected, row.accepted) for row in store.rounds()] == [(0, 0), (3, 3), (3, 3), (3, 3)]


def test_clients_are_stored_by_name_with_what_they_hold(path, opened):
    start(fedprof(store=path), federation(3), 1)
    assert [(row.name, row.samples) for row in opened().clients()] == [
        ("client-0", 40),
        ("client-1", 44),
        ("client-2", 48),
    ]


def test_accuracy_comes_from_the_clients_where_the_server_does_not_evaluate(path, opened):
    start(fedprof(FedAvg(fraction_train=0.5), store=path), federation(4), 2, evaluate_fn=None)
    first, *others = opened().rounds()
    assert first.accuracy is None
    assert all(0 < row.accuracy <= 1 for row in others)


BASES = {
    "FedAvg": lambda: FedAvg(**HALF),
    "FedAdam": lambda: FedAdam(eta=0.05, **HALF),
    "FedAvgM": lambda: FedAvgM(server_momentum=0.9, **HALF),
}


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("number", [1, 4])
def test_a_killed_server_goes_on_from_its_last_recorded_round_as_if_nothing_had_happened(base, number, path, tmp_path):
    whole = tmp_path / "whole.sqlite"
    uninterrupted = start(fedprof(BASES[base](), store=whole), federation(6), 6)
    with pytest.raises(KilledError):
        start(fedprof(BASES[base](), store=path), killed_in(number), 6)
    grid = federation(6, first_id=9000)  # new node ids, as after a restart
    resumed = start(fedprof(BASES[base](), store=path, resume=True), grid, 6)
    assert np.array_equal(weights(resumed), weights(uninterrupted))
    assert min(grid.asked()) == number
    assert history(path) == history(whole)


def history(path):
    store = Store.open(path)
    rounds = [(row.round, row.accuracy, row.loss, row.selected, row.accepted) for row in store.rounds()]
    rows = list(store.participation())
    store.close()
    return rounds, rows


@pytest.mark.parametrize("algorithm", ["afl", "fedprox"])
def test_the_other_algorithms_go_on_too(algorithm, path):
    def strategy(**options):
        return FedProf(FedAvg(**HALF), algorithm=algorithm, timeout=5.0, **options)

    uninterrupted = start(strategy(), federation(6), 5)
    with pytest.raises(KilledError):
        start(strategy(store=path), killed_in(3), 5)
    resumed = start(strategy(store=path, resume=True), federation(6), 5)
    assert np.array_equal(weights(resumed), weights(uninterrupted))


def test_going_on_asks_nobody_for_a_profile_it_has(path):
    with pytest.raises(KilledError):
        start(fedprof(store=path), killed_in(3), 4)
    grid = federation(6)
    start(fedprof(store=path, resume=True), grid, 4)
    assert len(grid.queries()) == 6
    assert all(list(message.content) == ["fedprof"] for message in grid.queries())


def test_more_rounds_may_be_asked_for(path, opened):
    start(fedprof(store=path), federation(6), 2)
    start(fedprof(store=path, resume=True), federation(6), 4)
    assert [row.round for row in opened().rounds()] == [0, 1, 2, 3, 4]


def test_a_finished_run_gives_back_its_model_without_asking_anybody(path):
    done = start(fedprof(store=path), federation(6), 2)
    grid = federation(6)
    again = start(fedprof(store=path, resume=True), grid, 2)
    assert grid.sent == []
    assert np.array_equal(weights(again), weights(done))


def test_a_run_is_not_overwritten(path):
    start(fedprof(store=path), federation(6), 1)
    with pytest.raises(StoreError, match="pass resume=True"):
        start(fedprof(store=path), federation(6), 1)


def test_a_run_that_never_got_anywhere_may_be_started_again(path, opened):
    grid = federation(6)
    grid.before_send = lambda messages: (_ for _ in ()).throw(KilledError)
    with pytest.raises(KilledError):
        start(fedprof(store=path), grid, 1)
    start(fedprof(store=path), federation(6), 1)
    assert opened().last_round().round == 1


def test_a_file_left_by_a_server_killed_before_it_wrote_anything_is_used(path, opened):
    path.parent.mkdir()
    path.touch()
    start(fedprof(store=path, resume=True), federation(3), 1)
    assert opened().last_round().round == 1


def test_two_servers_cannot_go_on_with_one_run(path):
    start(fedprof(store=path), federation(6), 1)
    grid = federation(6)

    def second_server(messages):
        with pytest.raises(StoreError, match="Another process is writing"):
            start(fedprof(store=path, resume=True), federation(6), 3)

    grid.before_send = second_server
    start(fedprof(store=path, resume=True), grid, 2)
    assert grid.sent


def test_an_accuracy_that_is_not_a_number_is_never_the_best(path, opened):
    values = iter([0.3, float("nan"), 0.2])
    start(fedprof(store=path), federation(3), 2, evaluate_fn=lambda *_: MetricRecord({"accuracy": next(values)}))
    assert [row.best_accuracy for row in opened().rounds()] == [0.3, 0.3, 0.3]


@pytest.mark.parametrize(
    "other",
    [{"seed": 1}, {"alpha": 3.0}, {"base": FedAdam(**HALF)}, {"base": FedAvg(fraction_train=0.9)}, {"name": "other"}],
)
def test_a_run_with_other_settings_is_refused(other, path):
    start(fedprof(store=path), federation(6), 1)
    with pytest.raises(StoreError, match="other settings"):
        start(fedprof(store=path, resume=True, **other), federation(6), 2)


def test_without_a_store_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    start(fedprof(store=""), federation(3), 1)
    assert list(tmp_path.iterdir()) == []


def test_the_report_draws_it(path, tmp_path):
    start(fedprof(store=path, name="wards"), federation(6), 3)
    page = tmp_path / "page.html"
    program = "from fedprof.cli.main import main; main()"
    command = [sys.executable, "-c", program, "report", str(path), "--out", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "wards" in page.read_text(encoding="utf-8")
