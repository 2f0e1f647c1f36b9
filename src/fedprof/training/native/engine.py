"""The native engine: whole clients' training as compiled tasks on threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedprof.core.profile import Moments, Profile
from fedprof.errors import DataError, SettingsError
from fedprof.randomness import stream
from fedprof.training.engine import Evaluation, Recipe, Update, Vector, Workload
from fedprof.training.native import records
from fedprof.training.native.closed_form import ClosedForm
from fedprof.training.native.crew import Crew
from fedprof.training.native.layout import pack_weights, piece_width
from fedprof.training.native.machine import lanes_for, widest
from fedprof.training.native.plan import UnsupportedError, read_network
from fedprof.training.native.source import Source
from fedprof.training.native.worker import Workbench

_CHUNK = 1024
"""Validation samples a task: fixed, so that sums are the same at any number of workers."""
_EVALUATION_WIDTH = 64


def supports(workload: Workload) -> str | None:
    """Say why the native engine cannot run a workload; ``None`` if it can."""
    try:
        read_network(workload)
    except UnsupportedError as reason:
        return str(reason)
    return None


@dataclass(frozen=True)
class _Part:
    """What one chunk of samples gave."""

    loss: float
    moments: Moments | None


class NativeEngine:
    """Trains with compiled kernels; see ``Engine`` for what its methods promise.

    The kernels are compiled when first used (some ten seconds, once a machine); ``on_compile`` is told before.
    """

    name = "native"

    def __init__(self, workload: Workload, workers: int = 1, on_compile: Callable[[str], None] | None = None) -> None:
        if workers < 1:
            raise SettingsError(f"workers is {workers}; it takes at least one")
        try:
            self._network = read_network(workload)
        except UnsupportedError as reason:
            raise SettingsError(f"the native engine cannot run this model: {reason}; use the torch engine") from None
        if not len(workload.validation):
            raise DataError("the validation set is empty: there is nothing to evaluate the model on")
        self._work = workload
        self._crew = Crew(workers)
        self._packing = pack_weights(self._network)
        self._clients = Source.of(workload.clients.pool, self._network, "a client")
        self._validation = Source.of(workload.validation, self._network, "the validation set")
        self._benches: dict[tuple[int, int], Workbench] = {}
        self._closed_form = ClosedForm.of(workload, self._network)
        self._on_compile = on_compile

    def train(
        self,
        weights: Vector,
        round: int,
        clients: Sequence[int],
        recipe: Recipe,
        *,
        profile: bool = False,
    ) -> list[Update]:
        """Train each client from ``weights``."""
        packed = self._packing.pack(weights)
        lanes = lanes_for(recipe.batch)
        bench = self._bench(lanes, piece_width(self._network, recipe.batch, lanes))
        self._last, sizes = bench, self._work.clients.sizes

        def work(worker: int, client: int) -> Update:
            order = self._order(client, round, recipe.epochs)
            trained, loss = bench.train(worker, packed, self._clients, order, int(sizes[client]), recipe)
            return Update(client, trained[self._packing.index], loss)

        longest_first = sorted(clients, key=lambda client: -sizes[client])
        updates = {update.client: update for update in self._crew.run(work, longest_first)}
        profiles = self.profiles(weights, clients, round - 1) if profile else [None] * len(clients)
        return [
            Update(client, updates[client].weights, updates[client].loss, made)
            for client, made in zip(clients, profiles, strict=True)
        ]

    def evaluate(self, weights: Vector, *, version: int | None = None) -> Evaluation:
        """Evaluate on the validation set; with a ``version``, also make the baseline profile of that version."""
        packed = self._packing.pack(weights)
        bench = self._bench(widest(), piece_width(self._network, _EVALUATION_WIDTH, widest()))
        total = len(self._work.validation)
        outputs = np.empty((total, self._network.outputs), np.float32)
        in_pass = version is not None and self._closed_form is None
        rows = np.arange(total)

        def work(worker: int, start: int) -> _Part:
            part = slice(start, min(start + _CHUNK, total))
            loss, moments = bench.look(worker, packed, self._validation, rows[part], outputs[part], profile=in_pass)
            return _Part(loss, moments)

        parts = self._crew.run(work, range(0, total, _CHUNK))
        accuracy = float(np.mean(self._work.metric(outputs, self._work.validation.targets())))
        loss = sum(part.loss for part in parts) / total
        return Evaluation(accuracy, loss, None if version is None else self._baseline(weights, parts, version))

    def profiles(self, weights: Vector, clients: Sequence[int], version: int) -> list[Profile]:
        """Profile clients' data under ``weights``."""
        if self._closed_form is not None:
            return [self._closed_form.client(weights, client, version) for client in clients]
        packed = self._packing.pack(weights)
        bench = self._bench(widest(), piece_width(self._network, _EVALUATION_WIDTH, widest()))

        def work(worker: int, client: int) -> Profile:
            rows = self._rows(client)
            _, moments = bench.look(worker, packed, self._clients, rows, None, profile=True)
            return moments.to_profile(version)

        return self._crew.run(work, clients)

    def last_gradient(self) -> Vector:
        """The gradient of the last batch the first worker trained on, flat like the weights; for tests."""
        return self._last.gradient(0)[self._packing.index]

    def close(self) -> None:
        """End the threads and free the memory."""
        self._crew.close()
        self._benches.clear()

    def _baseline(self, weights: Vector, parts: Sequence[_Part], version: int) -> Profile:
        if self._closed_form is not None:
            return self._closed_form.validation(weights, version)
        moments = Moments(self._network.layers[self._network.profiled].shape[0])
        for part in parts:
            assert part.moments is not None
            moments.merge(part.moments)
        return moments.to_profile(version)

    def _bench(self, lanes: int, width: int) -> Workbench:
        if (lanes, width) not in self._benches:
            self._benches[lanes, width] = Workbench(
                self._network, self._packing, lanes, width, self._crew.workers, self._on_compile
            )
        return self._benches[lanes, width]

    def _rows(self, client: int) -> NDArray[np.int64]:
        rows = self._work.clients.rows_of(client)
        if isinstance(rows, slice):
            return np.arange(rows.start, rows.stop)
        return np.asarray(rows, np.int64)

    def _order(self, client: int, round: int, epochs: int) -> NDArray[np.int64]:  # noqa: A002 - the paper's word
        """Rows of the pool in the order a client visits them, epoch after epoch."""
        rows = self._rows(client)
        if not len(rows):
            raise DataError(f"client {client} holds no sample to train on")
        shuffle = stream(self._work.seed, "shuffle", round, client)
        return np.concatenate([rows[shuffle.permutation(len(rows))] for _ in range(epochs)])
