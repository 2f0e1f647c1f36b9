"""The figures of the page: the paper's 4 to 7 out of the archives, and one a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedprof.report.comparison import Comparison
from fedprof.report.figures import heatmap, participation, traces
from fedprof.report.figures.style import line, look, save, sheet
from fedprof.report.palette import ALGORITHMS, Style
from fedprof.reproduction.results import Outcome
from fedprof.reproduction.sweeps import Mean, Trial, means

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LETTERS = 6
"""Longer names of points stand aslant."""
BY_PARTICIPATION = {"validation"}
"""Studies whose runs differ in what accuracy is measured on."""


def draw_paper(outcomes: Mapping[str, Outcome], folder: Path) -> dict[str, Path]:
    """Draw Figures 4 to 7 as far as there are results; return what was drawn, by the figure's number."""
    shown = [outcome for outcome in outcomes.values() if outcome.runs]
    drawn: dict[str, Path] = {}
    for number, mode in (("4", "full"), ("5", "partial")):
        group = [outcome.comparison for outcome in shown if outcome.comparison.group(mode)]
        if group:
            drawn[number] = save(traces.draw(group, mode), folder / f"figure-{number}.png")
    counted = _first_seeds([one for one in shown if one.experiment.task in ("gasturbine", "emnist")])
    if counted:
        drawn["6"] = save(participation.draw(counted), folder / "figure-6.png")
    scored = _first_seeds([one for one in shown if one.experiment.task == "cifar10"])
    if scored:
        drawn["7"] = save(heatmap.draw(scored), folder / "figure-7.png")
    return drawn


def _first_seeds(outcomes: Sequence[Outcome]) -> list[Comparison]:
    """FedProf's runs whose participation is archived."""
    found = []
    for outcome in outcomes:
        series = [
            type(one)(one.label, one.algorithm, one.aggregation, detailed)
            for one in outcome.comparison.series
            if (detailed := [run for run in one.runs if run.clients])
        ]
        if series:
            found.append(Comparison(outcome.comparison.title, outcome.comparison.settings, series))
    return found


def draw_study(name: str, trials: Sequence[Trial], path: Path) -> Path:
    """Draw mean accuracy, and the share of participations by bad clients, against the study's points."""
    with look():
        shares = any(mean.share_of_bad for mean in means(trials))
        panels = [] if name in BY_PARTICIPATION else [("accuracy, mean of all rounds", "mean_accuracy")]
        panels += [("participations by bad clients", "share_of_bad")] if shares else []
        figure, (row,) = sheet(1, len(panels), 3.5 * len(panels), 2.6)
        for axes, (label, column) in zip(row, panels, strict=True):
            _panel(axes, trials, column, label)
        row[0].legend(frameon=False)
    return save(figure, path)


def _panel(axes: Axes, trials: Sequence[Trial], column: str, label: str) -> None:
    points = list(dict.fromkeys(trial.point for trial in trials))
    for name in dict.fromkeys(trial.name for trial in trials):
        mine = [trial for trial in trials if trial.name == name]
        style = ALGORITHMS.get(mine[0].algorithm, Style("ink"))
        known: list[Mean] = means(mine)
        places = [points.index(mean.point) for mean in known]
        look_of = line(style) if _numbers(points) else {**line(style), "linestyle": "none"}
        axes.plot(places, [getattr(mean, column) for mean in known], label=name, marker="o", markersize=5, **look_of)
        dots = [(points.index(trial.point), getattr(trial, column)) for trial in mine]
        axes.plot(
            *zip(*dots, strict=True), linestyle="none", marker=".", markersize=3, color=axes.lines[-1].get_color()
        )
    axes.set_xticks(range(len(points)), points)
    if max(map(len, points)) > MOST_LETTERS:
        axes.tick_params(axis="x", labelrotation=25)
        for tick in axes.get_xticklabels():
            tick.set_horizontalalignment("right")
    axes.set_ylabel(label)


def _numbers(points: Sequence[str]) -> bool:
    """Whether a line between the points means anything."""
    return all(point.rstrip("%").replace(".", "", 1).isdigit() for point in points)
