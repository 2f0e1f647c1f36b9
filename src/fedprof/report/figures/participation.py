"""How often each client took part, clients ordered by the quality of their data (the paper's participation counts)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedprof.errors import SettingsError
from fedprof.report import gather
from fedprof.report.comparison import Comparison, Series
from fedprof.report.figures.style import COLUMN, look, sheet
from fedprof.report.palette import LIGHT, kind_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(comparisons: Sequence[Comparison]) -> Figure:
    """Draw a panel for every series that selects by score; where there is none, for every series."""
    every = [(comparison.title, series) for comparison in comparisons for series in comparison.series]
    panels = [panel for panel in every if panel[1].algorithm == "fedprof"] or every
    if not panels:
        raise SettingsError("there is no run to draw")
    with look():
        columns = min(2, len(panels))
        rows = -(-len(panels) // columns)
        figure, grid = sheet(rows, columns, COLUMN * columns, 2.1 * rows)
        places = [axes for row in grid for axes in row]
        for axes, (title, series) in zip(places, panels, strict=False):
            _bars(axes, series)
            axes.set_title(f"{title}: {series.key}, seed {series.runs[0].seed}")
        for axes in places[len(panels) :]:
            axes.set_visible(False)
        return figure


def _bars(axes: Axes, series: Series) -> None:
    run = series.runs[0]
    selected, clients = gather.counts(run), run.by_quality()
    for kind, start, stop in gather.blocks(run):
        heights = [selected.get(row.client, 0) for row in clients[start:stop]]
        axes.bar(range(start + 1, stop + 1), heights, width=0.85, color=LIGHT[kind_colour(kind)], label=kind)
    axes.set(xlabel="clients, best data first", ylabel="times selected", xlim=(0.4, len(clients) + 0.6))
    axes.grid(visible=False, axis="x")
    axes.legend(fontsize=7, ncols=2)
