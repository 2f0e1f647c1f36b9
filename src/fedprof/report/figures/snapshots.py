"""A model trained in one place, with its representations taken along the way; weights are kept for the next drawing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedprof.data.build import standardisation
from fedprof.data.clients import ClientData, Samples
from fedprof.data.sources import Raw
from fedprof.models import registry
from fedprof.randomness import stream
from fedprof.report.figures.normality import Representations
from fedprof.report.files import write

if TYPE_CHECKING:
    from torch import nn

    from fedprof.training.engine import Vector, Workload

MOST_SAMPLES = 2000
"""Validation samples whose representations are drawn."""


@dataclass(frozen=True)
class Lesson:
    """A model and how it is trained."""

    model: str
    source: str
    loss: str
    layers: Sequence[str]
    epochs: Sequence[int]
    """After which of them representations are taken."""
    samples: int | None = None
    """Training samples; None: all."""
    batch: int = 64
    rate: float = 0.01
    momentum: float = 0.9
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the model."""

    @property
    def title(self) -> str:
        """Says what was trained on what."""
        many = "" if self.samples is None else f", {self.samples:,} training images"
        return f"{self.model} on {self.source}{many}: histograms over the validation set, and normal laws"

    def name(self, epoch: int) -> str:
        """Names its weights after an epoch."""
        return f"{self.model}-{self.source}-{self.samples or 'all'}-s{self.seed}-epoch{epoch}"


FULLY_CONNECTED = Lesson("lenet5", "mnist", "nll", ("fc1",), (1, 6, 10))
CONVOLUTIONAL = Lesson("resnet18-cifar", "cifar10", "ce", ("layer1.0.conv2", "layer2.1"), (1,), samples=5000)
"""One epoch of a tenth of the data takes minutes on a CPU; the paper has 100 epochs of CIFAR-100."""


def representations(
    lesson: Lesson, raw: Raw, folder: Path, engine: str, say: Callable[[str], None]
) -> list[Representations]:
    """Train as far as nothing is stored, and take what each layer makes of the validation set."""
    work = _workload(lesson, raw)
    x = work.validation.standardised(slice(0, MOST_SAMPLES))
    found = []
    for epoch, weights in _weights(lesson, work, folder, engine, say):
        for layer in lesson.layers:
            title = f"{layer}, epoch {epoch}"
            found.append(Representations(title, fused_outputs(work.model, weights, layer, x)))
    return found


def _weights(
    lesson: Lesson, work: Workload, folder: Path, engine: str, say: Callable[[str], None]
) -> Iterator[tuple[int, Vector]]:
    from fedprof.models.weights import flatten
    from fedprof.training.choose import make_engine
    from fedprof.training.engine import Recipe

    stored = {epoch: path for epoch in lesson.epochs if (path := _path(folder, lesson, epoch)).exists()}
    if len(stored) == len(lesson.epochs):
        yield from ((epoch, _read(path)) for epoch, path in stored.items())
        return
    weights, trainer = flatten(work.model), make_engine(work, engine, 1, say=say)
    recipe = Recipe(1, lesson.batch, lesson.rate, lesson.momentum)
    try:
        for epoch in range(1, max(lesson.epochs) + 1):
            (update,) = trainer.train(weights, epoch, [0], recipe)
            weights = update.weights
            say(f"epoch {epoch}/{max(lesson.epochs)}: training loss {update.loss:.3f}")
            if epoch in lesson.epochs:
                _save(_path(folder, lesson, epoch), weights)
                yield epoch, weights
    finally:
        trainer.close()


def _workload(lesson: Lesson, raw: Raw) -> Workload:
    """All training data on a single client."""
    from fedprof.training.engine import Workload
    from fedprof.training.metrics import classification

    rows = np.arange(len(raw.train_y))
    if lesson.samples is not None:
        rows = np.sort(stream(lesson.seed, "figure-training").permutation(rows)[: lesson.samples])
    shift, scale = standardisation(raw.train_x)
    pool = Samples(raw.train_x[rows], raw.train_y[rows], shift, scale)
    clients = ClientData(pool, np.array([0, len(pool)]))
    validation = Samples(raw.test_x, raw.test_y, shift, scale)
    model = registry.create(lesson.model, lesson.seed, **lesson.options)
    return Workload(model, lesson.layers[0], clients, validation, lesson.loss, classification, lesson.seed)


def fused_outputs(model: nn.Module, weights: Vector, layer: str, x: NDArray[np.float32]) -> NDArray[np.float64]:
    """What a layer makes of samples, fused as a profile fuses it; one row a sample."""
    import copy

    import torch

    from fedprof.core.fusion import fused
    from fedprof.models.weights import load as load_weights

    twin = copy.deepcopy(model)
    load_weights(twin, weights)
    twin.eval()
    taken: list[NDArray[np.float64]] = []
    watched = twin.get_submodule(layer)
    watched.register_forward_hook(lambda module, _inputs, output: taken.append(fused(output, module).numpy()))
    with torch.inference_mode():
        for start in range(0, len(x), 100):
            twin(torch.from_numpy(x[start : start + 100]))
    return np.concatenate(taken).astype(np.float64)


def _path(folder: Path, lesson: Lesson, epoch: int) -> Path:
    return folder / f"{lesson.name(epoch)}.safetensors"


def _save(path: Path, weights: Vector) -> None:
    from safetensors.numpy import save_file

    write(path, lambda temporary: save_file({"weights": weights}, temporary))


def _read(path: Path) -> Vector:
    from safetensors.numpy import load_file

    weights: Vector = load_file(path)["weights"]
    return weights
