"""The report's plots, as Plotly understands them: plain mappings; colours are tokens (``@red``) the page resolves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from fedprof.report import gather
from fedprof.report.comparison import Comparison, Series
from fedprof.report.gather import Against, Band
from fedprof.report.palette import PHASES, Style, kind_colour
from fedprof.report.stored import Stored

Trace = dict[str, Any]
AXES: dict[Against, str] = {"rounds": "round", "minutes": "virtual time (minutes)", "energy": "energy (Wh)"}
UNIFIED = {"hovermode": "x unified", "hoverdistance": -1}
"""Hovering says every curve's value at the nearest point, however far that is."""
CROWDED = 80
"""More bars than this stand without a gap."""
FLOOR = 1e-3
"""Scores below this part of an even chance are drawn alike."""


@dataclass(frozen=True)
class Plot:
    """One plot of the page."""

    title: str
    data: Sequence[Trace]
    layout: Mapping[str, Any]
    height: int
    label: str | None = None
    """The algorithm it is about, when about one alone: the plot goes when that one is switched off."""
    note: str = ""


def accuracy(comparison: Comparison, styles: Mapping[str, Style], against: Against) -> list[Plot]:
    """Accuracy of the global model: a panel a mode, a curve a series, a band of one standard deviation over seeds."""
    found = [(series, gather.accuracy(series, against)) for series in comparison.series]
    bands = [(series, band) for series, band in found if band is not None]
    if not bands:
        return []
    low = min(float(band.low.min()) for _, band in bands)
    high = max(float(band.high.max()) for _, band in bands)
    pad = 0.04 * (high - low or 1)
    layout: dict[str, Any] = {"xaxis": _axis(AXES[against], rangemode="tozero"), **UNIFIED}
    layout["yaxis"] = _axis("accuracy", range=[low - pad, high + pad])
    goal = comparison.goal
    if goal is not None:
        layout |= {"shapes": [_level(goal)], "annotations": [_level_name(goal, f"goal {goal:g}")]}
    panels = []
    for mode in comparison.modes:
        mine = [(series, band) for series, band in bands if series.aggregation == mode]
        data = [trace for series, band in mine for trace in _curve(series.label, band, styles[series.label])]
        panels += [Plot(f"{mode} aggregation", data, layout, 320)] if data else []
    return panels


def _curve(label: str, band: Band, style: Style) -> list[Trace]:
    x, mean = _short(band.x), _short(band.mean)
    line = {
        "x": x, "y": mean, "name": label, "meta": label, "mode": "lines", "hovertemplate": "%{y:.3f}",
        "line": {"color": f"@{style.colour}", "dash": style.dash, "width": 2},
    }  # fmt: skip
    if not band.std.any():
        return [line]
    ribbon = {
        "x": [*x, *reversed(x)], "y": _short(np.concatenate([band.high, band.low[::-1]])),
        "meta": label, "mode": "lines", "fill": "toself", "fillcolor": f"@{style.colour}", "opacity": 0.14,
        "line": {"width": 0}, "hoverinfo": "skip",
    }  # fmt: skip
    return [ribbon, line]


def shares(group: Sequence[Series], everybody: Stored, kinds: Sequence[str]) -> Plot:
    """Whose updates the server used: the share of each kind of data in all participations."""
    rows: list[tuple[str, str | None, dict[str, float]]] = []
    rows.append(("all clients", None, gather.shares_by_kind([everybody], of_clients=True)))
    rows += [(series.key, series.label, gather.shares_by_kind(series.runs)) for series in group]
    data = [
        _bar(name, label, kind, found.get(kind, 0.0), f"@{kind_colour(kind)}", "%{x:.1%}")
        for name, label, found in rows
        for kind in kinds
    ]
    layout = {**_stacked([name for name, _, _ in rows]), "xaxis": _axis("share of participations", tickformat=".0%")}
    return Plot("", data, layout, 90 + 30 * len(rows))


def phases(group: Sequence[Series], unit: str, title: str) -> Plot | None:
    """What one participation costs, by phase."""
    word, ticks = ("seconds", "%{x:.3g} s") if unit == "s" else ("joules", "%{x:.3g} J")
    found = [(series, gather.phase_means(series, "s" if unit == "s" else "j")) for series in group]
    rows = [(series, means) for series, means in found if means is not None]
    if not rows:
        return None
    data = [
        _bar(series.key, series.label, phase, mean, f"@{PHASES[phase]}", ticks)
        for series, means in rows
        for phase, mean in zip(gather.PHASES, means, strict=True)
    ]
    layout = {**_stacked([series.key for series, _ in rows]), "xaxis": _axis(word)}
    return Plot(title, data, layout, 90 + 30 * len(rows))


def participation(series: Series, most: int) -> Plot:
    """How often each client took part in one run, clients ordered by the quality of their data."""
    run = series.runs[0]
    selected = gather.counts(run)
    data, clients = [], run.by_quality()
    for kind, start, stop in gather.blocks(run):
        rows = clients[start:stop]
        data.append({
            "type": "bar", "x": list(range(start + 1, stop + 1)), "y": [selected.get(row.client, 0) for row in rows],
            "meta": series.label, "name": kind, "marker": {"color": f"@{kind_colour(kind)}", "line": {"width": 0}},
            "customdata": [[_name(row.name, row.client), row.samples] for row in rows],
            "hovertemplate": f"%{{customdata[0]}} ({escape(kind)}, %{{customdata[1]}} samples)"
            "<br>selected %{y} times<extra></extra>",
        })  # fmt: skip
    layout = {
        "xaxis": _axis("clients, best data first", showgrid=False),
        "yaxis": _axis("times selected", range=[0, most * 1.08], dtick=_step(most)),
        "bargap": 0.15 if len(clients) <= CROWDED else 0,
    }
    return Plot(series.key, data, layout, 210, series.label, note=f"seed {run.seed}, {run.rounds} rounds")


def heatmap(series: Series) -> Plot | None:
    """Scores over rounds, as multiples of an even chance."""
    run = series.runs[0]
    known = gather.field(run, "score")
    if known is None:
        return None
    clients = run.by_quality()
    relative = known.values * len(clients)
    names = [f"{_name(row.name, row.client)} ({escape(row.kind or 'normal')})" for row in clients]
    data = [{
        "type": "heatmap", "x": known.rounds, "y": list(range(1, len(clients) + 1)), "meta": series.label,
        "z": [_short(row) for row in np.log10(np.maximum(relative, FLOOR))], "zmin": -3, "zmax": 1,
        "customdata": [[name] * len(known.rounds) for name in names], "colorscale": "Cividis",
        "text": [[f"{value:.3g}" for value in row] for row in relative],
        "hovertemplate": "%{customdata}, round %{x}<br>%{text} times an even chance<extra></extra>",
        "colorbar": {"title": {"text": "× even chance", "side": "right"}, "thickness": 10, "outlinewidth": 0,
                     "tickvals": [-3, -2, -1, 0, 1], "ticktext": ["≤ 0.001", "0.01", "0.1", "1", "≥ 10"]},
    }]  # fmt: skip
    layout = {"xaxis": _axis("round", showgrid=False), **_kinds_at_the_side(run)}
    return Plot(series.key, data, layout, 360, series.label, note=f"seed {run.seed}")


def divergence_curves(series: Series) -> Plot | None:
    """Divergences the server knew, by kind of data: median and quartiles."""
    found = gather.divergence_by_kind(series.runs)
    if not found:
        return None
    data = []
    for kind in (kind for kind, _, _ in gather.blocks(series.runs[0]) if kind in found):
        quartiles, colour = found[kind], f"@{kind_colour(kind)}"
        x = quartiles.rounds
        data.append({
            "x": [*x, *reversed(x)], "y": _short(np.concatenate([quartiles.high, quartiles.low[::-1]])),
            "meta": series.label, "mode": "lines", "fill": "toself", "fillcolor": colour, "opacity": 0.16,
            "line": {"width": 0}, "hoverinfo": "skip",
        })  # fmt: skip
        data.append({
            "x": x, "y": _short(quartiles.median), "name": escape(kind), "meta": series.label, "mode": "lines",
            "line": {"color": colour, "width": 2}, "hovertemplate": "%{y:.3g}",
        })  # fmt: skip
    layout = {
        "xaxis": _axis("round"),
        "yaxis": _divergence([q.median for q in found.values()]),
        "hovermode": "x unified",
    }
    return Plot(series.key, data, layout, 320, series.label, note=f"median and quartiles, {_seeds(series)}")


def divergence_dots(series: Series) -> Plot | None:
    """Every client's last known divergence in one run."""
    run = series.runs[0]
    known = gather.field(run, "divergence")
    if known is None:
        return None
    clients, last = run.by_quality(), known.values[:, -1]
    data = []
    for kind, start, stop in gather.blocks(run):
        data.append({
            "x": list(range(start + 1, stop + 1)), "y": _short(last[start:stop]), "meta": series.label,
            "name": kind, "mode": "markers", "marker": {"color": f"@{kind_colour(kind)}", "size": 6},
            "text": [_name(row.name, row.client) for row in clients[start:stop]],
            "hovertemplate": f"%{{text}} ({escape(kind)})<br>divergence %{{y:.3g}}<extra></extra>",
        })  # fmt: skip
    layout = {
        "xaxis": _axis("clients, best data first", showgrid=False),
        "yaxis": _divergence([last]),
    }
    return Plot(f"{series.key}, every client", data, layout, 320, series.label, note=f"seed {run.seed}, last round")


def _divergence(values: Sequence[Any]) -> dict[str, Any]:
    """A logarithmic axis with ticks at 1, 2 and 5, or at powers of ten where the values go far apart."""
    positive = [value for part in values for value in part if value > 0]
    low, high = (int(np.floor(np.log10(end))) for end in (min(positive, default=1), max(positive, default=1)))
    steps = (1, 2, 5) if high - low < 3 else (1,)
    ticks = [float(f"{step}e{power}") for power in range(low - 1, high + 2) for step in steps]
    return _axis("divergence", type="log", tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks])


def _kinds_at_the_side(run: Stored) -> dict[str, Any]:
    """A vertical axis that names kinds of clients instead of clients, with a line between kinds."""
    blocks = gather.blocks(run)
    middles = [(start + stop + 1) / 2 for _, start, stop in blocks]
    lines = [
        {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": start + 0.5, "y1": start + 0.5,
         "line": {"color": "#ffffff", "width": 1.5}}
        for _, start, _ in blocks[1:]
    ]  # fmt: skip
    names = [f"{kind} " for kind, _, _ in blocks]
    axis = {"tickvals": middles, "ticktext": names, "autorange": "reversed", "showgrid": False, "ticks": ""}
    return {"yaxis": axis, "shapes": lines}


def _bar(row: str, label: str | None, part: str, value: float, colour: str, ticks: str) -> Trace:
    return {
        "type": "bar", "orientation": "h", "y": [row], "x": [float(f"{value:.5g}")], "name": part, "meta": label,
        "marker": {"color": colour, "line": {"width": 0}}, "hovertemplate": f"{escape(part)}: {ticks}<extra></extra>",
    }  # fmt: skip


def _stacked(rows: Sequence[str]) -> dict[str, Any]:
    axis = {"categoryorder": "array", "categoryarray": list(rows), "autorange": "reversed", "automargin": True}
    return {"barmode": "stack", "bargap": 0.35, "yaxis": {**axis, "ticks": "", "showgrid": False, "ticksuffix": " "}}


def _axis(title: str, **more: object) -> dict[str, Any]:
    return {"title": {"text": title}, **more}


def _level(value: float) -> dict[str, Any]:
    line = {"color": "@grey", "width": 1, "dash": "dot"}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": value, "y1": value, "line": line}


def _level_name(value: float, text: str) -> dict[str, Any]:
    place = {"xref": "paper", "x": 1, "xanchor": "right", "y": value, "yanchor": "top", "showarrow": False}
    return {**place, "text": text, "font": {"size": 11, "color": "@grey"}}


def _step(most: int) -> int:
    """A round distance between ticks, some five of them."""
    digits = int("1" + "0" * (len(str(most // 4)) - 1))
    return max(1, most // 4 // digits * digits)


def _short(values: Any) -> list[float | None]:
    """Five digits are more than a screen shows; what is not finite is left out."""
    return [float(f"{value:.5g}") if np.isfinite(value) else None for value in values]


def _name(name: str | None, client: int) -> str:
    return escape(name or f"client-{client}")


def _seeds(series: Series) -> str:
    return f"{len(series.runs)} seed{'s' if len(series.runs) > 1 else ''}"
