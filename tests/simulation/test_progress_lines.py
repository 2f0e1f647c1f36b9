"""Progress on standard error: plain lines for logs, one live line in a terminal."""

import os
import pty
import subprocess
import sys
import time

from fedprof.cli import progress
from fedprof.cli.progress import clock

COMMAND = [sys.executable, "-m", "fedprof", "run", "digits", "--engine", "torch", "--workers", "1"]
SMALL = ["--set", "clients=10", "--rounds", "6"]


def test_plain_lines_when_not_a_terminal(tmp_path):
    done = subprocess.run(
        [*COMMAND, *SMALL, "--out", tmp_path / "a.sqlite"], capture_output=True, text=True, check=True
    )
    first, *_, last = done.stderr.splitlines()
    assert first == "fedprof on digits: 6 rounds (torch engine)"
    assert last.startswith("round 6/6  accuracy 0.")
    for word in ("best", "min", "Wh", "left"):
        assert word in last
    assert "\x1b" not in done.stderr
    assert "best accuracy" in done.stdout


def test_a_live_line_in_a_terminal(tmp_path):
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    call = [*COMMAND, *SMALL, "--out", tmp_path / "a.sqlite"]
    running = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=theirs, env=environment)
    os.close(theirs)
    shown = _everything(ours)
    assert running.wait() == 0
    assert "fedprof on digits" in shown
    assert "/6" in shown
    assert "Wh" in shown
    assert "\x1b[2K" in shown, "the line is drawn over itself"
    assert "round 6/6" not in shown, "and no plain line is written"
    with running.stdout as out:
        assert b"best accuracy" in out.read()


def test_what_takes_long_is_said_only_if_it_does(monkeypatch, capsys):
    monkeypatch.setattr(progress, "PLAIN_SECONDS", 0.2)
    patience = progress.Patience()
    patience.say_later("compiling quickly")
    patience.forget()
    patience.say_later("compiling")
    time.sleep(0.1)
    assert capsys.readouterr().err == ""
    time.sleep(0.5)
    assert capsys.readouterr().err == "compiling\n"


def test_compiling_is_said_before_the_first_round(tmp_path):
    """With an empty cache of compiled code."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    call = [sys.executable, "-m", "fedprof", "run", "digits", "--engine", "native", "--rounds", "1"]
    running = subprocess.Popen(call, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    with running.stderr as lines:
        first = lines.readline()
    running.kill()
    running.wait()
    assert first.startswith("preparing the native kernels")


def test_an_interrupted_terminal_gets_its_cursor_back(tmp_path):
    ours, theirs = pty.openpty()
    call = [*COMMAND, "--rounds", "100000", "--out", tmp_path / "a.sqlite"]
    running = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=theirs, start_new_session=True)
    os.close(theirs)
    while not (tmp_path / "a.sqlite").exists():
        time.sleep(0.01)
    running.send_signal(2)
    shown = _everything(ours)
    assert running.wait() == 130
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    assert "the same command goes on" in shown


def _everything(terminal):
    shown = b""
    while True:
        try:
            chunk = os.read(terminal, 4096)
        except OSError:  # the other side is closed
            chunk = b""
        if not chunk:
            os.close(terminal)
            return shown.decode()
        shown += chunk


def test_time_left_reads_like_a_clock():
    assert clock(59.6) == "0:01:00"
    assert clock(3661) == "1:01:01"
