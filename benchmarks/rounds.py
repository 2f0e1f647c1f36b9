"""Whole rounds with evaluation: a plain PyTorch loop and an engine, timed in turns; and the arithmetic's limit."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import median

import numpy as np
import torch
from numba import njit
from torch import nn

from cases import Case
from fedprof.randomness import stream
from fedprof.training.engine import Engine
from fedprof.training.native.machine import Width, widest
from fedprof.training.native.vectors import across, fma, splat

LOSSES = {"mse": nn.functional.mse_loss, "nll": nn.functional.nll_loss, "ce": nn.functional.cross_entropy}


class PlainLoop:
    """What a careful user writes: one model, flat weights and gradients, data gathered before, one thread."""

    def __init__(self, case: Case) -> None:
        work = case.workload
        self.case, self.model = case, copy.deepcopy(work.model)
        parameters = list(self.model.parameters())
        held = [*parameters, *(one for one in self.model.buffers() if one.is_floating_point())]
        self.flat, self.gradient = flat(held), torch.zeros_like(flat(parameters))
        self.trainable = self.flat[: len(self.gradient)]
        at = 0
        for tensor in held:
            part = slice(at, at + tensor.numel())
            tensor.data = self.flat[part].view_as(tensor)
            if part.stop <= len(self.gradient):
                tensor.grad = self.gradient[part].view_as(tensor)
            at = part.stop
        self.loss = LOSSES[work.loss]
        self.data = {k: tuple(map(torch.from_numpy, work.clients.samples(k))) for k in case.cohort}
        self.validation = torch.from_numpy(work.validation.standardised()), torch.from_numpy(work.validation.targets())

    def round(self, weights: np.ndarray) -> np.ndarray:
        """Train the cohort, average, evaluate."""
        received, total = torch.from_numpy(weights), torch.zeros_like(self.flat)
        for client in self.case.cohort:
            self.flat.copy_(received)
            self.train(client)
            total += self.flat
        self.flat.copy_(total / len(self.case.cohort))
        self.evaluate()
        return self.flat.numpy().copy()

    def train(self, client: int) -> None:
        recipe, (x, y) = self.case.recipe, self.data[client]
        shuffle = stream(self.case.workload.seed, "shuffle", 1, client)
        self.model.train()
        for _ in range(recipe.epochs):
            for rows in torch.from_numpy(shuffle.permutation(len(y))).split(recipe.batch):
                self.gradient.zero_()
                self.loss(self.model(x[rows]), y[rows]).backward()
                self.trainable.add_(self.gradient, alpha=-recipe.rate)

    @torch.no_grad()
    def evaluate(self) -> float:
        x, y = self.validation
        self.model.eval()
        outputs = torch.cat([self.model(part) for part in x.split(self.case.workload.evaluation_batch)])
        return float(self.case.workload.metric(outputs.numpy(), y.numpy()).mean())


def flat(tensors: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def engine_round(engine: Engine, case: Case, weights: np.ndarray, *, profile: bool = True) -> np.ndarray:
    """The same round on an engine, and, if asked for, everybody's profile and the baseline."""
    updates = engine.train(weights, 1, case.cohort, case.recipe, profile=profile)
    mean = np.mean([update.weights for update in updates], axis=0, dtype=np.float32)
    engine.evaluate(mean, version=1 if profile else None)
    return mean


def seconds(runs: dict[str, Callable[[], object]], turns: int, at_least: float = 0.2) -> dict[str, float]:
    """Median seconds of each run; they take turns, and short ones run several times in a turn."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    repeats = {name: max(1, round(at_least / timed(run))) for name, run in runs.items()}
    for _ in range(turns):
        for name, run in runs.items():
            times[name] += [timed(run) for _ in range(repeats[name])]
    return {name: median(found) for name, found in times.items()}


def timed(run: Callable[[], object]) -> float:
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def round_operations(case: Case) -> float:
    """Floating-point operations of a round's convolutions and dense layers, two a multiplication-and-addition.

    Forward, input gradient (not of the first layer) and weight gradient cost the same; evaluation is forward only.
    """
    work, sizes = case.workload, case.workload.clients.sizes
    layers = multiplications(work.model, torch.from_numpy(work.validation.standardised(slice(0, 1))))
    trained = int(sizes[case.cohort].sum()) * case.recipe.epochs
    return 2.0 * (trained * (3 * sum(layers) - layers[0]) + len(work.validation) * sum(layers))


def multiplications(model: nn.Module, sample: torch.Tensor) -> list[int]:
    """Of each layer, for one sample."""
    found: list[int] = []

    def count(module: nn.Module, _inputs: object, output: torch.Tensor) -> None:
        found.append(output[0].numel() * module.weight[0].numel())

    layers = [part for part in model.modules() if isinstance(part, nn.Conv2d | nn.Linear)]
    handles = [layer.register_forward_hook(count) for layer in layers]
    model(sample)
    for handle in handles:
        handle.remove()
    return found


@njit(nogil=True)
def _multiply_and_add(width, times):
    a, b = splat(width, np.float32(0.999)), splat(width, np.float32(0.001))
    c0 = c1 = c2 = c3 = c4 = c5 = c6 = c7 = c8 = c9 = b
    for _ in range(times):
        c0, c1, c2, c3, c4 = fma(c0, a, b), fma(c1, b, a), fma(c2, a, a), fma(c3, b, b), fma(c4, a, b)
        c5, c6, c7, c8, c9 = fma(c5, b, a), fma(c6, a, a), fma(c7, b, b), fma(c8, a, b), fma(c9, b, a)
    return across((c0 + c1) + (c2 + c3) + (c4 + c5) + (c6 + c7) + (c8 + c9))


def peak(threads: int = 2, times: int = 2_000_000) -> float:
    """Floating-point operations a second of that many threads that only multiply and add, in registers; the best."""
    width = Width(widest())
    _multiply_and_add(width, 1)

    def all_at_once() -> None:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda _: _multiply_and_add(width, times), range(threads)))

    return threads * times * 10 * widest() * 2 / min(timed(all_at_once) for _ in range(100))
