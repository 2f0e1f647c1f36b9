"""The simulation's loop: select, dispatch, train, gate, combine, evaluate, record."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from fedprof.algorithms.base import Algorithm, Population, Selection, State, Vector
from fedprof.algorithms.gate import gate
from fedprof.randomness import stream
from fedprof.simulation.cohort import spare_others
from fedprof.simulation.federation import Federation, Outcome
from fedprof.simulation.history import Standing, finite, initial_rows, round_rows
from fedprof.simulation.reports import initial_reports, replies
from fedprof.simulation.store import ParticipationRow, RoundRow, Store
from fedprof.training.engine import Engine, Evaluation, Recipe, Update

if TYPE_CHECKING:
    from fedprof.core.profile import Profile
    from fedprof.tasks.task import Task

WEIGHTS, BASELINE = "weights", "baseline"
ALGORITHM = "algorithm/"
EMPTY_ROUNDS = 2
"""After so many rounds without an answer, one in which everybody's training fails is an error."""
AT_ONCE = 5000
"""Initial profiles held in memory at a time."""


class Observer(Protocol):
    """Sees a run as it happens: progress lines, TensorBoard and the like."""

    def begin(self, run: Run) -> None:
        """Take note of a run that starts (its initial model is recorded) or goes on."""
        ...

    def round(self, run: Run, row: RoundRow) -> None:
        """Take note of a recorded round."""
        ...

    def end(self, run: Run) -> None:
        """Take note that the last round is recorded."""
        ...


@dataclass
class Run:
    """A run under way: what never changes, then the little that does."""

    task: Task
    algorithm: Algorithm
    federation: Federation
    engine: Engine
    store: Store
    rounds: int
    observers: Sequence[Observer] = ()

    weights: Vector = field(init=False)
    state: State = field(init=False)
    last: RoundRow = field(init=False)
    baseline: Profile | None = field(init=False, default=None)
    """The server's profile under the current weights, kept here where profiles are matched in private."""

    def play(self) -> None:
        """Go on from the last recorded round, or start, until all rounds are recorded."""
        self._resume()
        for observer in self.observers:
            observer.begin(self)
        while self.last.round < self.rounds:
            self._round(self.last.round + 1)
            for observer in self.observers:
                observer.round(self, self.last)
        for observer in self.observers:
            observer.end(self)

    def _round(self, number: int) -> None:
        """One round of Algorithm 1, lines 8 to 18."""
        started = time.perf_counter()
        algorithm, population = self.algorithm, self.population
        standing = Standing.of(algorithm, self.state, population)
        selection = algorithm.select(self.state, population, stream(self.task.seed, "select", number))
        outcome = self.federation.round(number, self.last.clock, selection, profile=algorithm.profiles)
        updates, failed = self._train(number, outcome)
        accepted, dropped = gate(replies(number, selection, outcome, updates, self.baseline), self.weights)
        self.state = algorithm.learn(self.state, population, accepted)
        self.state, self.weights = algorithm.combine(self.state, population, self.weights, accepted)
        evaluation = self._evaluate(number)
        row = self._row(number, evaluation, selection, outcome, len(accepted))
        parts = round_rows(number, selection, outcome, updates, failed | dropped, standing, len(population))
        self._record(row, parts, started)

    def _start(self) -> None:
        """Algorithm 1, lines 1 to 6: the first model, its baseline, and everybody's profile under it."""
        started = time.perf_counter()
        self.weights = self.task.initial_weights
        self.state = self.algorithm.start(self.population, self.weights)
        evaluation = self._evaluate(0)
        row = RoundRow(0, evaluation.accuracy, finite(evaluation.loss), evaluation.accuracy)
        parts: list[ParticipationRow] = []
        if self.algorithm.profiles:
            failed = self._profile_everybody()
            seconds, joules = self.federation.initial_profiles()
            took, spent = float(seconds.total.max()), float(joules.total.sum())
            row = row._replace(seconds=took, clock=took, joules=spent, total_joules=spent)
            standing = Standing.of(self.algorithm, self.state, self.population)
            parts = initial_rows(standing, seconds, joules, failed)
        self._record(row, parts, started)

    def _resume(self) -> None:
        last = self.store.last_round()
        if last is None:
            self._start()
            return
        saved = self.store.state()
        self.weights = saved[WEIGHTS].astype(np.float32, copy=False)
        self.state = {name.removeprefix(ALGORITHM): array for name, array in saved.items() if ALGORITHM in name}
        self.baseline = _unpacked(saved[BASELINE], last.round) if BASELINE in saved else None
        self.last = last

    def _record(self, row: RoundRow, parts: Sequence[ParticipationRow], started: float) -> None:
        state = {WEIGHTS: self.weights, **{ALGORITHM + name: array for name, array in self.state.items()}}
        if self.baseline is not None:
            state[BASELINE] = np.stack([self.baseline.mean, self.baseline.variance])
        self.store.record(row, parts, state, time.perf_counter() - started)
        self.last = row

    @property
    def population(self) -> Population:
        """The client set."""
        return self.task.population

    def recipe(self, number: int) -> Recipe:
        """How clients train in a round: the task's settings, the rate decayed, the algorithm's own term."""
        how = self.task.settings.training
        rate = how.rate * how.decay ** (number - 1)
        return Recipe(how.epochs, how.batch, rate, how.momentum, how.weight_decay, self.algorithm.proximal)

    def _train(self, number: int, outcome: Outcome) -> tuple[dict[int, Update], dict[int, str]]:
        """Train those whose submission the server took; nobody else's training could matter."""
        recipe, profile = self.recipe(number), self.algorithm.profiles

        def train(clients: Sequence[int]) -> list[Update]:
            return self.engine.train(self.weights, number, clients, recipe, profile=profile)

        clients = sorted(one.client for one in outcome.merged)
        updates, failed = spare_others(train, clients, "training", self._has_trained_lately)
        return {update.client: update for update in updates}, failed

    def _has_trained_lately(self) -> bool:
        """Whether one of the last rounds had an answer: one cohort of bad clients is bad luck, several are not."""
        answers = self.store.query("SELECT accepted FROM rounds WHERE round ORDER BY round DESC LIMIT ?", EMPTY_ROUNDS)
        return any(accepted for (accepted,) in answers)

    def _profile_everybody(self) -> dict[int, str]:
        """Learn all clients' profiles under the initial model; who has none, and why."""

        def profiles(clients: Sequence[int]) -> list[tuple[int, Profile]]:
            return list(zip(clients, self.engine.profiles(self.weights, clients, 0), strict=True))

        failed: dict[int, str] = {}
        for start in range(0, len(self.population), AT_ONCE):
            clients = range(start, min(start + AT_ONCE, len(self.population)))
            made, without = spare_others(profiles, clients, "profiling")
            failed |= without
            self.state = self.algorithm.learn(self.state, self.population, initial_reports(made, self.baseline))
        return failed

    def _evaluate(self, version: int) -> Evaluation:
        """Evaluate the global model and publish its baseline."""
        evaluation = self.engine.evaluate(self.weights, version=version if self.algorithm.profiles else None)
        if evaluation.profile is not None:
            self.state = self.algorithm.publish(self.state, version, evaluation.profile)
            if self.task.settings.federation.matching != "plain":
                self.baseline = evaluation.profile
        return evaluation

    def _row(
        self, number: int, evaluation: Evaluation, selection: Selection, outcome: Outcome, accepted: int
    ) -> RoundRow:
        joules = sum(sum(one.joules) for one in outcome.charged)
        return RoundRow(
            round=number,
            accuracy=evaluation.accuracy,
            loss=finite(evaluation.loss),
            best_accuracy=max(evaluation.accuracy, self.last.best_accuracy or 0.0),
            rate=self.recipe(number).rate,
            seconds=outcome.ended - self.last.clock,
            clock=outcome.ended,
            joules=joules,
            total_joules=self.last.total_joules + joules,
            selected=len(selection.clients) if selection.quota is None else selection.quota,
            accepted=accepted,
        )


def _unpacked(baseline: NDArray[np.generic], version: int) -> Profile:
    from fedprof.core.profile import Profile

    mean, variance = baseline
    return Profile(mean, variance, count=1, version=version)
