"""What the server knows of the clients: who they are, how their profiles match, and the algorithm's state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from flwr.app import ArrayRecord, Error, RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedprof.algorithms.base import CLIENT, Algorithm, Population, Report, State, with_clients
from fedprof.core.profile import Profile
from fedprof.errors import FederationError, MatchingError, ProfileError, SettingsError
from fedprof.flower.arrays import flatten
from fedprof.flower.cohort import Cohort, Standing, spread
from fedprof.flower.grid import LOG, NO_ANSWER, exchange, reason
from fedprof.flower.protocol import KEY, QUERY, Answer, Question
from fedprof.flower.roster import Roster, introduction
from fedprof.matching import Matching, Server
from fedprof.randomness import stream

NEVER = -1
_Sent = TypeVar("_Sent")
_Read = TypeVar("_Read")
BaselineMaker = Callable[[ArrayRecord, int], Profile]


@dataclass(frozen=True)
class Fault:
    """Why what a client sent cannot be used."""

    reason: str


@dataclass
class Members:
    """The clients as the algorithm sees them."""

    algorithm: Algorithm
    way: Matching
    make_baseline: BaselineMaker | None
    layer: str
    seed: int
    roster: Roster = field(default_factory=Roster)
    state: State = field(default_factory=dict)
    """Empty until the first clients are known."""
    answered: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Model version of each client's last profile."""
    picked: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Rounds that each client was asked to train in."""
    failures: dict[int, str] = field(default_factory=dict)
    """Why clients that joined sent no profile."""
    _baseline: Profile | None = None
    """None where nothing is to be compared; clients then keep the divergences that are known."""
    _servers: dict[int, Server] = field(default_factory=dict)
    """The server's side of each open exchange, by node."""

    def meet(self, grid: Grid, connected: Iterable[int], arrays: ArrayRecord, version: int, timeout: float) -> None:
        """Ask nodes that have not said who they are; profile those clients of which no divergence is known.

        In a new run both happen in one message. Later, in case the node is a known client's, one after the other:
        going on with a run then leaves every client as it was.
        """
        self._make_baseline(arrays, version)
        strangers = self.roster.strangers(connected)
        profiling, new_run = self.algorithm.profiles, not len(self.roster)
        heard = self._ask(grid, strangers, arrays, version, timeout, profile=profiling and new_run)
        self.roster.admit(heard)
        self._grow(arrays, version)
        here = {node: client for client, node in self.roster.present().items() if node in heard}
        if profiling and not new_run:
            unknown = [node for node, client in here.items() if self.answered[client] == NEVER]
            heard = self._ask(grid, unknown, arrays, version, timeout, profile=True)
        self._take_in(grid, {node: answer for node, answer in heard.items() if node in here}, version, timeout)

    def question(self, node: int, version: int, *, profile: bool) -> Question:
        """What to ask a node; nothing but its name if it does not matter or was answered for this version."""
        client = self.roster.find(node)
        if not profile or self._baseline is None or (client is not None and self.answered[client] == version):
            return Question(version)
        self._servers[node] = self.way.server(self._baseline)
        return Question(version, self._servers[node].ask(), layer=self.layer)

    def settle(
        self, grid: Grid, answers: Mapping[int, Answer], version: int, timeout: float
    ) -> dict[int, float | Fault]:
        """Match what nodes sent with the baseline, by a second exchange where the way of matching has one."""
        results: dict[int, float | Fault] = {}
        second: dict[int, RecordDict] = {}
        for node, answer in answers.items():
            if answer.message and node in self._servers:
                outcome = _guarded(self._servers[node].receive, answer.message)
                if isinstance(outcome, bytes):
                    second[node] = RecordDict({KEY: Question(version, outcome, second=True).to_record()})
                else:
                    results[node] = outcome
        finished = {node: self._finish(node, reply) for node, reply in exchange(grid, QUERY, second, timeout).items()}
        self._servers.clear()
        return results | {node: outcome for node, outcome in finished.items() if outcome is not None}

    def select(self, number: int, cohort: int) -> Cohort:
        """Choose among the clients that can be reached."""
        present = self.roster.present()
        clients = list(present)
        if cohort > len(clients):
            LOG.warning("Round %d: %d clients wanted, only %d can be reached", number, cohort, len(clients))
        population = Population(self.roster.sizes[clients], min(cohort, len(clients)))
        seen = {name: array[clients] if name.startswith(CLIENT) else array for name, array in self.state.items()}
        selection = self.algorithm.select(seen, population, stream(self.seed, "select", number))
        if selection.quota is not None:
            raise SettingsError(
                f"{self.algorithm.name} ends a round when enough clients have submitted; Flower waits for all it asked"
            )
        scores = spread(self.algorithm.scores(seen, population), clients, len(self.roster))
        draws = {clients[k]: n for k, n in zip(selection.clients.tolist(), selection.draws.tolist(), strict=True)}
        self.picked = self.picked + np.isin(np.arange(len(self.picked)), list(draws))
        return Cohort(draws, present, Standing(scores, self.algorithm.divergences(self.state)))

    def standing(self) -> Standing:
        """What the server thinks of every client now."""
        return Standing(self.algorithm.scores(self.state, self._population()), self.algorithm.divergences(self.state))

    def learn(self, reports: Sequence[Report], version: int) -> None:
        """Tell the algorithm what clients reported."""
        self.state = self.algorithm.learn(self.state, self._population(), reports)
        known = [report.client for report in reports if report.divergence is not None]
        self.answered = self.answered.copy()
        self.answered[known] = version

    def _population(self) -> Population:
        return Population(self.roster.sizes, 1)

    def _make_baseline(self, arrays: ArrayRecord, version: int) -> None:
        if self.make_baseline is None or not self.algorithm.profiles:
            return
        if self._baseline is None or self._baseline.version != version:
            self._baseline = self._usable_baseline(self.make_baseline, arrays, version)
            if self.state and self._baseline is not None:
                self.state = self.algorithm.publish(self.state, version, self._baseline)

    def _usable_baseline(self, make: BaselineMaker, arrays: ArrayRecord, version: int) -> Profile | None:
        """The server's profile; None, in a run under way, if this model gives none that can be matched."""
        try:
            baseline = _checked(make(arrays, version), version)
            self.way.server(baseline)  # refuses what is out of its range
        except (MatchingError, ProfileError) as error:
            if not self.state:
                raise
            LOG.warning("No client is asked for its profile under model version %d: %s", version, error)
            return None
        return baseline

    def _ask(
        self, grid: Grid, nodes: Sequence[int], arrays: ArrayRecord, version: int, timeout: float, *, profile: bool
    ) -> dict[int, Answer]:
        questions = {node: self.question(node, version, profile=profile) for node in nodes}
        contents = {node: RecordDict({KEY: question.to_record()}) for node, question in questions.items()}
        for node, content in contents.items():
            if questions[node].message:
                content["arrays"] = arrays
        outcomes = exchange(grid, QUERY, contents, timeout)
        found = {node: introduction(node, outcome) for node, outcome in outcomes.items()}
        return {node: answer for node, answer in found.items() if answer is not None}

    def _grow(self, arrays: ArrayRecord, version: int) -> None:
        """Make room for clients that joined."""
        count = len(self.roster)
        if not count:
            raise FederationError("no node has said who it is: do the nodes run a FedProfClientApp?")
        if not self.state:
            self.state = self.algorithm.start(self._population(), flatten(arrays))
            if self._baseline is not None:
                self.state = self.algorithm.publish(self.state, version, self._baseline)
        self.state = with_clients(self.state, count)
        more = count - len(self.answered)
        self.answered = np.append(self.answered, np.full(more, NEVER))
        self.picked = np.append(self.picked, np.zeros(more, np.int64))

    def _take_in(self, grid: Grid, answers: Mapping[int, Answer], version: int, timeout: float) -> None:
        """Learn the first profiles of those who joined; who has none keeps the neutral score, and it is said why."""
        results = self.settle(grid, answers, version, timeout)
        reports = []
        for node, answer in answers.items():
            client, result = self.roster.client_at(node), results.get(node)
            failure = result.reason if isinstance(result, Fault) else answer.failure
            if isinstance(result, float):
                reports.append(Report(client, version, divergence=result))
            elif failure:
                self.failures[client] = failure
                LOG.warning("Client '%s' has no profile (%s): it keeps the neutral score", answer.name, failure)
        self.learn(reports, version)

    def _finish(self, node: int, reply: RecordDict | Error | None) -> float | Fault | None:
        """The outcome of a second exchange; None where the client is not to blame that there is none."""
        answer = _guarded(_anonymous, reply) if isinstance(reply, RecordDict) else None
        if isinstance(answer, Fault):
            return answer
        if answer and answer.message:
            return _guarded(self._servers[node].finish, answer.message)
        silent = reason(reply) if isinstance(reply, Error) else NO_ANSWER
        LOG.warning("Node %d did not finish matching: %s", node, answer.failure if answer else silent)
        return None


def _checked(baseline: object, version: int) -> Profile:
    """The profile that the user's own function made; a wrong one would be blamed on every client."""
    if not isinstance(baseline, Profile):
        raise SettingsError(f"baseline= returned a {type(baseline).__name__}: it must return a fedprof.Profile")
    if baseline.version != version:
        told = f"of model version {baseline.version} when asked for {version}"
        raise SettingsError(f"baseline= returned a profile {told}: pass the version that it is given to the Profile")
    return baseline


def _guarded(read: Callable[[_Sent], _Read], sent: _Sent) -> _Read | Fault:
    """What reading a client's message gives, or why it cannot be read."""
    try:
        return read(sent)
    except MatchingError as error:
        return Fault(str(error))


def _anonymous(content: RecordDict) -> Answer:
    return Answer.take(content, known_as="")
