"""What one process does of a torch engine's work: train a client, evaluate a chunk, profile a client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedprof.core.fusion import fused
from fedprof.core.profile import Moments, Profile
from fedprof.errors import DataError, LayerError, SettingsError
from fedprof.randomness import integer_seed, stream
from fedprof.training.engine import Loss, Recipe, Update, Vector, Workload
from fedprof.training.torch_flat import Descent, FlatModel

if TYPE_CHECKING:
    from fedprof.data.clients import Samples

LOSSES: dict[str, Loss] = {"mse": functional.mse_loss, "nll": functional.nll_loss, "ce": functional.cross_entropy}
_NORMALISATION = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d


@dataclass
class Tally:
    """Sums over some validation samples."""

    count: int = 0
    accuracy: float = 0.0
    loss: float = 0.0
    moments: Moments | None = None

    def add(self, other: Tally) -> None:
        """Count more samples in."""
        self.count += other.count
        self.accuracy += other.accuracy
        self.loss += other.loss
        if self.moments is None:
            self.moments = other.moments
        elif other.moments is not None:
            self.moments.merge(other.moments)


class Trainer:
    """One copy of the workload's model, and the work of an engine done one client or one chunk at a time."""

    def __init__(self, workload: Workload, device: str = "cpu", channels_last: bool = False) -> None:
        self._work = workload
        self._device = torch.device(device)
        self._model = FlatModel(workload.model, self._device, channels_last)
        self._module = self._model.module
        self._layer = self._module.get_submodule(workload.layer)
        self._loss = loss_function(workload.loss)
        self._smallest = 2 if any(isinstance(part, _NORMALISATION) for part in self._module.modules()) else 1

    def load(self, weights: Vector) -> None:
        """Receive the global weights."""
        self._model.load(weights)

    def train(self, round: int, client: int, recipe: Recipe, profile: bool) -> Update:
        """Train a client from the weights received.

        A batch of a single sample is left out if the model has batch normalisation, which cannot train on it.
        """
        made = self.moments(client).to_profile(round - 1) if profile else None
        with self._private_randomness("dropout", round, client):
            loss = self._descend(client, recipe, stream(self._work.seed, "shuffle", round, client))
        return Update(client, self._model.weights(), loss, made)

    @torch.no_grad()
    def evaluate(self, rows: slice, profile: bool) -> Tally:
        """Evaluate the weights received on some rows of the validation set."""
        self._prepare(training=False)
        tally = Tally()
        with self._private_randomness("evaluation", 0, rows.start), self._watched(profile) as seen:
            outputs: list[torch.Tensor] = []
            for x in self._batches(self._work.validation, rows):
                outputs.append(self._module(x))
                if profile:
                    tally.moments = self._gathered(seen, tally.moments)
            tally.add(self._judge(torch.cat(outputs), self._work.validation.targets(rows)))
        return tally

    @torch.no_grad()
    def moments(self, client: int) -> Moments:
        """Gather the moments of a client's representations under the weights received."""
        self._prepare(training=False)
        found: Moments | None = None
        with self._private_randomness("evaluation", 0, client), self._watched(stop=True) as seen:
            for x in self._batches(self._work.clients.pool, self._work.clients.rows_of(client)):
                with suppress(_ReachedError):
                    self._module(x)
                found = self._gathered(seen, found)
        if found is None:
            raise DataError(f"client {client} holds no sample to profile")
        return found

    def profile(self, client: int, version: int) -> Profile:
        """Profile a client's data under the weights received."""
        return self.moments(client).to_profile(version)

    def _prepare(self, training: bool) -> None:
        self._model.reset()
        self._module.train(training)

    def _descend(self, client: int, recipe: Recipe, shuffle: np.random.Generator) -> float:
        self._prepare(training=True)
        if recipe.batch < self._smallest:
            raise SettingsError(f"a model with batch normalisation cannot train on batches of {recipe.batch}")
        x, y = map(self._tensor, self._work.clients.samples(client))
        if len(y) < self._smallest:
            held = "1 sample" if len(y) == 1 else f"{len(y)} samples"
            raise DataError(f"client {client} holds {held}; to train this model takes at least {self._smallest}")
        descent = Descent(self._model, recipe)
        first: list[tuple[torch.Tensor, int]] = []
        for epoch in range(recipe.epochs):
            order = torch.from_numpy(shuffle.permutation(len(y))).to(self._device)
            batches = torch.split(x[order], recipe.batch), torch.split(y[order], recipe.batch)
            for inputs, targets in zip(*batches, strict=True):
                if len(targets) < self._smallest:
                    continue
                loss = self._loss(self._module(self._laid_out(inputs)), targets)
                descent.step(loss)
                if epoch == 0:
                    first.append((loss.detach(), len(targets)))
        return float(np.average([float(loss) for loss, _ in first], weights=[size for _, size in first]))

    def _judge(self, outputs: torch.Tensor, targets: np.ndarray[Any, Any]) -> Tally:
        accuracy = self._work.metric(outputs.cpu().numpy(), targets)
        loss = self._loss(outputs, self._tensor(targets))
        return Tally(len(targets), float(accuracy.sum()), float(loss) * len(targets))

    def _batches(self, samples: Samples, rows: slice | np.ndarray[Any, Any]) -> Iterator[torch.Tensor]:
        x = self._tensor(samples.standardised(rows))
        for start in range(0, len(x), self._work.evaluation_batch):
            yield self._laid_out(x[start : start + self._work.evaluation_batch])

    def _tensor(self, array: np.ndarray[Any, Any]) -> torch.Tensor:
        # Arrays mapped from files are read-only, which PyTorch does not know.
        return torch.from_numpy(np.require(array, requirements="W")).to(self._device)

    def _laid_out(self, x: torch.Tensor) -> torch.Tensor:
        if self._model.channels_last and x.dim() == 4:
            return x.contiguous(memory_format=torch.channels_last)
        return x

    @contextmanager
    def _watched(self, wanted: bool = True, *, stop: bool = False) -> Iterator[list[torch.Tensor]]:
        """Collect the profiled layer's fused outputs, if wanted; with ``stop``, run the model no further than that."""
        seen: list[torch.Tensor] = []
        if not wanted:
            yield seen
            return

        def look(module: nn.Module, _inputs: object, output: Any) -> None:
            seen.append(fused(output, module))
            if stop:
                raise _ReachedError

        handle = self._layer.register_forward_hook(look)
        try:
            yield seen
        finally:
            handle.remove()

    def _gathered(self, seen: list[torch.Tensor], moments: Moments | None) -> Moments:
        if len(seen) != 1:
            times = "more than once" if seen else "never"
            raise LayerError(f"layer {self._work.layer!r} ran {times} in a forward pass: name one that runs once")
        rows = seen.pop().cpu().numpy()
        moments = moments or Moments(rows.shape[1])
        moments.update(rows)
        return moments

    @contextmanager
    def _private_randomness(self, purpose: str, round: int, client: int) -> Iterator[None]:
        """Seed PyTorch's generators (dropout uses them), and put them back."""
        cuda = [self._device] if self._device.type == "cuda" else []
        seed = integer_seed(self._work.seed, purpose, round, client)
        with torch.random.fork_rng(devices=cuda):
            torch.default_generator.manual_seed(seed)
            if cuda:
                torch.cuda.manual_seed(seed)
            yield


class _ReachedError(Exception):
    """The profiled layer has run: the rest of the forward pass is not needed."""


def loss_function(loss: str | Loss) -> Loss:
    """Find a loss by its name; a function is its own."""
    if callable(loss):
        return loss
    if loss not in LOSSES:
        raise SettingsError(
            f"unknown loss {loss!r}; there are {', '.join(LOSSES)}, or a function of (outputs, targets)"
        )
    return LOSSES[loss]
