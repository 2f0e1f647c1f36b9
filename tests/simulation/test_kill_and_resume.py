"""Real processes: killed at any instant, resumed by the same command, and equal to one that was left alone."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

if sys.platform == "win32":
    pytest.skip("POSIX signals and limits", allow_module_level=True)

from commands import KILLED, ROUNDS, Command, arguments, die_after, finish, limit_file_size, rounds_in
from simulated import contents

from fedprof.simulation.store import Store

KILLS = 15


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "run.sqlite"
    assert finish(path).wait() == 0
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.sqlite"


def until(path, reached, command):
    while command.running and rounds_in(path) < reached:
        time.sleep(0.002)


def test_killed_at_many_random_instants_a_run_ends_as_if_it_had_been_left_alone(whole, path):
    chance, killed_at = random.Random(0), []
    while len(killed_at) < KILLS and rounds_in(path) < ROUNDS:
        command = Command(path)
        until(path, rounds_in(path) + chance.choice((0, 1, 1, 2, 4)), command)
        time.sleep(chance.uniform(0, 0.1))
        if command.kill() == KILLED:
            killed_at.append(rounds_in(path))
    assert len(set(killed_at)) >= 5, killed_at
    assert finish(path).wait() == 0
    assert contents(path) == contents(whole)


def test_killed_after_any_statement_even_while_the_file_is_made(whole, path):
    """Before the schema, between its tables, between rounds, within a round's transaction."""
    deaths = [
        finish(path, prepare=(die_after, statements)).wait()
        for statements in (*range(1, 16, 2), 2, 4, 16, 18, 19, 20, 21, 22, 23, 24, 25, 26)
    ]
    assert set(deaths) == {KILLED}
    assert 0 <= rounds_in(path) < ROUNDS
    assert finish(path).wait() == 0
    assert contents(path) == contents(whole)


def test_the_compiled_engine_is_killed_and_resumed_too(path, tmp_path):
    native, chance, deaths = ("--engine", "native", "--workers", "2"), random.Random(1), 0
    assert finish(tmp_path / "whole.sqlite", *native, rounds=400).wait() == 0
    while deaths < 3 and rounds_in(path) < 400:
        command = Command(path, *native, rounds=400)
        until(path, rounds_in(path) + chance.randint(5, 40), command)
        deaths += command.kill() == KILLED
    assert deaths
    assert finish(path, *native, "--workers", "1", rounds=400).wait() == 0
    assert contents(path) == contents(tmp_path / "whole.sqlite")


def test_a_process_of_ones_own_is_killed_and_resumed_too(whole, path):
    call = [sys.executable, "-m", "fedprof", *arguments(path)]
    running = subprocess.Popen(call, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while rounds_in(path) < 3:
        time.sleep(0.002)
    running.kill()
    running.wait()
    assert rounds_in(path) < ROUNDS
    assert subprocess.run(call, capture_output=True, check=False).returncode == 0
    assert contents(path) == contents(whole)


def test_ctrl_c_stops_at_once_says_how_to_go_on_and_the_run_then_goes_on_exactly(whole, path):
    command = Command(path)
    until(path, 2, command)
    os.kill(command.pid, signal.SIGINT)
    assert command.wait(timeout=20) == 130
    assert "the same command goes on from there" in command.stderr
    assert "Traceback" not in command.stderr
    assert command.stdout == ""
    assert 2 <= rounds_in(path) < ROUNDS
    again = finish(path)
    assert again.wait() == 0
    assert "going on after round" in again.stderr
    assert contents(path) == contents(whole)


STUCK = """
import ctypes, signal
from fedprof.cli import main
@main.app.command("stuck")
def stuck():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # nothing wakes this thread, as if it were computing
    print("working", flush=True)
    ctypes.CDLL(None).sleep(60)
main.main()
"""


def test_ctrl_c_does_not_wait_for_compiled_code():
    call = [sys.executable, "-c", STUCK, "stuck"]
    running = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout.readline() == b"working\n"
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=30)
    assert running.returncode == 130
    assert b"the same command goes on" in err


def test_a_run_can_be_prolonged(whole, path):
    assert finish(path, rounds=7).wait() == 0
    assert rounds_in(path) == 7
    assert finish(path).wait() == 0
    assert contents(path) == contents(whole)


def test_a_finished_run_is_not_run_again(whole):
    before = whole.stat().st_mtime_ns
    again = finish(whole, rounds=3)
    assert again.wait() == 0
    assert f"{ROUNDS} rounds" in again.stdout
    assert whole.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("more", "shown"),
    [
        (("--set", "alpha=3"), "algorithms.fedprof.alpha: 10.0 there, 3.0 here"),
        (("--seed", "7"), "seed: 0 there, 7 here"),
        (("--set", "rate=0.2"), "training.rate: 0.05 there, 0.2 here"),
        (("-a", "fedavg"), 'algorithm: "fedprof" there, "fedavg" here'),
        (("--engine", "native"), "was run with engine 'torch', this is 'native'"),
    ],
)
def test_other_settings_are_refused_and_the_difference_shown(whole, more, shown):
    before = contents(whole)
    command = finish(whole, *more, rounds=ROUNDS + 5)
    assert command.wait() == 1
    assert shown in command.stderr
    assert "--out" in command.stderr
    assert contents(whole) == before


OWN_DATA = """
import os
import numpy as np
from fedprof.data.sources import Raw

def data():
    rng = np.random.default_rng(int(os.environ["SEED_OF_DATA"]))
    x, y = rng.random((120, 64), np.float32), rng.integers(0, 10, 120)
    return Raw(x, y, x[:20], y[:20], 10)
"""


def test_other_data_are_refused(path):
    (path.parent / "mine.py").write_text(OWN_DATA)
    clean = [f"--set=damage.{kind}.share=0" for kind in ("blur", "irrelevant", "pixel")]
    more = ("--set=source=mine:data", "--set=validation=20", "--set=standardise=none", *clean)

    def attempt(seed, rounds):
        environment = {"SEED_OF_DATA": seed, "PYTHONPATH": str(path.parent)}
        return finish(path, *more, rounds=rounds, environment=environment)

    assert attempt("1", 1).wait() == 0
    other = attempt("2", 2)
    assert other.wait() == 1
    assert "was run with data" in other.stderr
    assert attempt("1", 2).wait() == 0


def test_two_processes_write_two_runs_at_once(whole, tmp_path):
    paths = [tmp_path / f"{k}.sqlite" for k in range(2)]
    assert [command.wait() for command in [Command(path) for path in paths]] == [0, 0]
    assert contents(paths[0]) == contents(paths[1]) == contents(whole)


def test_of_two_processes_on_one_run_the_second_is_told_and_the_first_loses_nothing(whole, path):
    first = Command(path, rounds=ROUNDS)
    until(path, 1, first)
    os.kill(first.pid, signal.SIGSTOP)  # at whatever it is doing
    second = finish(path)
    os.kill(first.pid, signal.SIGCONT)
    assert second.wait() == 1
    assert "Another process is writing the run" in second.stderr
    assert first.wait() == 0
    assert contents(path) == contents(whole)


@pytest.mark.parametrize("most", [1_000, 60_000, 150_000])
def test_a_full_disk_is_a_clear_error_and_loses_nothing(whole, path, most):
    command = finish(path, prepare=(limit_file_size, most))
    assert command.wait() == 1
    assert "fedprof: Cannot read or write the run" in command.stderr
    assert "Traceback" not in command.stderr
    assert rounds_in(path) < ROUNDS
    assert finish(path).wait() == 0
    assert contents(path) == contents(whole)


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "file").touch()
    command = subprocess.run(
        [sys.executable, "-m", "fedprof", *arguments(tmp_path / "file" / "run.sqlite", rounds=1)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert command.returncode == 1
    assert command.stderr.splitlines()[-1].startswith("fedprof: Cannot read or write the run")


def test_the_run_that_all_this_is_about_learns(whole):
    store = Store.open(whole, read_only=True)
    assert store.last_round().round == ROUNDS
    assert store.last_round().best_accuracy > 0.5
    assert store.query("SELECT COUNT(*) FROM participation WHERE failure = 'crashed'")[0][0] > 0
    store.close()
