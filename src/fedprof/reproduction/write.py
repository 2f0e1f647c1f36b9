"""From runs to the results folder, and from the results folder to the tables, figures and the page."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from fedprof.report.files import write_text
from fedprof.report.table import FORMATS, Table
from fedprof.reproduction import pictures, sweeps
from fedprof.reproduction.archive import ENDING, pack
from fedprof.reproduction.experiments import GROUPS, Experiment, assignments
from fedprof.reproduction.page import render
from fedprof.reproduction.results import Outcome, load
from fedprof.reproduction.studies import BEYOND, STUDIES, Study
from fedprof.reproduction.sweeps import Trial
from fedprof.simulation.batch import Assignment, recorded_rounds

MOST_SEEDS = 10
"""The seeds that chose the presets' numbers come after these (``TUNING_SEEDS``)."""
PRELIMINARY = {"1": "conditions", "2a": "normality-fc", "2b": "normality-conv"}
"""Figures of the paper's preliminary experiments, by the names that `fedprof figure` knows them by."""


def archive(experiment: Experiment, work: Path, out: Path) -> Path | None:
    """Write the histories of an experiment's complete runs; None where there is none."""
    complete = complete_runs(experiment, work)
    return pack(complete, out / "histories" / f"{experiment.name}{ENDING}") if complete else None


def complete_runs(experiment: Experiment, work: Path) -> list[Path]:
    """An experiment's runs that have all their rounds, or were cut together; not one that is still under way."""
    planned = assignments(list(experiment.plans(range(MOST_SEEDS))), work)
    begun = [(one, rounds) for one in planned if (rounds := recorded_rounds(one))]
    lengths = {mode: Counter(rounds for one, rounds in begun if _mode(one) == mode) for mode in GROUPS}
    return [one.path for one, rounds in begun if _complete(one, rounds, lengths[_mode(one)])]


def _complete(one: Assignment, rounds: int, lengths: Counter[int]) -> bool:
    return rounds >= one.plan.rounds or (rounds == max(lengths) and lengths[rounds] > 1)


def _mode(assignment: Assignment) -> str:
    return assignment.plan.server.combines.mode


def archive_study(study: Study, work: Path, out: Path) -> Path | None:
    """Write the complete runs of a study as a table; None where there is none."""
    trials = sweeps.gather(study, work)
    return sweeps.save(trials, out / "studies" / f"{study.name}.csv") if trials else None


def write_page(out: Path, page: Path) -> Path:
    """Write tables, figures and the page from the results folder."""
    with tempfile.TemporaryDirectory() as scratch:
        outcomes = load(out, Path(scratch))
        trials = {name: sweeps.load(path) for name in STUDIES if (path := out / "studies" / f"{name}.csv").exists()}
        for name, outcome in outcomes.items():
            _write_table(name, outcome, out)
        drawn = {**pictures.draw_paper(outcomes, out / "figures"), **preliminary(out, drawn=True)}
        drawn |= _draw_studies(trials, out)
        return write_text(page, render(outcomes, trials, drawn, page))


def _write_table(name: str, outcome: Outcome, out: Path) -> None:
    table = Table.of(outcome.comparison)
    for ending, form in FORMATS.items():
        write_text(out / "tables" / f"{name}.{ending}", form(table))


def preliminary(out: Path, *, drawn: bool) -> dict[str, Path]:
    """Where the preliminary figures are that are drawn, or will be that are not."""
    paths = {number: out / "figures" / f"figure-{number}.png" for number in PRELIMINARY}
    return {number: path for number, path in paths.items() if path.exists() == drawn}


def _draw_studies(trials: Mapping[str, list[Trial]], out: Path) -> dict[str, Path]:
    return {
        study.name: pictures.draw_study(study.name, trials[study.name], out / "figures" / f"study-{study.name}.png")
        for study in BEYOND
        if study.name in trials and len(study.points) > 1
    }
