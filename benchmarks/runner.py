"""A racer at the start line: a process that runs as many rounds as it is told to, and waits."""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from racers import PEERS, Racer, RacerError, last_lines

START_SECONDS, TURN_SECONDS, FINISH_SECONDS = 300, 600, 30


class Runner:
    """One racer's process; ``peers/pacing.py`` is the other end of its pipes."""

    def __init__(self, racer: Racer, python: Path, workload: str, quick: bool) -> None:
        self.racer = racer
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the runner
        command = [str(python), "-B", str(PEERS / racer.script), workload, *racer.options, *(["quick"] * quick)]
        quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}
        quiet |= {"RAY_worker_niceness": "0"}  # Ray would let its workers yield to everybody else (15)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env={**os.environ, **quiet, "PYTHONPATH": str(PEERS)},
            cwd=PEERS,
        )
        try:
            self.versions: dict[str, str] = self._answer(START_SECONDS)["versions"]
        except RacerError:
            self.close()
            raise

    def run(self, rounds: int) -> tuple[list[float], float]:
        """Seconds of each of some rounds, and the loss after them."""
        try:
            self.process.stdin.write(f"{rounds}\n".encode())
            self.process.stdin.flush()
        except OSError as error:
            raise self._failure("died") from error
        answer = self._answer(TURN_SECONDS)
        return answer["seconds"], answer["loss"]

    def close(self) -> None:
        """Let it finish; end it where it does not."""
        with suppress(OSError):  # it has died with a request unread
            self.process.stdin.close()
        try:
            self.process.wait(FINISH_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()

    def _answer(self, seconds: float) -> dict:
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            raise self._failure("died" if ready else f"did not answer in {seconds} s")
        return json.loads(line)

    def _failure(self, what: str) -> RacerError:
        self.process.kill()
        self.process.wait()
        self.errors.seek(0)
        return RacerError(f"{what}: {last_lines(self.errors.read().decode(errors='replace'))}")
