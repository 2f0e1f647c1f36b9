"""The digits with validation sets that are small or biased, for the study of what the server's data must be like.

A source gives a test set apart, so that all clients' data stay the same while the server's differ.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedprof.data.sources import Raw, load
from fedprof.randomness import stream

SEED = 0
HELD, SMALL = 400, 30
SIZES = {"all_classes": HELD, "few_images": SMALL, "five_classes": SMALL, "two_classes": SMALL, "one_class": SMALL}
"""The functions below, and how many images the server gets from each."""


def all_classes() -> Raw:
    """400 images of all classes."""
    return _digits(np.arange(10), HELD)


def few_images() -> Raw:
    """30 images of all classes."""
    return _digits(np.arange(10), SMALL)


def five_classes() -> Raw:
    """Only the digits 0 to 4."""
    return _digits(np.arange(5), SMALL)


def two_classes() -> Raw:
    """Only the digits 0 and 1."""
    return _digits(np.arange(2), SMALL)


def one_class() -> Raw:
    """Only the digit 0."""
    return _digits(np.arange(1), SMALL)


def _digits(classes: NDArray[np.int64], size: int) -> Raw:
    """Hold out the same 400 images always, and let the server keep ``size`` of them at most, of these classes."""
    raw = load("digits")
    order = stream(SEED, "held out").permutation(len(raw.train_y))
    held, rest = order[:HELD], order[HELD:]
    kept = held[np.isin(raw.train_y[held], classes)][:size]
    return Raw(raw.train_x[rest], raw.train_y[rest], raw.train_x[kept], raw.train_y[kept], raw.classes)
