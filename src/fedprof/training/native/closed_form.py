"""The profile of a first dense layer without running it: W x + b is linear in the data.

Its mean is ``W mean(x) + b`` and its variance the diagonal of ``W Cov(x) W'``, so that each client's mean and
covariance, computed once, give its profile under any weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedprof.core.profile import Profile
from fedprof.training.engine import Vector, Workload
from fedprof.training.native import records
from fedprof.training.native.plan import Layer, Network

_MEMORY = 64 << 20
"""Bytes that all covariances together may take."""
_FEATURES = 256
"""With more, a pass over the data is cheaper."""
_TOGETHER = 64
"""Clients profiled in one product."""


@dataclass(frozen=True)
class _Spread:
    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]
    count: int

    @classmethod
    def of(cls, x: NDArray[np.float32]) -> _Spread:
        rows = x.reshape(len(x), -1).astype(np.float64)
        mean = rows.mean(axis=0)
        centred = rows - mean
        return cls(mean, centred.T @ centred / len(rows), len(rows))


@dataclass
class ClosedForm:
    """Covariances of a workload's data, made when first asked for."""

    workload: Workload
    layer: Layer
    _clients: dict[int, _Spread] = field(default_factory=dict)
    _validation: _Spread | None = None

    @classmethod
    def of(cls, workload: Workload, network: Network) -> ClosedForm | None:
        """Return one where it applies and pays, else ``None``."""
        layer = network.layers[0]
        size = layer.source[0]
        applies = network.profiled == 0 and layer.kind == records.DENSE
        fits = size <= _FEATURES and (len(workload.clients) + 1) * size * size * 8 <= _MEMORY
        return cls(workload, layer) if applies and fits else None

    def clients(self, weights: Vector, clients: Sequence[int], version: int) -> list[Profile]:
        """Profile clients' data."""
        for client in clients:
            if client not in self._clients:
                self._clients[client] = _Spread.of(self.workload.clients.samples(client)[0])
        return self._profiles(weights, [self._clients[client] for client in clients], version)

    def validation(self, weights: Vector, version: int) -> Profile:
        """Profile the validation set."""
        if self._validation is None:
            self._validation = _Spread.of(self.workload.validation.standardised())
        return self._profiles(weights, [self._validation], version)[0]

    def _profiles(self, weights: Vector, spreads: Sequence[_Spread], version: int) -> list[Profile]:
        outputs, inputs = self.layer.shape[0], self.layer.source[0]
        w = weights[: outputs * inputs].reshape(outputs, inputs).astype(np.float64)
        bias = weights[outputs * inputs : outputs * (inputs + 1)] if self.layer.bias else 0.0
        made = []
        for start in range(0, len(spreads), _TOGETHER):
            some = spreads[start : start + _TOGETHER]
            means = np.stack([spread.mean for spread in some]) @ w.T + bias
            products = np.matmul(w, np.stack([spread.covariance for spread in some]))
            variances = (products * w).sum(axis=2).clip(min=0)
            made += [
                Profile(mean, variance, spread.count, version)
                for mean, variance, spread in zip(means, variances, some, strict=True)
            ]
        return made
