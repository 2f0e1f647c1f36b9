"""The engine for any ``nn.Module``: one thread a client, in this process or in worker processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn

from fedprof.errors import LayerError, SettingsError
from fedprof.training.engine import Evaluation, Recipe, Update, Vector, Workload
from fedprof.training.torch_crew import Crew, Here, Job, Processes
from fedprof.training.torch_trainer import Tally, loss_function

if TYPE_CHECKING:
    from fedprof.core.profile import Profile

_CHUNK, _FEWEST = 1024, 8
"""Validation samples in a job, and jobs where there are fewer of them; whatever is left over fills its last batch."""


class TorchEngine:
    """Trains with PyTorch; see ``Engine`` for what its methods promise.

    ``workers`` processes train and evaluate in parallel (1: this process does). ``channels_last`` is PyTorch's memory
    format for images; by default it is used where it was measured to help, in models with depthwise convolutions.
    On another device than the CPU all work is done in this process.
    """

    def __init__(
        self, workload: Workload, workers: int = 1, device: str = "cpu", channels_last: bool | None = None
    ) -> None:
        _check(workload, workers, device)
        self.name = "torch" if device == "cpu" else f"torch ({torch.device(device).type})"
        self._work = workload
        if channels_last is None:
            channels_last = _has_depthwise_convolution(workload.model)
        self._crew: Crew = (
            Here(workload, device, channels_last) if workers == 1 else Processes(workload, workers, channels_last)
        )

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
        sizes = self._work.clients.sizes
        return self._crew.run(
            weights,
            [
                Job("train", (round, client, recipe, profile), f"training client {client}", int(sizes[client]))
                for client in clients
            ],
        )

    def evaluate(self, weights: Vector, *, version: int | None = None) -> Evaluation:
        """Evaluate on the validation set; with a ``version``, also make the baseline profile of that version."""
        profiled = version is not None
        jobs = [Job("evaluate", (rows, profiled), "evaluating", rows.stop - rows.start) for rows in self._chunks()]
        total = Tally()
        for tally in self._crew.run(weights, jobs):
            total.add(tally)
        baseline = total.moments.to_profile(version) if total.moments and version is not None else None
        return Evaluation(total.accuracy / total.count, total.loss / total.count, baseline)

    def profiles(self, weights: Vector, clients: Sequence[int], version: int) -> list[Profile]:
        """Profile clients' data under ``weights``."""
        sizes = self._work.clients.sizes
        return self._crew.run(
            weights,
            [Job("profile", (client, version), f"profiling client {client}", int(sizes[client])) for client in clients],
        )

    def close(self) -> None:
        """End the worker processes, if any."""
        self._crew.close()

    def _chunks(self) -> list[slice]:
        """Whole batches, the same whatever the number of workers, and enough of them for several."""
        batch, total = self._work.evaluation_batch, len(self._work.validation)
        size = -(-min(_CHUNK, -(-total // _FEWEST)) // batch) * batch
        return [slice(start, min(start + size, total)) for start in range(0, total, size)]


def _check(workload: Workload, workers: int, device: str) -> None:
    if workers < 1:
        raise SettingsError(f"workers is {workers}; it takes at least one")
    if workers > 1 and torch.device(device).type != "cpu":
        raise SettingsError(f"{workers} workers on {device}: several workers share the CPU; a device takes one")
    if not len(workload.validation):
        raise SettingsError("the validation set is empty: there is nothing to evaluate the model on")
    if workload.layer not in dict(workload.model.named_modules()):
        raise LayerError(f"{type(workload.model).__name__} has no layer {workload.layer!r} to profile")
    loss_function(workload.loss)


def _has_depthwise_convolution(model: nn.Module) -> bool:
    return any(isinstance(part, nn.Conv2d) and 1 < part.groups == part.in_channels for part in model.modules())
