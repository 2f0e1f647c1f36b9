"""Time the native engine against a plain PyTorch loop, interleaved: whole rounds with evaluation.

The loop is what a careful user writes: one model reused, flat parameters and gradients, data gathered and standardised
before the clock starts, one thread. Usage: ``python benchmarks/micro_native.py [w1] [w2] [sweep] [--repeats N]``.
"""

from __future__ import annotations

import argparse
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from fedprof.data.clients import ClientData, Samples
from fedprof.models.lenet import lenet5
from fedprof.randomness import stream
from fedprof.training.engine import Recipe, Workload
from fedprof.training.metrics import Regression, classification
from fedprof.training.native.engine import NativeEngine

PEAK = 64 * 2
"""Floating-point operations a cycle: two fused multiply-adds of 16 lanes on two cores."""


@dataclass(frozen=True)
class Case:
    """A workload, how clients train, and which of them."""

    name: str
    workload: Workload
    recipe: Recipe
    cohort: list[int]


def flat(model: nn.Module) -> np.ndarray:
    """All parameters as one vector."""
    return torch.cat([p.detach().flatten() for p in model.parameters()]).numpy().copy()


class PlainLoop:
    """The usual simulation loop."""

    def __init__(self, case: Case) -> None:
        self.case, work = case, case.workload
        self.model = work.model
        parameters = list(self.model.parameters())
        self.flat = torch.cat([p.detach().flatten() for p in parameters])
        self.gradient = torch.zeros_like(self.flat)
        at = 0
        for parameter in parameters:
            size = parameter.numel()
            parameter.data = self.flat[at : at + size].view_as(parameter)
            parameter.grad = self.gradient[at : at + size].view_as(parameter)
            at += size
        self.loss = {"mse": nn.functional.mse_loss, "nll": nn.functional.nll_loss}[work.loss]
        self.data = {k: tuple(map(torch.from_numpy, work.clients.samples(k))) for k in case.cohort}
        self.validation = torch.from_numpy(work.validation.standardised()), torch.from_numpy(work.validation.targets())

    def round(self, weights: np.ndarray, number: int) -> np.ndarray:
        """One round: train the cohort, average, evaluate."""
        received, total = torch.from_numpy(weights), torch.zeros_like(self.flat)
        for client in self.case.cohort:
            self.flat.copy_(received)
            self.train(client, number)
            total += self.flat
        self.flat.copy_(total / len(self.case.cohort))
        self.evaluate()
        return self.flat.numpy().copy()

    def train(self, client: int, number: int) -> None:
        """Train one client."""
        recipe, (x, y) = self.case.recipe, self.data[client]
        shuffle = stream(self.case.workload.seed, "shuffle", number, client)
        for _ in range(recipe.epochs):
            order = torch.from_numpy(shuffle.permutation(len(y)))
            for rows in order.split(recipe.batch):
                self.gradient.zero_()
                self.loss(self.model(x[rows]), y[rows]).backward()
                self.flat.add_(self.gradient, alpha=-recipe.rate)

    def evaluate(self) -> float:
        """Evaluate in batches of the size that is quickest here."""
        x, y = self.validation
        with torch.no_grad():
            outputs = torch.cat([self.model(part) for part in x.split(self.case.workload.evaluation_batch)])
        return float(self.case.workload.metric(outputs.numpy(), y.numpy()).mean())


def native_round(engine: NativeEngine, case: Case, weights: np.ndarray, number: int) -> np.ndarray:
    """The same round on the native engine, with profiles and baseline."""
    updates = engine.train(weights, number, case.cohort, case.recipe, profile=True)
    mean = np.mean([update.weights for update in updates], axis=0, dtype=np.float32)
    engine.evaluate(mean, version=number)
    return mean


def w1(batch: int = 8) -> Case:
    """GasTurbine: a small MLP."""
    rng = np.random.default_rng(0)
    sizes = np.maximum(rng.normal(514, 101, 50).astype(int), 8)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    x = rng.normal(size=(offsets[-1], 11)).astype(np.float32)
    y = rng.normal(size=(offsets[-1], 2)).astype(np.float32)
    validation = Samples(x[:11_000], y[:11_000])
    torch.manual_seed(0)
    layers = OrderedDict(fc1=nn.Linear(11, 64), r1=nn.ReLU(), fc2=nn.Linear(64, 32), r2=nn.ReLU(), out=nn.Linear(32, 2))
    metric = Regression(np.array([70.0, 60.0]), np.array([10.0, 10.0]))
    workload = Workload(nn.Sequential(layers), "fc1", ClientData(Samples(x, y), offsets), validation, "mse", metric)
    return Case(f"W1 MLP, batch {batch}", workload, Recipe(2, batch, 0.005), list(range(10)))


def images(
    name: str, model: nn.Module, layer: str, batch: int, *, side: int = 28, channels: int = 1, epochs: int = 5,
    clients: int = 25, validation: int = 40_000,
) -> Case:  # fmt: skip
    """Image classification with 480 images a client."""
    rng = np.random.default_rng(0)
    pool = rng.integers(0, 256, (clients * 480, channels, side, side), dtype=np.uint8)
    labels = rng.integers(0, 10, len(pool))
    shift, scale = np.float32(44.2), np.float32(84.6)
    rows = rng.integers(0, len(pool), validation)
    held_out = Samples(pool[rows], labels[rows], shift, scale)
    data = ClientData(Samples(pool, labels, shift, scale), np.arange(0, len(pool) + 1, 480))
    workload = Workload(model, layer, data, held_out, "nll", classification, evaluation_batch=64)
    return Case(f"{name}, batch {batch}", workload, Recipe(epochs, batch, 0.005), list(range(clients)))


def w2(clients: int = 25, validation: int = 40_000) -> Case:
    """EMNIST: the classic LeNet-5."""
    torch.manual_seed(0)
    return images("W2 LeNet-5", lenet5(), "fc1", 32, clients=clients, validation=validation)


def wide_lenet() -> nn.Module:
    """The 20-50-500 LeNet."""
    return nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        OrderedDict(fc1=nn.Linear(800, 500))["fc1"], nn.ReLU(), nn.Linear(500, 10), nn.LogSoftmax(1),
    )  # fmt: skip


def small_kernels() -> nn.Module:
    """3 x 3 convolutions of 32 and 64 channels."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 64, 128), nn.ReLU(), nn.Linear(128, 10), nn.LogSoftmax(1),
    )  # fmt: skip


def sweep() -> list[Case]:
    """Other models, widths and batch sizes, small cohorts."""
    cases = [w1(batch) for batch in (8, 32, 128)]
    few = {"epochs": 1, "clients": 2, "validation": 200}
    cases += [images("LeNet-5", lenet5(), "fc1", batch, **few) for batch in (8, 16, 32, 64, 128)]
    for batch in (8, 32, 128):
        cases.append(images("LeNet 20-50-500", wide_lenet(), "7", batch, **few))
        cases.append(images("CNN 3x3 32-64, 32x32x3", small_kernels(), "7", batch, side=32, channels=3, **few))
    return cases


def best_times(case: Case, repeats: int, workers: int) -> tuple[float, float]:
    """Seconds a round of the loop and of the engine, best of some interleaved repeats."""
    plain, engine = PlainLoop(case), NativeEngine(case.workload, workers)
    weights = flat(case.workload.model)
    native_round(engine, case, weights, 1)
    times: dict[str, list[float]] = {"plain": [], "native": []}
    runs: dict[str, Callable[[], object]] = {
        "plain": lambda: plain.round(weights, 1),
        "native": lambda: native_round(engine, case, weights, 1),
    }
    for _ in range(repeats):
        for name, run in runs.items():
            for _ in range(1 if name == "plain" else 3):
                begun = time.perf_counter()
                run()
                times[name].append(time.perf_counter() - begun)
    engine.close()
    return min(times["plain"]), min(times["native"])


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="*", default=["w1", "w2"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cases = {"w1": lambda: [w1()], "w2": lambda: [w2()], "sweep": sweep}
    for what in arguments.what:
        for case in cases[what]():
            plain, native = best_times(case, arguments.repeats, arguments.workers)
            print(f"{case.name:36} plain {plain:8.4f} s   native {native:8.4f} s   {plain / native:6.1f}x", flush=True)


if __name__ == "__main__":
    main()
