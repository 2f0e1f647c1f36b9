"""From runs to the results folder, and from the results folder to the tables, figures and the page."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from fedprof.report.files import write_text
from fedprof.report.stored import read
from fedprof.report.table import FORMATS, Table
from fedprof.reproduction import pictures, sweeps
from fedprof.reproduction.archive import ENDING, pack
from fedprof.reproduction.experiments import GROUPS, Experiment
from fedprof.reproduction.page import render
from fedprof.reproduction.results import Outcome, load
from fedprof.reproduction.studies import BEYOND, STUDIES, Study
from fedprof.reproduction.sweeps import Trial
from fedprof.simulation.store import Store

MOST_SEEDS = 20
DRAWN_ELSEWHERE = {"1": "figure-1.png", "2a": "figure-2a.png", "2b": "figure-2b.png"}
"""Figures that need training, not runs of the tables: `fedprof figure` draws them into the results folder."""


def archive(experiment: Experiment, work: Path, out: Path) -> Path | None:
    """Write the histories of an experiment's complete runs; None where there is none."""
    complete = complete_runs(experiment, work)
    return pack(complete, out / "histories" / f"{experiment.name}{ENDING}") if complete else None


def complete_runs(experiment: Experiment, work: Path) -> list[Path]:
    """An experiment's runs, known by their settings; complete are those that went as far as any of their mode did."""
    folder = work / experiment.plan("fedavg", "full", 0).settings.name
    files = {_identity(read(path).plan): path for path in sorted(folder.glob("*.sqlite")) if _begun(path)}
    found: list[Path] = []
    for mode in GROUPS:
        plans = [plan for plan in experiment.plans(range(MOST_SEEDS)) if plan.server.combines.mode == mode]
        mine = [path for plan in plans if (path := files.get(_identity(plan.describe())))]
        rounds = {path: read(path).rounds for path in mine}
        found += [path for path in mine if rounds[path] == max(rounds.values())]
    return found


def _identity(plan: Mapping[str, Any]) -> str:
    return json.dumps(plan, sort_keys=True)


def _begun(path: Path) -> bool:
    """Whether a round is recorded: a run that is just starting has none."""
    with closing(Store.open(path, read_only=True)) as store:
        return store.last_round() is not None


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
        drawn = {**pictures.draw_paper(outcomes, out / "figures"), **_drawn_elsewhere(out)}
        drawn |= _draw_studies(trials, out)
        return write_text(page, render(outcomes, trials, drawn, page))


def _write_table(name: str, outcome: Outcome, out: Path) -> None:
    table = Table.of(outcome.comparison)
    for ending, form in FORMATS.items():
        write_text(out / "tables" / f"{name}.{ending}", form(table))


def _drawn_elsewhere(out: Path) -> dict[str, Path]:
    paths = {number: out / "figures" / name for number, name in DRAWN_ELSEWHERE.items()}
    return {number: path for number, path in paths.items() if path.exists()}


def _draw_studies(trials: Mapping[str, list[Trial]], out: Path) -> dict[str, Path]:
    return {
        study.name: pictures.draw_study(study.name, trials[study.name], out / "figures" / f"study-{study.name}.png")
        for study in BEYOND
        if study.name in trials
    }
