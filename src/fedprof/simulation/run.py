"""The simulation's loop: select, dispatch, train, gate, combine, evaluate, record."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from fedprof.algorithms.base import Algorithm, Reply, Report, Selection, State, Vector
from fedprof.algorithms.gate import gate
from fedprof.randomness import stream
from fedprof.simulation.federation import Federation, Outcome, Submission
from fedprof.simulation.history import Standing, round_rows, with_costs
from fedprof.simulation.store import ParticipationRow, RoundRow, Store
from fedprof.tasks.task import Task
from fedprof.training.engine import Engine, Evaluation, Recipe, Update

WEIGHTS = "weights"
ALGORITHM = "algorithm/"


class Observer(Protocol):
    """Sees a run as it happens: progress lines, TensorBoard and the like."""

    def begin(self, run: Run) -> None:
        """Take note of a run about to start or go on."""
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
        algorithm, population = self.algorithm, self.task.population
        standing = Standing.of(algorithm, self.state, population)
        selection = algorithm.select(self.state, population, stream(self.task.seed, "select", number))
        outcome = self.federation.round(number, self.last.clock, selection, profile=algorithm.profiles)
        updates = self._train(number, outcome)
        accepted, dropped = gate(_replies(number, selection, outcome, updates), self.weights)
        self.state = algorithm.learn(self.state, population, accepted)
        self.state, self.weights = algorithm.combine(self.state, population, self.weights, accepted)
        evaluation = self._evaluate(number)
        parts = round_rows(number, selection, outcome, updates, dropped, standing, len(population))
        self._record(self._row(number, evaluation, selection, outcome, len(accepted)), parts, started)

    def _start(self) -> None:
        """Algorithm 1, lines 1 to 6: the first model, its baseline, and everybody's profile under it."""
        started = time.perf_counter()
        population = self.task.population
        self.weights = self.task.initial_weights
        self.state = self.algorithm.start(population, self.weights)
        evaluation = self._evaluate(0)
        sent = self._collect_profiles() if self.algorithm.profiles else []
        seconds = max((sum(one.seconds) for one in sent), default=0.0)
        joules = float(sum(sum(one.joules) for one in sent))
        standing = Standing.of(self.algorithm, self.state, population)
        parts = (with_costs(standing.row(0, one.client), one) for one in sent)
        accuracy, loss = evaluation.accuracy, evaluation.loss
        row = RoundRow(0, accuracy, loss, accuracy, None, seconds, seconds, joules, joules, selected=0, accepted=0)
        self._record(row, parts, started)

    def _collect_profiles(self) -> list[Submission]:
        clients = range(len(self.task.population))
        profiles = self.engine.profiles(self.weights, clients, version=0)
        reports = [Report(client, 0, profile=profile) for client, profile in zip(clients, profiles, strict=True)]
        self.state = self.algorithm.learn(self.state, self.task.population, reports)
        return self.federation.initial_profiles()

    def _resume(self) -> None:
        last = self.store.last_round()
        if last is None:
            self._start()
            return
        saved = self.store.state()
        self.weights = saved[WEIGHTS].astype(np.float32, copy=False)
        self.state = {name.removeprefix(ALGORITHM): array for name, array in saved.items() if name != WEIGHTS}
        self.last = last

    def _train(self, number: int, outcome: Outcome) -> dict[int, Update]:
        """Train those whose submission the server took; nobody else's training could matter."""
        clients = sorted(one.client for one in outcome.merged)
        profile = self.algorithm.profiles
        updates = self.engine.train(self.weights, number, clients, self.recipe(number), profile=profile)
        return {update.client: update for update in updates}

    def recipe(self, number: int) -> Recipe:
        """How clients train in a round: the task's settings, the rate decayed, the algorithm's own term."""
        how = self.task.settings.training
        rate = how.rate * how.decay ** (number - 1)
        return Recipe(how.epochs, how.batch, rate, how.momentum, how.weight_decay, self.algorithm.proximal)

    def _evaluate(self, version: int) -> Evaluation:
        """Evaluate the global model and publish its baseline."""
        evaluation = self.engine.evaluate(self.weights, version=version if self.algorithm.profiles else None)
        if evaluation.profile is not None:
            self.state = self.algorithm.publish(self.state, version, evaluation.profile)
        return evaluation

    def _row(
        self, number: int, evaluation: Evaluation, selection: Selection, outcome: Outcome, accepted: int
    ) -> RoundRow:
        joules = float(sum(sum(one.joules) for one in outcome.charged))
        return RoundRow(
            round=number,
            accuracy=evaluation.accuracy,
            loss=evaluation.loss if np.isfinite(evaluation.loss) else None,
            best_accuracy=max(evaluation.accuracy, self.last.best_accuracy or 0.0),
            rate=self.recipe(number).rate,
            seconds=outcome.ended - self.last.clock,
            clock=outcome.ended,
            joules=joules,
            total_joules=self.last.total_joules + joules,
            selected=len(selection.clients) if selection.quota is None else selection.quota,
            accepted=accepted,
        )

    def _record(self, row: RoundRow, parts: Iterable[ParticipationRow], started: float) -> None:
        state = {WEIGHTS: self.weights, **{ALGORITHM + name: array for name, array in self.state.items()}}
        self.store.record(row, parts, state, time.perf_counter() - started)
        self.last = row


def _replies(number: int, selection: Selection, outcome: Outcome, updates: Mapping[int, Update]) -> list[Reply]:
    draws = dict(zip(selection.clients.tolist(), selection.draws.tolist(), strict=True))
    return [
        Reply(
            client=one.client,
            version=number - 1,
            loss=updates[one.client].loss,
            profile=updates[one.client].profile,
            seconds=sum(one.seconds),
            weights=updates[one.client].weights,
            draws=draws[one.client],
        )
        for one in outcome.merged
    ]
