"""Processes that end when the block that started them does, whatever happens in it."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

PATIENCE = 60.0


class Started:
    """A process in a session of its own, and its log."""

    def __init__(self, command: list[str], log: Path, env: dict[str, str]) -> None:
        self.name, self.log = log.stem, log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, env=env, start_new_session=True
            )

    def said(self) -> str:
        """All it logged so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait_for(self, *texts: str, seconds: float = PATIENCE) -> str | None:
        """The first of these texts that appears in its log; None if it ended or the time is over before any does."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            ended = self.process.poll() is not None
            for text in texts:
                if text in self.said():
                    return text
            if ended:
                return None
            time.sleep(0.3)
        return None

    def end(self) -> None:
        """End it with all it started: they share its session, whose id is the process's own."""
        for signum, seconds in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signum)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(seconds)
        _gone(self.process.pid)


@contextlib.contextmanager
def processes() -> Iterator[list[Started]]:
    """Processes appended to the list are ended, last one first, when the block is left; also on SIGTERM."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started: list[Started] = []
    try:
        yield started
    finally:
        for one in reversed(started):
            one.end()
        signal.signal(signal.SIGTERM, before)


def free_port() -> int:
    """A port on the loopback interface that nobody uses just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _gone(group: int, seconds: float = 10.0) -> None:
    """Wait until the last process of a group has ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
