"""The race: who runs is timed, who fails is shown with its last words, and the others go on."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def race(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import race

    return race


def racer(race, tmp_path, name, body):
    script = tmp_path / f"{name}.py"
    script.write_text(f"from pacing import Pacer\npacer = Pacer()\n{body}\n", encoding="utf-8")
    return race.Racer(name, name, str(script))


GOES_ON = "pacer.ready()\nwhile True:\n    pacer.round_done(0.5)"
DIES = "pacer.ready()\npacer.round_done(0.5)\nraise SystemExit('out of tyres')"
NEVER_STARTS = "raise SystemExit('no engine')"


def test_one_that_dies_or_never_starts_is_shown_and_the_others_go_on(race, tmp_path, monkeypatch):
    monkeypatch.setattr(race, "WARM_UP", {"w1": 1})
    monkeypatch.setattr(race, "SHORT", 1e-9)
    monkeypatch.setattr(sys, "argv", ["race.py", "--turns", "2"])
    bodies = {"plain": GOES_ON, "dies": DIES, "never": NEVER_STARTS}
    racers = [racer(race, tmp_path, name, body) for name, body in bodies.items()]
    plain, dies, never = race.raced(racers, "w1", race.arguments())
    assert len(plain.seconds) == 2
    assert plain.loss == 0.5
    assert "out of tyres" in dies.failure
    assert "no engine" in never.failure
    shown = race.standing([plain, dies, never])
    assert "| dies | failed |" in shown
    assert "out of tyres" in shown


def test_versions_are_those_of_any_workload_a_racer_started_in(race):
    started = race.Racer("a", "A", "a.py")
    results = [race.Result(started, versions={"torch": "1"}), race.Result(started, failure="died")]
    assert race.versions([started], results) == "- A: torch 1"


@pytest.mark.slow
def test_the_race_runs_in_its_quick_form(tmp_path):
    command = [sys.executable, BENCHMARKS / "race.py", "--quick", "--only", "plain", "native", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    (written,) = tmp_path.glob("race-*.md")
    speeds = re.findall(r"^\| fedprof, FedAvg-RP \|.*?([\d.]+)x", written.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(speeds) == 2
