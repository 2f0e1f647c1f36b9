"""Accuracy of the global model over rounds, for the algorithms of one aggregation mode (the paper's trace figures)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedprof.errors import SettingsError
from fedprof.report import gather
from fedprof.report.comparison import Comparison, Series
from fedprof.report.figures.style import PAGE, by_round, line, look, sheet
from fedprof.report.palette import LIGHT, Style, series_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(comparisons: Sequence[Comparison], mode: str) -> Figure:
    """Draw one panel a task."""
    panels = [(comparison, group) for comparison in comparisons if (group := comparison.group(mode))]
    if not panels:
        raise SettingsError(f"none of these runs aggregates in {mode} mode; `fedprof compare TASK` makes them")
    with look():
        figure, (row,) = sheet(1, len(panels), max(PAGE * len(panels) / 3, 4.2), 2.7)
        for axes, (comparison, group) in zip(row, panels, strict=True):
            curves(axes, group, series_styles((series.label, series.algorithm) for series in group))
            axes.set_title(comparison.title)
            if comparison.goal is not None:
                axes.axhline(comparison.goal, color=LIGHT["grey"], linewidth=0.7, linestyle=":")
        row[0].set_ylabel("accuracy")
        return figure


def curves(axes: Axes, group: Sequence[Series], styles: dict[str, Style]) -> None:
    """Draw a curve a series, with a band of one standard deviation over seeds."""
    for series in group:
        band = gather.accuracy(series, "rounds")
        if band is None:
            continue
        style = styles[series.label]
        axes.plot(band.x, band.mean, label=series.label, **line(style))
        if band.std.any():
            axes.fill_between(band.x, band.low, band.high, color=LIGHT[style.colour], alpha=0.13, linewidth=0)
    by_round(axes)
    axes.legend(loc="best", fontsize=7.5)
