"""Pieces of the report's page that are not plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from fedprof.report.comparison import Comparison, Series
from fedprof.report.numbers import plain
from fedprof.report.palette import Style
from fedprof.report.plots import Plot
from fedprof.report.stored import Stored
from fedprof.report.table import COLUMNS, Line, Table

LONG = 32
"""Facts of more letters than this get two columns."""


def figure(plot: Plot, number: int) -> str:
    """The place of a plot."""
    about = f' data-panel="{escape(plot.label)}"' if plot.label else ""
    note = f' <span class="note">{escape(plot.note)}</span>' if plot.note else ""
    caption = f"<figcaption>{escape(plot.title)}{note}</figcaption>" if plot.title or plot.note else ""
    return (
        f'<figure{about}>{caption}<div class="plot" id="plot-{number}" style="height:{plot.height}px"></div></figure>'
    )


def chips(styles: Mapping[str, Style]) -> str:
    """One switch an algorithm, for all plots at once."""
    return "".join(_switch(label, style) for label, style in styles.items())


def legend_of(group: Sequence[Series], styles: Mapping[str, Style]) -> str:
    """The same switches again where curves are, for reading and for print."""
    labels = dict.fromkeys(series.label for series in group)
    return f'<div class="legend">{"".join(_switch(label, styles[label]) for label in labels)}</div>'


def _switch(label: str, style: Style) -> str:
    name = escape(label)
    return (
        f'<button type="button" class="switch" aria-pressed="true" data-switch="{name}">{_sample(style)}'
        f"<span>{name}</span></button>"
    )


def _sample(style: Style) -> str:
    return (
        f'<svg class="sample" viewBox="0 0 30 8" aria-hidden="true"><line x1="0" y1="4" x2="30" y2="4" '
        f'style="stroke:var(--{style.colour})" stroke-width="2" stroke-dasharray="{style.stroke}"/></svg>'
    )


def swatches(colours: Mapping[str, str]) -> str:
    """What colours mean where they do not mean algorithms."""
    parts = [f'<span><i style="background:var(--{token})"></i>{escape(name)}</span>' for name, token in colours.items()]
    return f'<div class="legend">{"".join(parts)}</div>'


def subtitle(comparison: Comparison) -> str:
    """The task in words, where its settings say them."""
    title = comparison.settings.get("title")
    return f'<p class="subtitle">{escape(title)}</p>' if title else ""


def table(summary: Table, styles: Mapping[str, Style]) -> str:
    """The paper's table."""
    head = "".join(f"<th>{name}</th>" for name in (*COLUMNS, "Reached"))
    bodies = []
    for mode, rows in summary.groups:
        lines = "".join(
            _line(line, styles[row.series.label], row.series.label)
            for line, row in zip(summary.lines(rows), rows, strict=True)
        )
        bodies.append(f'<tbody><tr class="group"><th colspan="6">{mode} aggregation</th></tr>{lines}</tbody>')
    notes = "".join(f"<p>{escape(note)}</p>" for note in summary.notes)
    goal = "" if summary.goal is None else f" to accuracy {summary.goal:g}"
    return (
        f'<section class="block"><div class="head"><h3>Accuracy, and the cost of getting there</h3>'
        f'<p class="lead">Best accuracy of the global model; rounds, virtual time and energy{goal}. '
        f'{summary.seeds}.</p></div><div class="scroll"><table><thead><tr><th></th>{head}</tr></thead>'
        f"{''.join(bodies)}</table></div>"
        f'<div class="notes">{notes}</div></section>'
    )


def _line(line: Line, style: Style, label: str) -> str:
    cells = "".join(f'<td class="best">{c.text}</td>' if c.best else f"<td>{c.text}</td>" for c in line.cells)
    name = f'<th scope="row">{_sample(style)}{escape(line.name)}</th>'
    return f'<tr data-row="{escape(label)}">{name}{cells}<td>{line.reached}</td></tr>'


def facts(comparison: Comparison) -> str:
    """The main settings."""
    items = "".join(_fact(key, value) for key, value in _main(comparison, comparison.series[0].runs[0]))
    return f'<section class="block"><dl class="facts">{items}</dl></section>'


def settings(comparison: Comparison) -> str:
    """All settings, folded away on a screen."""
    return (
        f'<section class="block"><details><summary>All settings</summary>'
        f'<div class="columns">{_tree(comparison.settings)}{_parameters(comparison)}</div></details></section>'
    )


def _fact(key: str, value: str) -> str:
    width = ' class="long"' if len(value) > LONG else ""
    return f"<div{width}><dt>{escape(key)}</dt><dd>{escape(value)}</dd></div>"


def _main(comparison: Comparison, run: Stored) -> list[tuple[str, str]]:
    tree = comparison.settings
    training, federation = tree.get("training", {}), tree.get("federation", {})
    rounds = sorted({one.rounds for one in comparison.runs})
    seeds = sorted({one.seed for one in comparison.runs})
    versions = run.facts.get("versions", {})
    bad = {kind: sum((row.kind or "normal") == kind for row in run.clients) for kind in run.kinds()}
    facts = {
        "Clients": f"{len(run.clients)} ({', '.join(f'{count} {kind}' for kind, count in bad.items())})",
        "Drawn a round": f"{federation['fraction']:.0%}" if "fraction" in federation else "",
        "Model": tree.get("model", {}).get("name", ""),
        "Training": f"{training['epochs']} epochs, batch {training['batch']}, rate {plain(training['rate'])}"
        if training
        else "",
        "Goal": "" if run.goal is None else f"accuracy {run.goal:g}",
        "Rounds": " or ".join(map(str, rounds)),
        "Seeds": ", ".join(map(str, seeds)),
        "Engine": str(run.facts.get("engine") or ""),
        "Versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }
    return [(key, value) for key, value in facts.items() if value]


def _tree(tree: Mapping[str, Any], prefix: str = "") -> str:
    rows = "".join(
        f"<div><dt>{escape(prefix + key)}</dt><dd>{escape(plain(value))}</dd></div>"
        for key, value in tree.items()
        if not isinstance(value, Mapping) and value is not None
    )
    nested = "".join(_tree(value, f"{prefix}{key}.") for key, value in tree.items() if isinstance(value, Mapping))
    return (f'<dl class="all">{rows}</dl>' if rows else "") + nested


def _parameters(comparison: Comparison) -> str:
    named = {series.key: series.runs[0].parameters for series in comparison.series if series.runs[0].parameters}
    return _tree(named)
