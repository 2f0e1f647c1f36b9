"""`fedprof run --json`: one object for programs on standard output, progress on standard error."""

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fedprof.simulation.store import Store

KEYS = {
    "task", "algorithm", "aggregation", "seed", "rounds", "best_accuracy", "final_accuracy", "minutes", "energy_wh",
    "rounds_to_goal", "minutes_to_goal", "energy_wh_to_goal", "weights_sha256", "wall_seconds", "run",
}  # fmt: skip
BEYOND = {"goal", "engine"}


def run(folder, *words, out="run.sqlite"):
    call = [sys.executable, "-m", "fedprof", "run", "digits", "--json", "--out", out, *words]
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("json")


@pytest.fixture(scope="module", params=["native", "torch"])
def engine(request):
    return request.param


@pytest.fixture(scope="module")
def found(folder, engine):
    return run(folder, "--rounds", "12", "--workers", "1", "--engine", engine, out=f"{engine}.sqlite")[0]


def test_the_object_has_every_figure_of_the_run(folder, engine, found):
    assert found.keys() == KEYS | BEYOND
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    described = page[page.index("`--json` ends with") :].partition("`--set`")[0]
    assert set(re.findall("`([a-z_0-9]+)`", described)) == found.keys()
    assert (found["task"], found["algorithm"], found["aggregation"]) == ("digits", "fedprof", "partial")
    assert (found["seed"], found["rounds"], found["run"]) == (0, 12, f"{engine}.sqlite")
    store = Store.open(folder / found["run"], read_only=True)
    history, weights = store.rounds(), store.state()["weights"]
    store.close()
    accuracies = [row.accuracy for row in history]
    assert found["best_accuracy"] == max(accuracies)
    assert found["final_accuracy"] == accuracies[-1]
    assert found["minutes"] == pytest.approx(history[-1].clock / 60)
    assert found["energy_wh"] == pytest.approx(history[-1].total_joules / 3600)
    first = next(row for row in history if row.accuracy >= 0.85)
    assert found["rounds_to_goal"] == first.round
    assert found["minutes_to_goal"] == pytest.approx(first.clock / 60)
    assert found["energy_wh_to_goal"] == pytest.approx(first.total_joules / 3600)
    assert found["weights_sha256"] == hashlib.sha256(weights.astype("<f4").tobytes()).hexdigest()
    assert found["wall_seconds"] > 0


def test_two_workers_make_the_same_weights_and_an_interruption_changes_nothing(folder, engine, found):
    options = ("--engine", engine, "--workers", "2")
    run(folder, "--rounds", "5", *options, out=f"{engine}-2.sqlite")
    resumed, progress = run(folder, "--rounds", "12", *options, out=f"{engine}-2.sqlite")
    assert "going on after round 5" in progress
    varying = {"wall_seconds": 0, "run": ""}
    assert {**resumed, **varying} == {**found, **varying}


def test_what_was_never_reached_is_null(folder):
    found, progress = run(folder, "--rounds", "1", "--engine", "torch", out="short.sqlite")
    assert [found[f"{name}_to_goal"] for name in ("rounds", "minutes", "energy_wh")] == [None, None, None]
    assert "round 1/1" in progress


def test_a_run_that_went_further_than_asked_says_so(folder, engine, found):
    again, told = run(folder, "--rounds", "3", "--engine", engine, out=f"{engine}.sqlite")
    assert again == found
    assert "more than the 3 rounds asked for: these are the figures of 12" in told
