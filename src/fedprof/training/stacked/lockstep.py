"""Many runs on one accelerator: each runs in a thread of its own, and what they ask for at the same time is stacked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from fedprof.training.engine import Update
from fedprof.training.stacked.engine import Passed, PassRequest, Stacker, TrainRequest


class Lockstep:
    """A meeting point: once every run still going waits for an answer, requests of one kind are served together."""

    def __init__(self, stacker: Stacker, runs: int) -> None:
        self.stacker, self.going = stacker, runs
        self._turn = threading.Condition()
        self._waiting: dict[int, tuple[str, Sequence[Any]]] = {}
        self._answers: dict[int, Any] = {}

    def train(self, requests: Sequence[TrainRequest]) -> list[Update]:
        """Train, together with whoever else is waiting to."""
        return self._ask("train", requests)

    def passes(self, requests: Sequence[PassRequest]) -> list[Passed]:
        """Pass, together with whoever else is waiting to."""
        return self._ask("passes", requests)

    def leave(self) -> None:
        """Leave the meeting; those who wait need not wait for this one."""
        with self._turn:
            self.going -= 1
            self._serve_if_complete()

    def _ask(self, kind: str, requests: Sequence[Any]) -> list[Any]:
        me = threading.get_ident()
        with self._turn:
            self._waiting[me] = (kind, requests)
            self._serve_if_complete()
            while me not in self._answers:
                self._turn.wait()
            answer = self._answers.pop(me)
        if isinstance(answer, BaseException):
            raise answer
        return list(answer)

    def _serve_if_complete(self) -> None:
        """Serve passes while anyone waits for one, so that all training waits to be done together."""
        if not self._waiting or len(self._waiting) < self.going:
            return
        kind = "passes" if any(asked == "passes" for asked, _ in self._waiting.values()) else "train"
        askers = [asker for asker, (asked, _) in self._waiting.items() if asked == kind]
        self._serve(getattr(self.stacker, kind), askers)
        for asker in askers:
            del self._waiting[asker]
        self._turn.notify_all()

    def _serve(self, work: Callable[[list[Any]], list[Any]], askers: list[int]) -> None:
        asked = [self._waiting[asker][1] for asker in askers]
        try:
            answers = work([request for requests in asked for request in requests])
        except Exception as error:  # noqa: BLE001 - handed on to every asker, which raises it
            self._answers |= dict.fromkeys(askers, error)
            return
        start = 0
        for asker, requests in zip(askers, asked, strict=True):
            self._answers[asker] = answers[start : start + len(requests)]
            start += len(requests)
