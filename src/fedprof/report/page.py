"""The report: one page that holds everything it needs and asks nobody for anything."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from fedprof import __version__
from fedprof.report import gather, html, plots
from fedprof.report.comparison import Comparison, Series
from fedprof.report.gather import Against
from fedprof.report.palette import DARK, LIGHT, PHASES, Style, kind_colour, series_styles
from fedprof.report.plots import Plot
from fedprof.report.table import Table

AGAINST: dict[Against, str] = {"rounds": "rounds", "minutes": "virtual time", "energy": "energy"}


@dataclass
class Page:
    """A page under construction: its text, and the plots that go into it by number."""

    styles: Mapping[str, Style]
    parts: list[str] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)

    def section(
        self, title: str, lead: str, found: Iterable[Plot | None], legend: str = "", kind: str = "pair"
    ) -> None:
        """Add a section with plots; without any plot there is no section."""
        drawn = [plot for plot in found if plot is not None]
        if not drawn:
            return
        figures = [html.figure(plot, len(self.plots) + i) for i, plot in enumerate(drawn)]
        self.plots += drawn
        self.parts.append(
            f'<section class="block"><div class="head"><h3>{title}</h3><p class="lead">{lead}</p>{legend}</div>'
            f'<div class="{kind}">{"".join(figures)}</div></section>'
        )


def render(comparisons: Sequence[Comparison]) -> str:
    """Write the page."""
    every = [series for comparison in comparisons for series in comparison.series]
    page = Page(series_styles((series.label, series.algorithm) for series in every))
    for comparison in comparisons:
        _chapter(page, comparison)
    runs = sum(len(series.runs) for series in every)
    titles = ", ".join(dict.fromkeys(comparison.title for comparison in comparisons))
    return Template(_asset("page.html")).substitute(
        title=escape(titles),
        summary=f"{runs} run{'s' if runs != 1 else ''} · fedprof {escape(__version__)}",
        chips=html.chips(page.styles),
        body="\n".join(page.parts),
        style=_asset("page.css"),
        plots=_json([{"data": plot.data, "layout": plot.layout} for plot in page.plots]),
        colours=_json({"light": LIGHT, "dark": DARK}),
        script=_asset("page.js"),
        plotly=_plotly(),
    )


def _chapter(page: Page, comparison: Comparison) -> None:
    group, first = comparison.series, comparison.series[0].runs[0]
    page.parts.append(f"<h2>{escape(comparison.title)}</h2>{html.subtitle(comparison)}")
    page.parts.append(html.facts(comparison))
    page.parts.append(html.table(Table.of(comparison), page.styles))
    lines, kinds = html.legend_of(group, page.styles), html.swatches({k: kind_colour(k) for k in first.kinds()})
    _accuracy(page, comparison, lines)
    page.section(
        "Whose data the model learnt from",
        "Share of each kind of data among the clients, and in everything the server used.",
        [plots.shares(group, first, first.kinds())],
        kinds,
        "single",
    )
    most = max(max(gather.counts(series.runs[0]).values(), default=1) for series in group)
    page.section(
        "Participation, client by client",
        "How often each client was selected, clients ordered by the quality of their data.",
        [plots.participation(series, most) for series in group],
        kinds,
    )
    page.section(
        "Scores",
        "The server's score of every client, as a multiple of an even chance of being drawn.",
        [plots.heatmap(series) for series in group],
    )
    _divergences(page, group, kinds)
    page.section(
        "What a participation costs",
        "Mean over all participations, by phase. Uploads include the profile where there is one.",
        [plots.phases(group, "s", "Time"), plots.phases(group, "j", "Energy")],
        html.swatches(PHASES),
    )
    page.parts.append(html.settings(comparison))


def _accuracy(page: Page, comparison: Comparison, legend: str) -> None:
    seeds = max(len(series.runs) for series in comparison.series)
    band = " Bands: one standard deviation over seeds." if seeds > 1 else ""
    for against, title in AGAINST.items():
        page.section(
            f"Accuracy against {title}",
            f"Of the global model on the server's validation set.{band}",
            plots.accuracy(comparison, page.styles, against),
            legend,
        )


def _divergences(page: Page, group: Sequence[Series], kinds: str) -> None:
    pairs = [(plots.divergence_curves(series), plots.divergence_dots(series)) for series in group]
    page.section(
        "What the data look like to the server",
        "Divergence of clients' profiles from the server's baseline: small where the data are like the validation set.",
        [plot for pair in pairs for plot in pair],
        kinds,
    )


def _asset(name: str) -> str:
    return files("fedprof.report").joinpath("assets", name).read_text(encoding="utf-8")


def _plotly() -> str:
    return files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8")


def _json(value: Any) -> str:
    """For a script element: nothing in it can end the element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("&", "\\u0026")
