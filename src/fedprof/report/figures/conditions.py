"""The global model's convergence under four data conditions: FedAvg on MNIST (the paper's first figure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fedprof.report import gather
from fedprof.report.comparison import Series
from fedprof.report.figures.style import COLUMN, by_round, line, look, sheet
from fedprof.report.palette import LIGHT, Style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_EVEN, _CLEAN = "data.partition.kind=iid", "damage.noise.share=0"
CONDITIONS: Mapping[str, Sequence[str]] = {
    "original": (_EVEN, _CLEAN),
    "biased": (_CLEAN,),
    "noisy": (_EVEN,),
    "biased and noisy": (),
}
"""Overrides that make each condition from the preset, which is biased and noisy."""
STYLES = {
    "original": Style("ink"),
    "biased": Style("pink", "dash"),
    "noisy": Style("blue", "dashdot"),
    "biased and noisy": Style("red", "longdash"),
}
"""The paper's colours: black, magenta, blue, red."""


def draw(series: Mapping[str, Series]) -> Figure:
    """Draw a curve a condition."""
    with look():
        figure, ((axes,),) = sheet(1, 1, COLUMN, 2.9)
        for condition, runs in series.items():
            band = gather.accuracy(runs, "rounds")
            if band is None:
                continue
            axes.plot(band.x, band.mean, label=condition, **line(STYLES[condition]))
            colour = LIGHT[STYLES[condition].colour]
            axes.fill_between(band.x, band.low, band.high, color=colour, alpha=0.13, linewidth=0)
        by_round(axes)
        axes.set_ylabel("accuracy")
        axes.legend(loc="best")
        return figure
