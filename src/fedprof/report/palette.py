"""Colours and dashes: Okabe and Ito's palette, told apart by the colour-blind, and every algorithm a dash of its own.

Colours are tokens; ``LIGHT`` and ``DARK`` say what they are on paper and on a dark screen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import cycle

LIGHT = {
    "ink": "#1b1f24",
    "blue": "#0072B2",
    "sky": "#56B4E9",
    "green": "#009E73",
    "orange": "#E69F00",
    "red": "#D55E00",
    "pink": "#CC79A7",
    "grey": "#8a9099",
    "pale": "#c9ced6",
}
DARK = {
    **LIGHT,
    "ink": "#e8eaed",
    "blue": "#2b8ad4",
    "sky": "#8fd3f7",
    "green": "#1db98c",
    "red": "#f07a2a",
    "pale": "#4b525c",
}


@dataclass(frozen=True)
class Style:
    """How one thing is drawn."""

    colour: str
    """A token of ``LIGHT`` and ``DARK``."""
    dash: str = "solid"
    """As Plotly names it."""

    @property
    def stroke(self) -> str:
        """The dash as SVG's ``stroke-dasharray``, for a line 2 wide."""
        return {"solid": "", "dot": "2 3", "dash": "7 4", "longdash": "12 4", "dashdot": "7 3 2 3"}.get(
            self.dash, "12 3 2 3"
        )


ALGORITHMS = {
    "fedavg": Style("ink", "dash"),
    "cfcfm": Style("blue", "dot"),
    "fedavg-rp": Style("sky", "dash"),
    "fedprox": Style("green", "dashdot"),
    "fedadam": Style("pink", "dot"),
    "afl": Style("orange", "longdash"),
    "fedprof": Style("red"),
}
_SPARE = [
    Style(colour, dash) for dash in ("longdashdot", "dashdot", "dot") for colour in ("grey", "blue", "green", "red")
]
KINDS = {
    "normal": "blue",
    "noise": "sky",
    "pixel": "sky",
    "blur": "orange",
    "irrelevant": "red",
    "polluted": "red",
    "mislabelled": "pink",
    "duplicated": "green",
    "missing": "grey",
}
PHASES = {"download": "sky", "profiling": "red", "training": "blue", "upload": "orange"}


def series_styles(pairs: Iterable[tuple[str, str]]) -> dict[str, Style]:
    """A style for every label, from ``(label, algorithm)``; what is not the paper's, or comes twice, gets a spare."""
    styles: dict[str, Style] = {}
    spare = cycle(_SPARE)
    for label, algorithm in pairs:
        if label not in styles:
            usual = ALGORITHMS.get(algorithm)
            styles[label] = next(spare) if usual is None or usual in styles.values() else usual
    return styles


def kind_colour(kind: str) -> str:
    """The token of a kind of data."""
    return KINDS.get(kind, "grey")
