"""Time and energy of a client's round: equations 10 to 16 of the paper.

Seconds, joules, bits, hertz. ``log`` in the equations is log2 (Shannon); the model's size on the air is a constant of
the task, whatever the number of weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedprof.simulation.fleet import Devices
from fedprof.tasks.settings import Costs

Array = NDArray[np.float64]
Four = tuple[float, float, float, float]
MEGABYTE = 8e6
"""Bits."""
BYTES_AN_ELEMENT = 8
"""A profile's mean and variance, four bytes each."""


@dataclass(frozen=True)
class Phases:
    """Seconds (or joules) of each phase, one entry a client."""

    download: Array
    profiling: Array
    training: Array
    upload: Array
    """The model, and the profile where there is one."""

    @property
    def total(self) -> Array:
        """Over all phases."""
        return self.download + self.profiling + self.training + self.upload

    def at(self, some: NDArray[np.int64]) -> Phases:
        """Of some of the clients."""
        return Phases(self.download[some], self.profiling[some], self.training[some], self.upload[some])

    def rows(self) -> list[Four]:
        """Download, profiling, training, upload of each client."""
        columns = (self.download, self.profiling, self.training, self.upload)
        return list(zip(*(column.tolist() for column in columns), strict=True))


@dataclass(frozen=True)
class CostModel:
    """What a round costs each client of a fleet."""

    costs: Costs
    devices: Devices
    sizes: NDArray[np.int64]
    epochs: int
    profile_bytes: int = 0
    """RPsize: what a profile (or what stands for it in private) adds to the upload."""
    baseline_bytes: int = 0
    """What private matching adds to the download."""
    profile_cycles: float = 0.0
    """Processor cycles that private matching adds to profiling."""

    def rate(self, clients: NDArray[np.int64], bandwidth: Array | float = 1.0) -> Array:
        """Downlink of each client in bits a second: bw_k log(1 + SNR); ``bandwidth`` scales it where it varies."""
        return np.asarray(self.devices.bandwidth[clients] * 1e6 * np.log2(1 + self.devices.snr) * bandwidth)

    def seconds(self, clients: NDArray[np.int64], *, profile: bool, bandwidth: Array | float = 1.0) -> Phases:
        """Equations 12 to 14: T_download, T_RPgen, T_train, T_upload with T_RPup."""
        rate = self.rate(clients, bandwidth)
        download = self.costs.model_megabytes * MEGABYTE / rate
        training = self.epochs * self._epoch(clients)
        upload = 2 * download
        if not profile:
            return Phases(download, np.zeros(len(clients)), training, upload)
        matching = self._matching(clients, rate)
        return Phases(download + matching.download, matching.profiling, training, upload + matching.upload)

    def initial(self, clients: NDArray[np.int64]) -> Phases:
        """Algorithm 1, lines 3 and 4: clients make the first model from the seed and send the profile alone."""
        return self._matching(clients, self.rate(clients))

    def joules(self, seconds: Phases, clients: NDArray[np.int64]) -> Phases:
        """Equations 15 and 16: P_trans while on the air, P_f s_k^3 while computing."""
        computing = self.costs.processor_watts * self.devices.speed[clients] ** 3
        air = self.costs.transmitter_watts
        return Phases(
            air * seconds.download, computing * seconds.profiling, computing * seconds.training, air * seconds.upload
        )

    def _epoch(self, clients: NDArray[np.int64]) -> Array:
        cycles = self.sizes[clients] * self.costs.bits_per_sample * self.costs.cycles_per_bit
        return np.asarray(cycles / (self.devices.speed[clients] * 1e9))

    def _matching(self, clients: NDArray[np.int64], rate: Array) -> Phases:
        """T_RPgen, which is one epoch's time, and T_RPup, over an uplink of half the bandwidth."""
        profiling = self._epoch(clients) + self.profile_cycles / (self.devices.speed[clients] * 1e9)
        return Phases(
            download=np.asarray(8 * self.baseline_bytes / rate),
            profiling=profiling,
            training=np.zeros(len(clients)),
            upload=np.asarray(8 * self.profile_bytes / (rate / 2)),
        )
