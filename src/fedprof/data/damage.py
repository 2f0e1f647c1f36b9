"""Damage: what can be wrong with a client's data.

A damage takes a client's inputs and targets and returns damaged copies of the same shapes and dtypes. Strengths are
relative to what clean data look like (`Clean`), so one number suits 8 x 8 digits and sensor readings alike.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedprof.data.statistics import is_image, mean_and_deviation
from fedprof.errors import SettingsError

Array = NDArray[Any]
NORMAL = "normal"


@dataclass(frozen=True)
class Clean:
    """What undamaged data look like: range, mean and deviation of images (by channel) or of each feature."""

    low: Array
    high: Array
    mean: Array
    std: Array
    classes: int
    """Number of classes; 0 for regression."""

    @classmethod
    def of(cls, x: Array, y: Array) -> Clean:
        """Measure a pool of samples."""
        axis = None if is_image(x) else 0
        classes = int(y.max()) + 1 if np.issubdtype(y.dtype, np.integer) else 0
        return cls(np.asarray(x.min(axis=axis)), np.asarray(x.max(axis=axis)), *mean_and_deviation(x), classes)


Apply = Callable[..., tuple[Array, Array]]


@dataclass(frozen=True)
class Damage:
    """One kind of damage: its name, what it does, and to which inputs it may be done."""

    name: str
    what: str
    apply: Apply
    images: bool = True
    features: bool = True

    def __call__(
        self, x: Array, y: Array, rng: np.random.Generator, clean: Clean, **strength: Any
    ) -> tuple[Array, Array]:
        """Return damaged copies of inputs and targets."""
        if not (self.images if is_image(x) else self.features):
            raise SettingsError(f"damage '{self.name}' cannot be done to {'images' if is_image(x) else 'tables'}")
        self.check(strength)
        return self.apply(x, y, rng, clean, **strength)

    @property
    def strengths(self) -> Mapping[str, Any]:
        """The strengths it takes, and their defaults."""
        parameters = inspect.signature(self.apply).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}

    def check(self, strength: Mapping[str, Any]) -> None:
        """Reject strengths that it does not take or that are out of range."""
        for name, value in strength.items():
            if name not in self.strengths:
                raise SettingsError(
                    f"damage.{self.name}.{name}: it takes {', '.join(self.strengths) or 'no strengths'}"
                )
            if isinstance(self.strengths[name], float):
                _check_number(f"damage.{self.name}.{name}", value, 1.0 if name == "density" else np.inf)


def polluted(
    x: Array, y: Array, rng: np.random.Generator, clean: Clean, *, density: float = 0.5, reach: float = 1.0
) -> tuple[Array, Array]:
    """Replace a ``density`` of readings by invalid ones: outside the feature's range, by up to ``reach`` ranges."""
    span = clean.high - clean.low
    beyond = rng.uniform(0, reach, x.shape) * span
    invalid = np.where(rng.random(x.shape) < 0.5, clean.low - beyond, clean.high + beyond)
    return np.where(rng.random(x.shape) < density, invalid, x).astype(x.dtype), y.copy()


def noise(x: Array, y: Array, rng: np.random.Generator, clean: Clean, *, sigma: float = 1.0) -> tuple[Array, Array]:
    """Add Gaussian noise of ``sigma`` standard deviations of the clean data."""
    return _as_like(x + rng.normal(0, sigma, x.shape) * clean.std, x, clean), y.copy()


def irrelevant(x: Array, y: Array, rng: np.random.Generator, clean: Clean) -> tuple[Array, Array]:
    """Replace every image by one that is not of the task; the labels stay and mean nothing any more.

    The images are "dead leaves", discs that hide one another, over the full range of brightness and colour: they have
    the edges and surfaces of any picture, but show nothing the task knows.
    """
    return _as_like(clean.low + (clean.high - clean.low) * _dead_leaves(x.shape, rng), x, clean), y.copy()


def blur(x: Array, y: Array, _rng: np.random.Generator, clean: Clean, *, sigma: float = 2.0) -> tuple[Array, Array]:
    """Blur images with a Gaussian of ``sigma`` pixels."""
    from scipy import ndimage

    soft = ndimage.gaussian_filter(x.astype(np.float32), (0, 0, sigma, sigma), mode="nearest")
    return _as_like(soft, x, clean), y.copy()


def pixel(x: Array, y: Array, rng: np.random.Generator, clean: Clean, *, density: float = 0.3) -> tuple[Array, Array]:
    """Salt and pepper: set a ``density`` of pixels to black or white, with equal chance, in all channels at once."""
    dots = rng.random((len(x), 1, *x.shape[2:]))
    damaged = np.where(dots < density / 2, clean.low, x)
    return np.where(dots >= 1 - density / 2, clean.high, damaged).astype(x.dtype), y.copy()


def mislabelled(
    x: Array, y: Array, rng: np.random.Generator, clean: Clean, *, density: float = 0.5
) -> tuple[Array, Array]:
    """Give a ``density`` of samples a wrong class (any other, equally likely); in regression, each other's targets."""
    wrong = rng.permutation(len(y))[: round(density * len(y))]
    labels = y.copy()
    if clean.classes > 1:
        labels[wrong] = (y[wrong] + rng.integers(1, clean.classes, len(wrong))) % clean.classes
    else:
        labels[wrong] = y[np.roll(wrong, 1)]
    return x.copy(), labels


def duplicated(
    x: Array, y: Array, rng: np.random.Generator, _clean: Clean, *, density: float = 0.8
) -> tuple[Array, Array]:
    """Overwrite a ``density`` of samples with copies of the client's others; at least one original stays."""
    order = rng.permutation(len(x))
    originals = order[: max(1, len(x) - round(density * len(x)))]
    source = np.arange(len(x))
    source[order[len(originals) :]] = rng.choice(originals, len(x) - len(originals))
    return x[source], y[source]


def missing(
    x: Array, y: Array, rng: np.random.Generator, clean: Clean, *, density: float = 0.5, fill: str = "mean"
) -> tuple[Array, Array]:
    """Lose a ``density`` of values (in images: of pixels); fill each with the clean ``mean`` or with ``zero``."""
    if fill not in ("mean", "zero"):
        raise SettingsError(f"missing values are filled with 'mean' or 'zero', not '{fill}'")
    value = clean.mean if fill == "mean" else np.zeros_like(clean.mean)
    lost = rng.random((len(x), 1, *x.shape[2:]) if is_image(x) else x.shape) < density
    return _as_like(np.where(lost, value, x), x, clean), y.copy()


DAMAGES: Mapping[str, Damage] = {
    damage.name: damage
    for damage in (
        Damage("polluted", "features take invalid values", polluted, images=False),
        Damage("noise", "Gaussian noise on every value", noise),
        Damage("irrelevant", "images not of the task", irrelevant, features=False),
        Damage("blur", "Gaussian blur", blur, features=False),
        Damage("pixel", "salt and pepper", pixel, features=False),
        Damage("mislabelled", "wrong labels", mislabelled),
        Damage("duplicated", "copies of few samples", duplicated),
        Damage("missing", "values lost and filled in", missing),
    )
}


def assign(shares: Mapping[str, float], clients: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Draw which clients suffer from what: 0 is normal, 1, 2, ... are the kinds of ``shares`` in their order.

    Numbers are rounded by largest remainder (Hamilton's method), so they always add up and exact shares stay exact;
    equal remainders go to the normal clients first, then in the order of ``shares``.
    """
    if min(shares.values(), default=0) < 0 or sum(shares.values()) > 1 + 1e-9:
        raise SettingsError(f"shares of damaged clients must be at least 0 and at most 1 in all, not {dict(shares)}")
    quotas = np.array([1 - sum(shares.values()), *shares.values()]) * clients
    counts = np.floor(quotas + 1e-9).astype(int)
    by_remainder = np.argsort(-np.round(quotas - counts, 9), kind="stable")
    counts[by_remainder[: clients - counts.sum()]] += 1
    return rng.permutation(np.repeat(np.arange(len(counts), dtype=np.uint8), counts))


def _check_number(setting: str, value: object, limit: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= limit:
        wanted = f"a number from 0 to {limit:g}" if limit < np.inf else "a number of at least 0"
        raise SettingsError(f"{setting} = {value!r}: must be {wanted}")


def _as_like(values: ArrayLike, x: Array, clean: Clean) -> Array:
    """Values in the dtype of ``x``; integers are rounded and kept within the clean range."""
    if np.issubdtype(x.dtype, np.integer):
        values = np.clip(np.rint(values), clean.low, clean.high)
    return np.asarray(values).astype(x.dtype)


def _dead_leaves(shape: tuple[int, ...], rng: np.random.Generator, leaves: int = 24) -> NDArray[np.float32]:
    """Pictures in [0, 1] of discs that hide one another: the classic model of edges and surfaces in photographs."""
    n, channels, height, width = shape
    side = max(height, width)
    colours = rng.random((n, leaves + 1, channels), dtype=np.float32)
    radius = side / rng.uniform(2, 12, (leaves, n, 1, 1)).astype(np.float32)
    centre = rng.uniform(0, side, (2, leaves, n, 1, 1)).astype(np.float32)
    rows, columns = np.arange(height, dtype=np.float32)[:, None], np.arange(width, dtype=np.float32)
    seen = np.zeros((n, height, width), np.intp)
    for leaf in range(leaves):
        distance = (rows - centre[0, leaf]) ** 2 + (columns - centre[1, leaf]) ** 2
        seen[distance < radius[leaf] ** 2] = leaf + 1
    return colours[np.arange(n)[:, None, None], seen].transpose(0, 3, 1, 2)
