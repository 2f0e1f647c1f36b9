"""The native engine: whole clients' training as compiled tasks on threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

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

_CHUNK = 2048
"""Validation samples a task: fixed, so that sums are the same at any number of workers."""
_EVALUATION_WIDTH = 64
_AVX512, _LARGE = 16, 2_000_000
"""Floats in the widest vectors; weights of a dense layer that without those is left to PyTorch."""


def supports(workload: Workload) -> str | None:
    """Say why the native engine cannot run a workload; ``None`` if it can."""
    try:
        read_network(workload)
    except UnsupportedError as reason:
        return str(reason)
    return None


def slower(workload: Workload) -> str | None:
    """Say why PyTorch trains this workload as fast or faster, as measured (``benchmarks/micro.py sweep avx2``)."""
    layers = read_network(workload).layers
    largest = max((prod(one.source) * one.shape[0] for one in layers if one.kind == records.DENSE), default=0)
    if widest() == _AVX512 or largest < _LARGE:
        return None
    return f"without AVX-512, PyTorch is as quick for a dense layer of {largest:,} weights"


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
        lanes, sizes = lanes_for(recipe.batch), self._work.clients.sizes
        bench = self._last = self._bench(lanes, piece_width(self._network, recipe.batch, lanes))
        packed = self._packing.pack(weights)
        bench.begin_training(packed, self._clients, recipe)

        def work(worker: int, client: int) -> Update:
            trained, loss = bench.train(worker, self._order(client, round, recipe.epochs), int(sizes[client]))
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
        total = len(self._work.validation)
        outputs = np.empty((total, self._network.outputs), np.float32)
        rows = np.arange(total)
        bench = self._looker()
        in_pass = version is not None and self._closed_form is None
        bench.begin_looking(self._packing.pack(weights), self._validation, profile=in_pass, outputs=True)

        def work(worker: int, start: int) -> tuple[float, Moments]:
            part = slice(start, min(start + _CHUNK, total))
            return bench.look(worker, rows[part], outputs[part])

        parts = self._crew.run(work, range(0, total, _CHUNK))
        accuracy = float(np.mean(self._work.metric(outputs, self._work.validation.targets())))
        loss = sum(loss for loss, _ in parts) / total
        return Evaluation(accuracy, loss, None if version is None else self._baseline(weights, parts, version))

    def profiles(self, weights: Vector, clients: Sequence[int], version: int) -> list[Profile]:
        """Profile clients' data under ``weights``."""
        sizes = self._work.clients.sizes
        if empty := [client for client in clients if not sizes[client]]:
            raise DataError(f"client {empty[0]} holds no sample to profile")
        if self._closed_form is not None:
            return self._closed_form.clients(weights, clients, version)
        bench = self._looker()
        bench.begin_looking(self._packing.pack(weights), self._clients, profile=True, outputs=False)

        def work(worker: int, client: int) -> Profile:
            return bench.look(worker, self._rows(client))[1].to_profile(version)

        return self._crew.run(work, clients)

    def last_gradient(self) -> Vector:
        """The gradient of the last batch the first worker trained on, flat like the weights; for tests."""
        return self._last.gradient(0)[self._packing.index]

    def close(self) -> None:
        """End the threads and free the memory."""
        self._crew.close()
        self._benches.clear()

    def _baseline(self, weights: Vector, parts: Sequence[tuple[float, Moments]], version: int) -> Profile:
        if self._closed_form is not None:
            return self._closed_form.validation(weights, version)
        total = Moments(self._network.layers[self._network.profiled].shape[0])
        for _, moments in parts:
            total.merge(moments)
        return total.to_profile(version)

    def _looker(self) -> Workbench:
        return self._bench(widest(), piece_width(self._network, _EVALUATION_WIDTH, widest()))

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

    def _order(self, client: int, round: int, epochs: int) -> NDArray[np.int64]:
        """Rows of the pool in the order a client visits them, epoch after epoch."""
        rows = self._rows(client)
        if not len(rows):
            raise DataError(f"client {client} holds no sample to train on")
        shuffle = stream(self._work.seed, "shuffle", round, client)
        return np.concatenate([rows[shuffle.permutation(len(rows))] for _ in range(epochs)])
