"""The engine for any ``nn.Module``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from fedprof.core.profile import Profile
from fedprof.training.engine import Evaluation, Recipe, Update, Vector, Workload
from fedprof.training.torch_trainer import Tally, Trainer

_CHUNK = 1024
"""Validation samples a piece of work has, at least: fixed, so that sums are the same at any number of workers."""


class TorchEngine:
    name = "torch"

    def __init__(
        self, workload: Workload, workers: int = 1, device: str = "cpu", channels_last: bool | None = None
    ) -> None:
        self._work = workload
        self._trainer = Trainer(workload, device, bool(channels_last))

    def train(
        self, weights: Vector, round: int, clients: Sequence[int], recipe: Recipe, *, profile: bool = False
    ) -> list[Update]:  # noqa: A002
        with single_thread():
            self._trainer.load(weights)
            return [self._trainer.train(round, client, recipe, profile) for client in clients]

    def evaluate(self, weights: Vector, *, version: int | None = None) -> Evaluation:
        total = Tally()
        with single_thread():
            self._trainer.load(weights)
            for rows in self._chunks():
                total.add(self._trainer.evaluate(rows, version is not None))
        baseline = None if version is None or total.moments is None else total.moments.to_profile(version)
        return Evaluation(total.accuracy / total.count, total.loss / total.count, baseline)

    def profiles(self, weights: Vector, clients: Sequence[int], version: int) -> list[Profile]:
        with single_thread():
            self._trainer.load(weights)
            return [self._trainer.profile(client, version) for client in clients]

    def close(self) -> None:
        pass

    def _chunks(self) -> list[slice]:
        size = -(-_CHUNK // self._work.evaluation_batch) * self._work.evaluation_batch
        total = len(self._work.validation)
        return [slice(start, min(start + size, total)) for start in range(0, total, size)]


@contextmanager
def single_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
