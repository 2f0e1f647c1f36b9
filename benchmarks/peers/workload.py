"""The two workloads, the same for every racer: NumPy only, so that it imports in every virtual environment.

The data are synthetic, of the real tasks' shapes, and learnable, so that losses can be compared after the same rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

IMAGES = 48_000
"""Distinct images of W2; 500 clients of 480 hold windows of them (views), so that all racers fit in memory at once."""
SHIFT, SCALE = np.float32(44.2), np.float32(84.6)


@dataclass(frozen=True)
class Workload:
    """How many clients, how they train, how much is evaluated."""

    name: str
    clients: int
    cohort: int
    epochs: int
    batch: int
    evaluation: int
    evaluation_batch: int
    rate: float = 0.005

    @property
    def regression(self) -> bool:
        return self.name == "w1"


FULL = {
    "w1": Workload("w1", clients=50, cohort=10, epochs=2, batch=8, evaluation=11_000, evaluation_batch=256),
    "w2": Workload("w2", clients=500, cohort=25, epochs=5, batch=32, evaluation=40_000, evaluation_batch=128),
}
QUICK = {
    "w1": replace(FULL["w1"], cohort=2, evaluation=500),
    "w2": replace(FULL["w2"], cohort=2, clients=20, epochs=1, evaluation=500),
}


@dataclass(frozen=True)
class Data:
    """All samples, which of them each client holds, and the samples held out. Images are ``uint8``."""

    x: np.ndarray
    y: np.ndarray
    spans: list[slice]
    held_out: tuple[np.ndarray, np.ndarray]

    @property
    def sizes(self) -> np.ndarray:
        return np.array([span.stop - span.start for span in self.spans])


def workload(name: str, quick: bool = False) -> Workload:
    return (QUICK if quick else FULL)[name]


def data(work: Workload) -> Data:
    rng = np.random.default_rng(0)
    return _gas_turbine(work, rng) if work.regression else _digits(work, rng)


def standardised(images: np.ndarray) -> np.ndarray:
    """Images as models take them; features already are."""
    return images if images.dtype == np.float32 else (images.astype(np.float32) - SHIFT) / SCALE


def _gas_turbine(work: Workload, rng: np.random.Generator) -> Data:
    sizes = np.maximum(rng.normal(514, 101, work.clients).astype(int), work.batch)
    ends = np.cumsum(sizes)
    x = rng.normal(size=(ends[-1] + work.evaluation, 11)).astype(np.float32)
    noise = rng.normal(scale=0.1, size=(len(x), 2))
    y = (np.tanh(x @ rng.normal(size=(11, 2))) + noise).astype(np.float32)
    spans = [slice(int(end - size), int(end)) for end, size in zip(ends, sizes, strict=True)]
    return Data(x[: ends[-1]], y[: ends[-1]], spans, (x[ends[-1] :], y[ends[-1] :]))


def _digits(work: Workload, rng: np.random.Generator) -> Data:
    classes = rng.integers(0, 200, (10, 1, 28, 28))
    y = rng.integers(0, 10, IMAGES)
    x = (classes[y] + rng.integers(0, 56, (IMAGES, 1, 28, 28), dtype=np.uint8)).astype(np.uint8)
    spans = [slice(480 * (k % 100), 480 * (k % 100) + 480) for k in range(work.clients)]
    return Data(x, y, spans, (x[: work.evaluation], y[: work.evaluation]))
