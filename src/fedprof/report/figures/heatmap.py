"""Scores over rounds, with what every client's data suffer from (the paper's heatmap)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedprof.errors import SettingsError
from fedprof.report import gather
from fedprof.report.comparison import Comparison, Series
from fedprof.report.figures.style import COLUMN, look, sheet
from fedprof.report.gather import Field

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

LETTERED = 20
"""Up to this many clients each has its own letter (N, R, B, P, ... as in the paper); beyond, kinds are named once."""
LETTERS = {"irrelevant": "R", "polluted": "X", "missing": "V", "noise": "G"}
"""Where the first letter would not do."""
LOWEST, HIGHEST = 1e-3, 10.0
"""Multiples of an even chance between which colours differ."""


def draw(comparisons: Sequence[Comparison]) -> Figure:
    """Draw a panel for every series whose algorithm scores by profile."""
    every = [(comparison.title, series) for comparison in comparisons for series in comparison.series]
    scored = [(title, series, gather.field(series.runs[0], "score")) for title, series in every]
    panels = [(title, series, known) for title, series, known in scored if known and series.algorithm == "fedprof"]
    if not panels:
        raise SettingsError("none of these runs has scores: name a run of fedprof")
    with look():
        height = min(0.6 + 0.13 * len(panels[0][1].runs[0].clients), 4.0)
        figure, (row,) = sheet(1, len(panels), COLUMN * len(panels), max(height, 2.4))
        for axes, (title, series, known) in zip(row, panels, strict=True):
            image = _map(axes, series, known)
            axes.set_title(f"{title}: {series.key}, seed {series.runs[0].seed}")
        figure.colorbar(image, ax=row, label="score / even chance", pad=0.02)
        figure.supxlabel(_key(panels[0][1]), fontsize="small")
        return figure


def _letter(kind: str) -> str:
    return LETTERS.get(kind, kind[0].upper())


def _key(series: Series) -> str:
    """Say what the letters mean, where there are letters."""
    run = series.runs[0]
    kinds = [kind for kind, _, _ in gather.blocks(run)] if len(run.clients) <= LETTERED else []
    return "   ".join(f"{_letter(kind)}: {kind}" for kind in kinds)


def _map(axes: Axes, series: Series, known: Field) -> AxesImage:
    from matplotlib.colors import LogNorm

    run, count = series.runs[0], len(known.clients)
    relative = (known.values * count).clip(LOWEST, HIGHEST)
    extent = (known.rounds[0] - 0.5, known.rounds[-1] + 0.5, count + 0.5, 0.5)
    image = axes.imshow(
        relative, aspect="auto", interpolation="nearest", cmap="cividis", norm=LogNorm(LOWEST, HIGHEST), extent=extent
    )
    axes.grid(visible=False)
    axes.set_xlabel("round")
    blocks = gather.blocks(run)
    for _, start, _ in blocks[1:]:
        axes.axhline(start + 0.5, color="white", linewidth=0.8)
    if count <= LETTERED:
        letters = [_letter(kind) for kind, start, stop in blocks for _ in range(start, stop)]
        axes.set_yticks(range(1, count + 1), letters)
    else:
        axes.set_yticks([(start + stop + 1) / 2 for _, start, stop in blocks], [kind for kind, _, _ in blocks])
    axes.tick_params(left=False)
    return image
