"""Samples as the kernels read them: addresses of inputs, targets and standardisation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedprof.data.clients import Samples
from fedprof.errors import DataError
from fedprof.training.native import records
from fedprof.training.native.plan import Network


@dataclass(frozen=True)
class Source:
    """A pool of samples; the inputs are shared with the caller where their type allows it."""

    x: NDArray[np.generic]
    targets: NDArray[np.generic]
    shift: NDArray[np.float32]
    factor: NDArray[np.float32]

    @classmethod
    def of(cls, samples: Samples, network: Network, owner: str) -> Source:
        """Check samples against a network and make them readable for the kernels."""
        x = (
            samples.x
            if samples.x.dtype in {np.dtype(np.uint8), np.dtype(np.float32)}
            else np.asarray(samples.x, np.float32)
        )
        shape = x.shape[1:]
        return cls(
            np.ascontiguousarray(x),
            _targets(samples, network, owner),
            _per_feature(samples.shift, shape),
            np.reciprocal(_per_feature(samples.scale, shape)),
        )

    def fields(self) -> dict[str, int]:
        """What a job says of it."""
        return {
            "pool": self.x.ctypes.data,
            "pool_kind": records.BYTES if self.x.dtype == np.uint8 else records.FLOATS,
            "features": len(self.shift),
            "shift": self.shift.ctypes.data,
            "factor": self.factor.ctypes.data,
            "targets": self.targets.ctypes.data,
        }


def _per_feature(values: NDArray[np.float32], shape: tuple[int, ...]) -> NDArray[np.float32]:
    return np.ascontiguousarray(np.broadcast_to(np.asarray(values, np.float32), shape)).ravel()


def _targets(samples: Samples, network: Network, owner: str) -> NDArray[np.generic]:
    y = samples.y
    if network.loss == records.MSE:
        if y.shape != (len(y), network.outputs):
            raise DataError(
                f"targets of {owner} have shape {y.shape}; the model gives {network.outputs} outputs a sample"
            )
        return np.ascontiguousarray(y, np.float32)
    if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer):
        raise DataError(f"labels of {owner} are {y.dtype} of shape {y.shape}; they must be whole numbers, one a sample")
    if len(y) and not 0 <= y.min() <= y.max() < network.outputs:
        raise DataError(f"labels of {owner} run from {y.min()} to {y.max()}; the model has {network.outputs} outputs")
    return np.ascontiguousarray(y, np.int64)
