"""How a racer talks with ``race.py``: told to run so many rounds, it answers with a JSON line of seconds a round.

The frameworks' own output goes to standard error; the last lines of it are shown where a racer fails.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib.metadata import version


class OverError(Exception):
    """No more rounds are wanted."""


class Pacer:
    """Lets a racer start, and stop between two rounds, however its framework drives them."""

    def __init__(self, *packages: str) -> None:
        self._channel = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self._versions = {name: version(name) for name in packages}
        self._times: list[float] = []

    def ready(self) -> None:
        """Data and model are there: say so and wait for the first call."""
        self._say({"versions": {"python": sys.version.split()[0], **self._versions}})
        self._wait()

    def round_done(self, loss: float) -> None:
        """One round, with its evaluation, is done."""
        self._times.append(time.perf_counter() - self._begun)
        if len(self._times) == self._asked:
            self._say({"seconds": self._times, "loss": float(loss)})
            self._wait()
        self._begun = time.perf_counter()

    def _wait(self) -> None:
        line = sys.stdin.readline()
        if not line.strip():
            raise OverError
        self._asked, self._times = int(line), []
        self._begun = time.perf_counter()

    def _say(self, what: dict) -> None:
        print(json.dumps(what), file=self._channel, flush=True)
