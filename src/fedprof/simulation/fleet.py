"""The clients' devices: speed and bandwidth drawn once a run from the task's distributions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedprof.randomness import stream
from fedprof.tasks.settings import Fleet, Normal


@dataclass(frozen=True)
class Devices:
    """What every client's device can do."""

    speed: NDArray[np.float64]
    """s_k, GHz."""
    bandwidth: NDArray[np.float64]
    """bw_k, MHz, downlink; the uplink is half of it."""
    snr: float
    """Signal-to-noise ratio, as a plain ratio."""

    def __len__(self) -> int:
        return len(self.speed)


def devices(fleet: Fleet, clients: int, seed: int) -> Devices:
    """Draw a fleet."""
    speed = truncated_normal(fleet.speed, clients, stream(seed, "speed"))
    bandwidth = truncated_normal(fleet.bandwidth, clients, stream(seed, "bandwidth"))
    return Devices(speed, bandwidth, 10 ** (fleet.snr_db / 10))


def truncated_normal(law: Normal, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw from a normal law cut off below at ``floor * mean``: what falls under it is drawn again."""
    values = rng.normal(law.mean, law.std, count)
    while (low := values < law.floor * law.mean).any():
        values[low] = rng.normal(law.mean, law.std, int(low.sum()))
    return values
