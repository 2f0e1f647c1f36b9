"""The picture of an audit: everybody's divergence, worst first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedprof.report.audit import Finding
from fedprof.report.figures.style import COLUMN, look, sheet
from fedprof.report.palette import LIGHT, kind_colour
from fedprof.report.stored import quality

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMED = 60
"""With more clients than this, bars have no names."""


def draw(findings: Sequence[Finding]) -> Figure:
    """Draw a bar a client, coloured by the kind of data where that is known."""
    with look():
        named = len(findings) <= NAMED
        figure, ((axes,),) = sheet(1, 1, COLUMN, 0.8 + 0.16 * len(findings) if named else 5.0)
        for kind in sorted({one.kind or "" for one in findings}, key=quality):
            places = [place for place, one in enumerate(findings) if (one.kind or "") == kind]
            values = [findings[place].divergence for place in places]
            axes.barh(places, values, height=0.8, color=LIGHT[kind_colour(kind or "normal")], label=kind or None)
        axes.set_yticks(range(len(findings)) if named else [], [one.name for one in findings] if named else [])
        axes.invert_yaxis()
        axes.margins(y=0.01)
        if all(one.divergence > 0 for one in findings):
            axes.set_xscale("log")
        axes.set(xlabel="divergence from the validation set's profile", ylabel="" if named else "clients, worst first")
        axes.grid(visible=False, axis="y")
        if any(one.kind for one in findings):
            axes.legend(loc="lower right")
        return figure
