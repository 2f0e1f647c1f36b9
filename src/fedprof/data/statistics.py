"""Mean and deviation of large arrays, in slices, so that nothing of their size is made on the way."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_SLICE = 1024


def is_image(x: NDArray[Any]) -> bool:
    """Tell images, ``(n, channels, height, width)``, from tables, ``(n, features)``."""
    return x.ndim == 4


def mean_and_deviation(x: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """One value a channel for images, one a feature for tables, shaped to be broadcast against a sample."""
    axes = (0, 2, 3) if is_image(x) else 0
    slices = [x[start : start + _SLICE] for start in range(0, len(x), _SLICE)]
    count = x.size / x.shape[1]
    mean = sum((part.sum(axis=axes, dtype=np.float64) for part in slices), np.zeros(x.shape[1])) / count
    about = mean[_trail(x)]
    variance = sum((((part - about) ** 2).sum(axis=axes) for part in slices), np.zeros(x.shape[1])) / count
    return about.astype(np.float32), np.sqrt(variance)[_trail(x)].astype(np.float32)


def _trail(x: NDArray[Any]) -> tuple[Any, ...]:
    return (slice(None), None, None) if is_image(x) else (slice(None),)
