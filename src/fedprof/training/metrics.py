"""Accuracy of every sample, in [0, 1], from a model's outputs and the targets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedprof.errors import SettingsError


def classification(outputs: NDArray[np.float32], targets: NDArray[np.generic]) -> NDArray[np.float64]:
    """1 where the largest output is the label's, else 0; NaN outputs (a diverged model) are wrong."""
    right = (outputs.argmax(axis=1) == targets) & ~np.isnan(outputs).any(axis=1)
    return np.asarray(right, dtype=np.float64)


@dataclass(frozen=True)
class Regression:
    """The paper's regression accuracy, ``1 - |y - y'| / max(y, y')``, mean over outputs, on the raw scale.

    ``mean`` and ``std`` undo the standardisation of targets. The formula presumes positive values; here the maximum is
    that of the magnitudes and the result is cut off at 0, which changes nothing for positive values, gives 0 to a
    prediction of the wrong sign, and 1 to a right zero. NaN predictions (a diverged model) get 0.
    """

    mean: NDArray[np.float64]
    std: NDArray[np.float64]

    def __post_init__(self) -> None:
        """Refuse a scale that is not one."""
        if not (np.isfinite(self.mean).all() and np.isfinite(self.std).all() and (np.asarray(self.std) > 0).all()):
            raise SettingsError(f"targets need a finite mean and a positive std, not {self.mean} and {self.std}")

    def __call__(self, outputs: NDArray[np.float32], targets: NDArray[np.generic]) -> NDArray[np.float64]:
        """Accuracy of each sample."""
        predicted, true = self._raw(outputs), self._raw(targets)
        size = np.fmax(np.abs(predicted), np.abs(true))
        with np.errstate(invalid="ignore"):  # an infinite prediction gives NaN, which counts as 0
            error = np.abs(predicted - true) / np.maximum(size, np.finfo(np.float64).tiny)
        return np.asarray(np.fmax(1 - error, 0).mean(axis=0))

    def _raw(self, values: NDArray[np.generic]) -> NDArray[np.float64]:
        """Values on the raw scale, an output a row: NumPy is slow on many short rows."""
        columns = np.ascontiguousarray(values.reshape(len(values), -1).T, dtype=np.float64)
        raw: NDArray[np.float64] = columns * np.reshape(self.std, (-1, 1)) + np.reshape(self.mean, (-1, 1))
        return raw
