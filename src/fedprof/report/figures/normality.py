"""Are representations normally distributed? Histograms of sampled elements, a normal law over each, and what tests say.

Two figures of the paper: LeNet-5's first dense layer after some epochs on MNIST, and fused representations from a
convolution and a residual block of ResNet-18. For the latter the paper has 100 epochs of CIFAR-100; this draws CIFAR-10
after few epochs, and says so in its title.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedprof.randomness import stream
from fedprof.report.figures.style import PAGE, look, sheet
from fedprof.report.palette import LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BOXES = 6
"""Elements drawn in a row, sampled from all."""
TESTED = 200
"""Samples given to a test: with thousands any test rejects any real data, however close to normal."""
LEVEL = 0.05


@dataclass(frozen=True)
class Representations:
    """What a layer made of the validation set."""

    title: str
    values: NDArray[np.float64]
    """One row a sample, one column an element."""


@dataclass(frozen=True)
class Verdict:
    """How normal the elements of a layer are."""

    shapiro: float
    """Median over elements of Shapiro and Wilk's W: 1 for a normal law."""
    passing: float
    """Share of elements that D'Agostino and Pearson's test does not reject at ``LEVEL``."""
    elements: int

    @classmethod
    def of(cls, values: NDArray[np.float64], seed: int) -> Verdict:
        """Test every element that varies, on the same few samples."""
        from scipy.stats import normaltest, shapiro

        few = values[stream(seed, "figure-samples").permutation(len(values))[:TESTED]]
        few = few[:, few.std(axis=0) > 0]
        statistics = [shapiro(column).statistic for column in few.T]
        passing = normaltest(few).pvalue > LEVEL
        return cls(float(np.median(statistics)), float(np.mean(passing)), few.shape[1])


def draw(rows: Sequence[Representations], title: str, seed: int = 0) -> Figure:
    """Draw one row a layer or moment, with the tests' figures under each row's name."""
    with look():
        figure, grid = sheet(len(rows), BOXES, PAGE * 1.25, 0.5 + 1.35 * len(rows))
        figure.suptitle(title, fontsize=9)
        for axes, row in zip(grid, rows, strict=True):
            verdict = Verdict.of(row.values, seed)
            for place, element in zip(axes, _sampled(row.values, seed), strict=False):
                _box(place, row.values[:, element], int(element))
            axes[0].set_ylabel(_caption(row.title, verdict), rotation=0, ha="right", va="center")
        return figure


def _sampled(values: NDArray[np.float64], seed: int) -> NDArray[np.intp]:
    """Some elements that are not dead."""
    alive = np.flatnonzero(values.std(axis=0) > 0)
    return np.sort(stream(seed, "figure-elements").permutation(alive)[:BOXES])


def _box(axes: Axes, values: NDArray[np.float64], element: int) -> None:
    mean, std = values.mean(), values.std()
    reach = np.linspace(mean - 4 * std, mean + 4 * std, 160)
    axes.hist(values, bins=40, range=(reach[0], reach[-1]), density=True, color=LIGHT["sky"], linewidth=0)
    normal = np.exp(-((reach - mean) ** 2) / (2 * std**2)) / (std * np.sqrt(2 * np.pi))
    axes.plot(reach, normal, color=LIGHT["red"], linewidth=1.1)
    axes.set_title(f"element {element + 1}", fontsize=7, pad=2)
    axes.set_yticks([])
    axes.grid(visible=False)
    axes.tick_params(labelsize=6)


def _caption(title: str, verdict: Verdict) -> str:
    return (
        f"{title}\n\nof {verdict.elements} elements:\nmedian W {verdict.shapiro:.3f}\n"
        f"not rejected {verdict.passing:.0%}\n(n = {TESTED}, {LEVEL:.0%} level)"
    )
