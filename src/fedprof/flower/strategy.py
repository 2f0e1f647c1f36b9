"""The server's side: a Flower strategy that wraps the user's own and decides who trains.

The user's strategy aggregates; which nodes it gets to see is decided by an algorithm of ``fedprof.algorithms``, the
same object as in the simulator. Round r starts from version r - 1 of the global model.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fedprof import matching as ways
from fedprof.algorithms import registry
from fedprof.algorithms.base import Algorithm
from fedprof.core.profile import Profile
from fedprof.errors import FederationError, SettingsError
from fedprof.flower import base as own
from fedprof.flower.arrays import Types, finite, types_of
from fedprof.flower.grid import LOG, SomeNodes, wait_for_nodes, with_lifetime
from fedprof.flower.loop import Evaluate, Loop
from fedprof.flower.members import BaselineMaker, Members
from fedprof.flower.record import open_record
from fedprof.flower.round import Round, usable_evaluations
from fedprof.randomness import stream

Baseline = tuple[Any, ...] | BaselineMaker
"""``(model, loader)``, ``(model, loader, layer)``, or a function of arrays and version that makes the profile."""
TIMEOUT = 3600.0
EMPTY_ROUNDS = 3
"""So many rounds in a row without a usable answer are an error, and so is a first round without one."""


class FedProf(Strategy):
    """Train on the nodes whose data look like the server's own, with any Flower strategy to combine what they send.

    ``base`` says how many nodes a round takes (``fraction_train``, ``min_train_nodes``), unless ``cohort`` does: a
    number, or a share. ``baseline`` is how the server profiles its own validation data. ``algorithm`` is a name from
    ``fedprof algorithms`` or an algorithm object; its selection is used, combining is the base's. ``timeout``, in
    seconds, is how long a round waits for its clients and how long they are given; None leaves it to ``start``.
    """

    def __init__(
        self,
        base: Strategy,
        baseline: Baseline | None = None,
        alpha: float | Literal["optimal"] | None = None,
        *,
        algorithm: str | Algorithm = "fedprof",
        cohort: float | None = None,
        seed: int = 0,
        store: str | Path | None = None,
        resume: bool = False,
        timeout: float | None = None,
        matching: str = "plain",
        name: str = "flower",
        goal: float = 1.0,
    ) -> None:
        self.base = base
        self.algorithm = _algorithm(algorithm, alpha)
        if self.algorithm.profiles and baseline is None:
            raise SettingsError(f"{self.algorithm.name} compares profiles: pass baseline=(model, loader, layer)")
        maker, layer = _baseline_maker(baseline)
        self.members = Members(self.algorithm, ways.make(matching), maker, layer, seed)
        self.cohort, self.seed = _checked_cohort(cohort), seed
        self.store, self.resume = store, resume
        if timeout is not None and not timeout > 0:
            raise SettingsError(f"timeout is {timeout!r}: give the seconds that a round may take, more than 0")
        self.timeout = timeout
        self.patience = TIMEOUT if timeout is None else timeout
        """Seconds that are waited for nodes, in this run."""
        self.going: Round
        """The round of training under way."""
        self._types: Types = {}
        """Of the arrays of the model that the run began with."""
        self._empty = 0
        """Rounds without a usable answer until now, in a row."""
        self._evaluating: list[Message] = []
        self._about = {"name": name, "goal": goal, "matching": matching}

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = TIMEOUT,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Evaluate | None = None,
    ) -> Result:
        """Run, or go on to, ``num_rounds`` rounds, as Flower's own ``start`` does; every round is recorded.

        After going on, the result holds the metrics of the new rounds only; the store has them all.
        """
        self.patience = timeout if self.timeout is None else self.timeout
        self._types = types_of(initial_arrays)
        self.summary()
        record = open_record(self.store, self._facts(), resume=self.resume)
        configs = train_config or ConfigRecord(), evaluate_config or ConfigRecord()
        try:
            return Loop(self, record, grid, *configs, evaluate_fn).play(initial_arrays, num_rounds)
        finally:
            record.close()

    def meet(self, server_round: int, arrays: ArrayRecord, grid: Grid) -> None:
        """Wait for as many nodes as the base strategy wants, and get to know those that are new."""
        least = own.least_available(self.base)
        nodes = wait_for_nodes(grid, max(least, int(self.cohort or 0)), self.patience)
        self.members.meet(grid, nodes, arrays, server_round - 1, self.patience)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Choose the cohort and let the base strategy write to it."""
        self.meet(server_round, arrays, grid)
        cohort = self.members.select(server_round, self._cohort_size())
        LOG.info("Round %d: chose %s", server_round, ", ".join(self.members.roster.names[k] for k in cohort.draws))
        self._types = self._types or types_of(arrays)
        self.going = Round(server_round, self.members, cohort, grid, arrays, self.patience, self._types)
        with own.everybody(self.base):
            messages = list(self.base.configure_train(server_round, arrays, config, SomeNodes(grid, cohort.nodes)))
        if not messages:
            raise FederationError(f"{type(self.base).__name__} asked none of the {len(cohort.draws)} chosen nodes")
        return self.going.ask(messages)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Drop what must not be used, tell the algorithm the rest, and let the base strategy combine it."""
        self.going.hear(replies, own.weighted_by(self.base))
        if not self.going.heard:
            self._note_empty(server_round)
            return None, None
        self._empty = 0
        before = own.held(self.base)
        with np.errstate(over="ignore", invalid="ignore"):  # what comes of an overflow is found out below
            combined, metrics = self.base.aggregate_train(server_round, self.going.usable())
        if combined is not None and not finite(combined):
            name = type(self.base).__name__
            LOG.warning("Round %d: what %s made of finite updates holds NaN or infinity", server_round, name)
            own.put_back(self.base, before)
            combined = None
        return combined, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Let the base strategy evaluate on as many nodes as it wants, drawn uniformly from the run's seed."""
        nodes = list(self.members.roster.present().values())
        count = own.wanted(self.base, "evaluate", len(nodes))
        if count == 0:
            return []
        drawn = stream(self.seed, "evaluate", server_round).permutation(len(nodes))[:count]
        view = SomeNodes(grid, [nodes[position] for position in drawn])
        with own.everybody(self.base):
            messages = list(self.base.configure_evaluate(server_round, arrays, config, view))
        self._evaluating = [with_lifetime(message, message.content, self.patience) for message in messages]
        return self._evaluating

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Let the base strategy average the evaluations that can be used."""
        kept = usable_evaluations(self.members, self._evaluating, replies, own.weighted_by(self.base))
        return self.base.aggregate_evaluate(server_round, kept) if kept else None

    def summary(self) -> None:
        """Log what was set."""
        LOG.info("Selection: %s, seed %d; matching: %s", self.algorithm, self.seed, self._about["matching"])
        LOG.info("Store: %s; combining: %s", self.store or "none", type(self.base).__name__)
        self.base.summary()

    def _note_empty(self, number: int) -> None:
        """One round in which nobody helps is bad luck; a first one, or several in a row, is a federation that fails."""
        self._empty += 1
        told = f"round {number}: no client's answer can be used ({self.going.reasons()})"
        if number == 1 or self._empty == EMPTY_ROUNDS:
            raise FederationError(told)
        LOG.error("%s%s", told[0].upper(), told[1:])

    def _cohort_size(self) -> int:
        """How many clients to choose of those that can be reached."""
        present = len(self.members.roster.present())
        if self.cohort is not None:
            return self.cohort if isinstance(self.cohort, int) else max(1, int(self.cohort * present))
        size = own.wanted(self.base, "train", present)
        if not size:
            raise SettingsError(f"{type(self.base).__name__} does not say how many nodes train: pass cohort=")
        return size

    def _facts(self) -> dict[str, Any]:
        """What the store says of the run, in the words of a simulator run."""
        about, name = self._about, self.algorithm.name
        plan = {
            "name": about["name"],
            "algorithm": name,
            "algorithms": {name: _parameters(self.algorithm)},
            "seed": self.seed,
            "federation": {"goal": about["goal"], "matching": about["matching"], "cohort": self.cohort},
        }
        return {
            "plan": plan,
            "aggregation": type(self.base).__name__,
            "base": own.settings(self.base),
            "engine": "flower",
        }


def _algorithm(algorithm: str | Algorithm, alpha: float | str | None) -> Algorithm:
    if isinstance(algorithm, str):
        return registry.create(algorithm, {} if alpha is None else {"alpha": alpha})
    if alpha is not None:
        raise SettingsError("pass alpha= or an algorithm object, which has its own, not both")
    return algorithm


def _parameters(algorithm: Algorithm) -> dict[str, Any]:
    return asdict(algorithm) if is_dataclass(algorithm) else {}


def _checked_cohort(cohort: float | None) -> float | None:
    if cohort is None or (cohort >= 1 if isinstance(cohort, int) else 0 < cohort < 1):
        return cohort
    raise SettingsError(f"cohort is {cohort!r}: give a number of clients (1, 2, ...) or a share (between 0 and 1)")


def _baseline_maker(baseline: Baseline | None) -> tuple[BaselineMaker | None, str]:
    """How to profile the server's own data, and at which layer ("": the model's default, or the function's affair)."""
    if baseline is None or callable(baseline):
        return baseline, ""
    if len(baseline) not in {2, 3}:
        raise SettingsError(f"baseline has {len(baseline)} parts: give (model, loader) or (model, loader, layer)")
    from fedprof.core.capture import default_layer, profile
    from fedprof.flower.arrays import load

    model, data, *named = baseline
    own_copy, layer = copy.deepcopy(model), named[0] if named else default_layer(model)

    def make(arrays: ArrayRecord, version: int) -> Profile:
        load(own_copy, arrays)
        return profile(own_copy, data, layer, version=version)

    return make, layer
