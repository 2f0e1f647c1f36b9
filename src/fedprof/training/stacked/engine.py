"""The engine that trains a cohort as one stacked model: for accelerators, where one small model leaves most idle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from fedprof.core.profile import Moments, Profile
from fedprof.errors import SettingsError
from fedprof.randomness import stream
from fedprof.training.engine import Evaluation, Recipe, Update, Vector, Workload
from fedprof.training.stacked.stack import LOSSES, Pool, Shape, Stack, Tally, Trainer

PASS_BATCH = 512
"""Samples of each model in one pass without gradients."""


@dataclass(frozen=True)
class TrainRequest:
    """One client's training."""

    source: int
    """Which workload."""
    weights: Vector
    round: int
    client: int
    recipe: Recipe


@dataclass(frozen=True)
class PassRequest:
    """One model over some rows of a pool: a client's data, or (client None) the validation set."""

    source: int
    weights: Vector
    client: int | None


@dataclass(frozen=True)
class Passed:
    """What a pass gives."""

    outputs: NDArray[np.float32]
    moments: Moments


class Stacker:
    """Serves requests of one or many workloads that share an architecture, stacking those of one shape."""

    def __init__(self, workloads: Sequence[Workload], device: str = "cpu") -> None:
        self.workloads, self.device = list(workloads), torch.device(device)
        first = self.workloads[0]
        if first.loss not in LOSSES:
            raise SettingsError(f"the stacked engine trains with {' or '.join(LOSSES)}, not {first.loss}")
        clients = [one.clients for one in self.workloads]
        self.offsets = np.cumsum([0, *(len(one.pool) for one in clients)])
        x, y = (np.concatenate([getattr(one.pool, part) for one in clients]) for part in ("x", "y"))
        self.pool = Pool(x, y.astype(np.int64), clients[0].pool.shift, clients[0].pool.scale, self.device)
        held = first.validation
        self.validation = Pool(held.x, np.asarray(held.y, np.int64), held.shift, held.scale, self.device)
        self._stacks: dict[int, Stack] = {}
        self._trainers: dict[Shape, Trainer] = {}

    def train(self, requests: Sequence[TrainRequest]) -> list[Update]:
        """Train everybody; clients with equally many samples and like recipes go together."""
        groups: dict[object, list[int]] = defaultdict(list)
        for place, one in enumerate(requests):
            how = one.recipe
            alike = (how.epochs, how.batch, how.rate, how.momentum, how.weight_decay)
            groups[len(self._rows(one.source, one.client)), *alike].append(place)
        updates: dict[int, Update] = {}
        for places in groups.values():
            updates |= dict(zip(places, self._train([requests[place] for place in places]), strict=True))
        return [updates[place] for place in range(len(requests))]

    def passes(self, requests: Sequence[PassRequest]) -> list[Passed]:
        """Pass everybody's rows through everybody's model."""
        groups: dict[tuple[bool, int], list[int]] = defaultdict(list)
        for place, one in enumerate(requests):
            held = one.client is None
            groups[held, 0 if held else len(self._rows(one.source, one.client or 0))].append(place)
        results: dict[int, Passed] = {}
        for (held, _), places in groups.items():
            chosen = [requests[place] for place in places]
            results |= dict(zip(places, self._passes(chosen, held), strict=True))
        return [results[place] for place in range(len(requests))]

    def leave(self) -> None:
        """Nothing to do: a stacker holds no other run up."""

    def _rows(self, source: int, client: int) -> NDArray[np.int64]:
        clients = self.workloads[source].clients
        rows = clients.rows_of(client)
        chosen = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else np.asarray(rows)
        return np.asarray(chosen + self.offsets[source], dtype=np.int64)

    def _train(self, requests: list[TrainRequest]) -> list[Update]:
        recipe = requests[0].recipe
        orders = np.stack([self._order(one) for one in requests])
        pulls = np.array([one.recipe.proximal for one in requests], np.float32)
        trainer = self._trainer(Shape.of(orders.shape[2], recipe, pulls))
        weights, losses = trainer.train(np.stack([one.weights for one in requests]), orders, recipe.rate, pulls)
        return [Update(one.client, weights[place].copy(), float(losses[place])) for place, one in enumerate(requests)]

    def _order(self, one: TrainRequest) -> NDArray[np.int64]:
        rows = self._rows(one.source, one.client)
        rng = stream(self.workloads[one.source].seed, "shuffle", one.round, one.client)
        return np.stack([rows[rng.permutation(len(rows))] for _ in range(one.recipe.epochs)])

    def _passes(self, requests: list[PassRequest], held: bool) -> list[Passed]:
        pool = self.validation if held else self.pool
        rows = (
            np.tile(np.arange(len(pool.y)), (len(requests), 1))
            if held
            else np.stack([self._rows(one.source, one.client or 0) for one in requests])
        )
        stacked = self._stack(len(requests))
        stacked.load(np.stack([one.weights for one in requests]))
        outputs, tally = [], Tally()
        for out, representations in stacked.outputs(pool, rows, PASS_BATCH):
            outputs.append(out.float())
            tally.update(representations)
        joined = torch.cat(outputs, dim=1).cpu().numpy()
        return [Passed(one, moments) for one, moments in zip(joined, tally.moments(), strict=True)]

    def _stack(self, models: int) -> Stack:
        if models not in self._stacks:
            one = self.workloads[0]
            self._stacks[models] = Stack(one.model, one.layer, models, self.device)
        return self._stacks[models]

    def _trainer(self, shape: Shape) -> Trainer:
        if shape not in self._trainers:
            self._trainers.clear()
            one = self.workloads[0]
            own = Stack(one.model, one.layer, shape.models, self.device)
            self._trainers[shape] = Trainer(own, self.pool, shape, str(one.loss))
        return self._trainers[shape]


class Server(Protocol):
    """What serves a stacked engine's requests: a stacker alone, or one that several runs share."""

    def train(self, requests: Sequence[TrainRequest]) -> list[Update]:
        """Train."""
        ...

    def passes(self, requests: Sequence[PassRequest]) -> list[Passed]:
        """Pass without gradients."""
        ...

    def leave(self) -> None:
        """Ask for nothing more."""
        ...


class StackedEngine:
    """One run's engine over a stacker, which may serve other runs too."""

    name = "stacked"

    def __init__(self, workload: Workload, serve: Server, source: int = 0) -> None:
        self.workload, self.serve, self.source = workload, serve, source
        self._left = False

    def train(
        self, weights: Vector, round: int, clients: Sequence[int], recipe: Recipe, *, profile: bool = False
    ) -> list[Update]:
        """Train the cohort in one go; profiles are made of the received weights before."""
        profiles = self.profiles(weights, clients, round - 1) if profile else [None] * len(clients)
        updates = self.serve.train([TrainRequest(self.source, weights, round, k, recipe) for k in clients])
        return [
            Update(update.client, update.weights, update.loss, made)
            for update, made in zip(updates, profiles, strict=True)
        ]

    def evaluate(self, weights: Vector, *, version: int | None = None) -> Evaluation:
        """Evaluate on the validation set."""
        held = self.workload.validation
        (passed,) = self.serve.passes([PassRequest(self.source, weights, None)])
        accuracy = float(self.workload.metric(passed.outputs, held.targets()).mean())
        targets, outputs = torch.tensor(np.array(held.y, np.int64)), torch.tensor(passed.outputs).double()
        loss = float(LOSSES[str(self.workload.loss)](outputs, targets))
        return Evaluation(accuracy, loss, None if version is None else passed.moments.to_profile(version))

    def profiles(self, weights: Vector, clients: Sequence[int], version: int) -> list[Profile]:
        """Profile clients' data under ``weights``."""
        passes = self.serve.passes([PassRequest(self.source, weights, client) for client in clients])
        return [passed.moments.to_profile(version) for passed in passes]

    def close(self) -> None:
        """Tell the server, once, that this run asks for nothing more."""
        if not self._left:
            self._left = True
            self.serve.leave()
