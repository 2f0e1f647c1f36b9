"""One round of a federation as a discrete-event simulation: the server and every client it asks are SimPy processes."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from fedprof.algorithms.base import Selection
from fedprof.randomness import stream
from fedprof.simulation.costs import CostModel, Phases
from fedprof.tasks.settings import Conditions

Event = Generator[simpy.Event, Any, None]


@dataclass(frozen=True)
class Submission:
    """What became of one client's round."""

    client: int
    seconds: tuple[float, float, float, float]
    """Spent on download, profiling, training, upload."""
    joules: tuple[float, float, float, float]
    arrived: float | None = None
    """When the server had it; None if never."""
    failure: str | None = None


@dataclass(frozen=True)
class Outcome:
    """How a round went, before anything was trained."""

    merged: list[Submission]
    """Those the server took, in order of arrival."""
    failed: list[Submission]
    """Those it waited for in vain."""
    ended: float
    """Virtual time at the end."""

    @property
    def charged(self) -> list[Submission]:
        """Whose energy counts: a client told to stop because the quota was full is not charged (as in the paper)."""
        return self.merged + self.failed


class _Inbox:
    """The server's side of a round: who has answered or given up, and an event whenever either happens."""

    def __init__(self, env: simpy.Environment, selection: Selection) -> None:
        self.env = env
        self.asked = selection.clients.tolist()
        self.quota = selection.quota
        self.preferred = frozenset(
            self.asked if selection.first is None else selection.clients[selection.first].tolist()
        )
        self.awaited = len(self.preferred)
        self.submitted: list[Submission] = []
        self.failed: list[Submission] = []
        self.news = env.event()

    def put(self, submission: Submission) -> None:
        """Take a submission, or the news that there will be none."""
        (self.failed if submission.failure else self.submitted).append(submission)
        self.awaited -= submission.client in self.preferred
        self.news.succeed()
        self.news = self.env.event()

    @property
    def finished(self) -> bool:
        """Everybody has been heard of; or the quota is full and nobody who goes first could still come."""
        if len(self.submitted) + len(self.failed) == len(self.asked):
            return True
        if self.quota is None or len(self.submitted) < self.quota:
            return False
        return self.awaited == 0 or sum(one.client in self.preferred for one in self.submitted) >= self.quota

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
        seconds, joules = self._plan(number, selection.clients, profile=profile)
        for position, client in enumerate(selection.clients.tolist()):
            costs = _at(seconds, position), _at(joules, position)
            env.process(self._client(inbox, number, client, *costs))
        server = env.process(self._server(env, inbox))
        env.run(until=server)
        late = [] if inbox.finished else self._late(inbox, seconds, joules)
        return Outcome(inbox.merged, inbox.failed + late, env.now)

    def initial_profiles(self) -> list[Submission]:
        """Everybody's first profile, before round 1 (Algorithm 1, line 4); mishaps start with round 1."""
        clients = np.arange(len(self.costs.sizes))
        seconds = self.costs.initial(clients)
        joules = self.costs.joules(seconds, clients)
        return [Submission(k, _share(_at(seconds, k)), _share(_at(joules, k))) for k in clients.tolist()]

    def _plan(self, number: int, clients: NDArray[np.int64], *, profile: bool) -> tuple[Phases, Phases]:
        spread = self.conditions.bandwidth_variation
        now = stream(self.seed, "bandwidth-now", number).uniform(-1, 1, len(self.costs.sizes)) if spread else None
        factor = 1.0 if now is None else 1 + spread * now[clients]
        seconds = self.costs.seconds(clients, profile=profile, bandwidth=factor)
        return seconds, self.costs.joules(seconds, clients)

    def _client(self, inbox: _Inbox, number: int, client: int, seconds: list[float], joules: list[float]) -> Event:
        """A device's round: perhaps out of reach, perhaps crashing, else four phases one after another."""
        env, luck = inbox.env, self._luck(number, client)
        if not self._reachable(client, env.now) or luck[0] < self.conditions.dropout:
            inbox.put(Submission(client, (0.0,) * 4, (0.0,) * 4, failure="unreachable"))
            return
        download, profiling, training, upload = seconds
        yield env.timeout(download)
        yield env.timeout(profiling)
        if luck[1] < self.conditions.crash:
            yield env.timeout(luck[2] * training)
            spent = (1.0, 1.0, luck[2], 0.0)
            inbox.put(Submission(client, _share(seconds, spent), _share(joules, spent), failure="crashed"))
            return
        yield env.timeout(training)
        yield env.timeout(upload)
        inbox.put(Submission(client, _share(seconds), _share(joules), arrived=env.now))

    def _server(self, env: simpy.Environment, inbox: _Inbox) -> Event:
        """Wait until the round can end or the deadline has passed."""
        deadline = env.timeout(self.conditions.deadline) if self.conditions.deadline else None
        while not inbox.finished:
            yield inbox.news if deadline is None else inbox.news | deadline
            if deadline is not None and deadline.processed:
                return

    def _late(self, inbox: _Inbox, seconds: Phases, joules: Phases) -> list[Submission]:
        """Those still at work at the deadline; they are charged in full, as they do not know that it has passed."""
        known = {submission.client for submission in inbox.submitted + inbox.failed}
        return [
            Submission(client, _share(_at(seconds, place)), _share(_at(joules, place)), failure="timed out")
            for place, client in enumerate(inbox.asked)
            if client not in known
        ]

    def _luck(self, number: int, client: int) -> list[float]:
        if not (self.conditions.dropout or self.conditions.crash):
            return [1.0, 1.0, 1.0]
        return list(stream(self.seed, "mishaps", number, client).random(3))

    def _reachable(self, client: int, now: float) -> bool:
        """Each client is reachable for a share of its period, from a phase of its own on."""
        if self.conditions.availability == 1:
            return True
        phase = stream(self.seed, "availability", 0, client).random()
        return bool((now / self.conditions.period + phase) % 1 < self.conditions.availability)


def _at(phases: Phases, position: int) -> list[float]:
    return [float(part[position]) for part in (phases.download, phases.profiling, phases.training, phases.upload)]


def _share(phases: list[float], share: tuple[float, ...] = (1.0,) * 4) -> tuple[float, float, float, float]:
    download, profiling, training, upload = (part * spent for part, spent in zip(phases, share, strict=True))
    return download, profiling, training, upload
