"""One round of a federation as a discrete-event simulation: the server and every client it asks are SimPy processes."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import simpy
from numpy.typing import NDArray

from fedprof.algorithms.base import Selection
from fedprof.randomness import stream
from fedprof.simulation.costs import CostModel, Four, Phases
from fedprof.tasks.settings import Conditions

Event = Generator[simpy.Event, Any, None]
ROUNDING = 1e-9
"""Two ways to add up the same seconds differ by less."""


class Submission(NamedTuple):
    """What becomes of one client's round."""

    client: int
    seconds: Four
    """Spent on download, profiling, training, upload."""
    joules: Four
    failure: str | None = None
    """Why the server never has its weights."""


class Outcome(NamedTuple):
    """How a round went, before anything was trained."""

    merged: list[Submission]
    """Those the server took, in order of arrival; who goes first is ahead of the others."""
    failed: list[Submission]
    """Those it waited for in vain."""
    ended: float
    """Virtual time at the end."""

    @property
    def charged(self) -> list[Submission]:
        """Whose energy counts: a client told to stop because the quota was full is not charged (as in the paper)."""
        return self.merged + self.failed


class _Fates(NamedTuple):
    """What chance has in store for those asked, one entry each."""

    lost: NDArray[np.bool_]
    """It does not get the server's call."""
    dies: NDArray[np.bool_]
    """It crashes while it trains."""
    trained: NDArray[np.float64]
    """Share of its training that it gets done."""

    @property
    def fatal(self) -> NDArray[np.bool_]:
        """Whether the server never has its weights."""
        return self.lost | self.dies

    def shorten(self, seconds: Phases) -> Phases:
        """Cut the phases to what really happens."""
        there = ~self.lost
        training = seconds.training * there * self.trained
        return Phases(seconds.download * there, seconds.profiling * there, training, seconds.upload * ~self.fatal)

    def failures(self) -> list[str | None]:
        """How each one fails, if it does."""
        names = {(True, False): "unreachable", (False, True): "crashed"}
        return [names.get(fate) for fate in zip(self.lost.tolist(), self.dies.tolist(), strict=True)]


class _Work(NamedTuple):
    """What becomes of those asked if nobody stops them, one entry each."""

    clients: NDArray[np.int64]
    seconds: Phases
    joules: Phases
    failures: list[str | None]
    heard: NDArray[np.float64]
    """Seconds until the server hears of it."""

    def submissions(self, some: NDArray[np.int64]) -> Iterator[Submission]:
        """Of some of them, in the order asked."""
        seconds, joules = self.seconds.at(some).rows(), self.joules.at(some).rows()
        failures = [self.failures[place] for place in some.tolist()]
        return map(Submission, self.clients[some].tolist(), seconds, joules, failures)


class _Inbox:
    """The server's side of a round: who has answered or been given up, and an event whenever either happens."""

    def __init__(self, env: simpy.Environment, selection: Selection) -> None:
        self.env = env
        self.asked: list[int] = selection.clients.tolist()
        self.quota = len(self.asked) if selection.quota is None else selection.quota
        first = selection.clients if selection.first is None else selection.clients[selection.first]
        self.preferred = frozenset(first.tolist())
        self.awaited = len(self.preferred)
        self.early = 0
        self.submitted: list[Submission] = []
        self.failed: list[Submission] = []
        self.news = env.event()

    def put(self, submission: Submission) -> None:
        """Take a submission, or the news that there will be none."""
        (self.failed if submission.failure else self.submitted).append(submission)
        if submission.client in self.preferred:
            self.awaited -= 1
            self.early += not submission.failure
        self.news.succeed()
        self.news = self.env.event()

    @property
    def finished(self) -> bool:
        """Everybody has been heard of; or the quota is full and nobody who goes first could still displace another."""
        if len(self.submitted) + len(self.failed) == len(self.asked):
            return True
        return self.early >= self.quota or (not self.awaited and len(self.submitted) >= self.quota)

    @property
    def merged(self) -> list[Submission]:
        """Those who fill the quota: who goes first in order of arrival, then the others in order of arrival."""
        return sorted(self.submitted, key=lambda one: one.client not in self.preferred)[: self.quota]


@dataclass(frozen=True)
class Federation:
    """Devices that download, profile, train and upload in virtual time."""

    costs: CostModel
    conditions: Conditions
    seed: int

    def round(self, number: int, clock: float, selection: Selection, *, profile: bool) -> Outcome:
        """Play one round from virtual time ``clock``."""
        env = simpy.Environment(initial_time=clock)
        inbox = _Inbox(env, selection)
        work = self._work(number, clock, selection, profile)
        for submission in work.submissions(_who_matters(selection, work)):
            env.process(self._client(inbox, submission))
        env.run(until=env.process(self._server(env, inbox)))
        late = [] if inbox.finished else _late(inbox, work)
        return Outcome(inbox.merged, inbox.failed + late, env.now)

    def initial_profiles(self) -> tuple[Phases, Phases]:
        """Seconds and joules of everybody's first profile (Algorithm 1, line 4); mishaps start with round 1."""
        clients = np.arange(len(self.costs.sizes))
        seconds = self.costs.initial(clients)
        return seconds, self.costs.joules(seconds, clients)

    def _work(self, number: int, clock: float, selection: Selection, profile: bool) -> _Work:
        clients = selection.clients
        seconds = self.costs.seconds(clients, profile=profile, bandwidth=self._bandwidth(number, clients))
        fates = self._fates(number, clock, clients)
        seconds = seconds if fates is None else fates.shorten(seconds)
        failures: list[str | None] = [None] * len(clients) if fates is None else fates.failures()
        heard = seconds.total if fates is None else seconds.total + self.conditions.notice * fates.fatal
        return _Work(clients, seconds, self.costs.joules(seconds, clients), failures, heard)

    def _client(self, inbox: _Inbox, work: Submission) -> Event:
        """A device's round: four phases one after another, cut short if it is out of reach or dies on the way."""
        timeout = inbox.env.timeout
        download, profiling, training, upload = work.seconds
        yield timeout(download)
        if profiling:
            yield timeout(profiling)
        yield timeout(training)
        if work.failure:
            yield timeout(self.conditions.notice)
        else:
            yield timeout(upload)
        inbox.put(work)

    def _server(self, env: simpy.Environment, inbox: _Inbox) -> Event:
        """Wait until the round can end or the deadline has passed."""
        deadline = env.timeout(self.conditions.deadline) if self.conditions.deadline else None
        while not inbox.finished:
            yield inbox.news if deadline is None else inbox.news | deadline
            if deadline is not None and deadline.processed:
                return

    def _bandwidth(self, number: int, clients: NDArray[np.int64]) -> NDArray[np.float64] | float:
        """Each client's bandwidth this round, relative to its own mean."""
        spread = self.conditions.bandwidth_variation
        if not spread:
            return 1.0
        factors = 1 + spread * stream(self.seed, "bandwidth-now", number).uniform(-1, 1, self._population)
        return np.asarray(factors[clients])

    def _fates(self, number: int, clock: float, clients: NDArray[np.int64]) -> _Fates | None:
        """Drawn for the whole population, so that a client's luck does not depend on who else is asked."""
        conditions = self.conditions
        if not (conditions.dropout or conditions.crash or conditions.availability < 1):
            return None
        silence, mishap, when = stream(self.seed, "mishaps", number).random((3, self._population))[:, clients]
        lost = (silence < conditions.dropout) | ~self._reachable(clock)[clients]
        dies = ~lost & (mishap < conditions.crash)
        return _Fates(lost, dies, np.where(dies, when, 1.0))

    def _reachable(self, clock: float) -> NDArray[np.bool_]:
        """Who can be called now: each client for a share of every period, from a phase of its own on."""
        now = (clock / self.conditions.period + self._phases) % 1
        return np.asarray(now < self.conditions.availability)

    @cached_property
    def _phases(self) -> NDArray[np.float64]:
        return stream(self.seed, "availability").random(self._population)

    @property
    def _population(self) -> int:
        return len(self.costs.sizes)


def _who_matters(selection: Selection, work: _Work) -> NDArray[np.int64]:
    """Places of those to play: with a quota, not those still at work when it is full. (CFCFM asks everybody.)"""
    everybody = np.arange(len(work.clients))
    if selection.quota is None:
        return everybody
    well = np.array([failure is None for failure in work.failures])
    first = well if selection.first is None else well & selection.first
    if np.count_nonzero(first) < selection.quota:
        return everybody
    full = np.partition(work.heard[first], selection.quota - 1)[selection.quota - 1]
    return np.flatnonzero(work.heard <= full * (1 + ROUNDING))


def _late(inbox: _Inbox, work: _Work) -> list[Submission]:
    """Those not heard of at the deadline; they are charged in full, as they do not know that it has passed."""
    known = {submission.client for submission in inbox.submitted + inbox.failed}
    unknown = [place for place, client in enumerate(inbox.asked) if client not in known]
    missing = work.submissions(np.array(unknown, np.int64))
    return [one._replace(failure=one.failure or "timed out") for one in missing]
