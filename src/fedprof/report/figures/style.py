"""What all print figures share: sizes, fonts, colours, and how they are saved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedprof.errors import SettingsError
from fedprof.report.files import write
from fedprof.report.palette import LIGHT, Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".pdf", ".png", ".svg")
COLUMN, PAGE = 4.2, 7.2
"""Widths in inches."""
DASHES: dict[str, Any] = {
    "solid": "-",
    "dot": (0, (1, 1.4)),
    "dash": (0, (4, 2)),
    "longdash": (0, (8, 2.5)),
    "dashdot": (0, (4, 1.5, 1, 1.5)),
    "longdashdot": (0, (8, 2, 1, 2)),
}
_LOOK = {
    "font.family": "serif",
    "font.size": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e6ea",
    "grid.linewidth": 0.6,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "pdf.fonttype": 42,
    "svg.hashsalt": "fedprof",
    "savefig.dpi": 200,
}


@contextmanager
def look() -> Iterator[None]:
    """Draw in the package's style, and leave the user's settings as they were."""
    import matplotlib as mpl

    with mpl.rc_context(_LOOK):  # type: ignore[arg-type]
        yield


def sheet(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Figure, list[list[Axes]]]:
    """A figure with a grid of axes, apart from pyplot's global list of figures."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options).tolist()


def line(style: Style) -> dict[str, Any]:
    """How a curve is drawn."""
    return {"color": LIGHT[style.colour], "linestyle": DASHES[style.dash], "linewidth": 1.4}


def by_round(axes: Axes) -> None:
    """A horizontal axis of rounds: whole numbers from 0 on."""
    axes.set_xlabel("round")
    axes.set_xlim(left=0)
    axes.locator_params(axis="x", integer=True)


def check_path(path: Path) -> None:
    """Refuse a file that no format belongs to before anything is computed."""
    if path.suffix.lower() not in FORMATS:
        raise SettingsError(f"--out {path}: the ending says the format, and it must be {', '.join(FORMATS)}")


def save(figure: Figure, path: Path) -> Path:
    """Write a figure, the same bytes every time."""
    check_path(path)
    stamp = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}.get(path.suffix.lower())
    with look():
        return write(path, lambda temporary: figure.savefig(temporary, metadata=stamp))
