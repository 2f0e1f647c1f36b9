"""The results of a study: one CSV row a run, and their means a point and algorithm."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import fmean

from fedprof.errors import StoreError
from fedprof.report.comparison import NAMES
from fedprof.report.files import write_text
from fedprof.report.gather import shares_by_kind
from fedprof.report.stored import read
from fedprof.reproduction.experiments import assignments
from fedprof.reproduction.studies import Study
from fedprof.simulation.batch import recorded_rounds


@dataclass(frozen=True)
class Trial:
    """One run of a study."""

    point: str
    algorithm: str
    mode: str
    seed: int
    rounds: int
    best_accuracy: float
    mean_accuracy: float
    """Over all rounds: high where learning is quick."""
    rounds_to_goal: int | None
    share_of_bad: float
    """Of all participations, the share by damaged clients."""

    @property
    def name(self) -> str:
        """The algorithm as the paper writes it."""
        return f"{NAMES.get(self.algorithm, self.algorithm.rpartition(':')[2])} ({self.mode})"


@dataclass(frozen=True)
class Mean:
    """A point and algorithm over its seeds."""

    point: str
    name: str
    seeds: int
    best_accuracy: float
    mean_accuracy: float
    rounds_to_goal: float | None
    """None unless every seed reached the goal."""
    reached: int
    share_of_bad: float


def gather(study: Study, work: Path) -> list[Trial]:
    """Read the runs of a study that are complete."""
    found = []
    points, plans = zip(*study.plans(), strict=True)
    for point, assignment in zip(points, assignments(plans, work), strict=True):
        if recorded_rounds(assignment) < study.rounds:
            continue
        run = read(assignment.path, study.rounds)
        accuracies = [row.accuracy or 0.0 for row in run.history[1:]]
        bad = 1 - shares_by_kind([run]).get("normal", 0.0)
        reached = None if run.reached is None else run.reached[0]
        found.append(
            Trial(
                point.label, run.algorithm, run.aggregation, run.seed, run.rounds, round(max(accuracies), 5),
                round(fmean(accuracies), 5), reached, round(bad, 5),
            )
        )  # fmt: skip
    return found


def save(trials: Sequence[Trial], path: Path) -> Path:
    """Write trials as CSV."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [field.name for field in fields(Trial)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(trial) for trial in trials)
    return write_text(path, out.getvalue())


def load(path: Path) -> list[Trial]:
    """Read trials from CSV."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return [_trial(row) for row in csv.DictReader(file)]
    except (KeyError, ValueError) as error:
        raise StoreError(f"{path} is not a table of trials ({error}); `fedprof reproduce` makes it") from error


def means(trials: Sequence[Trial]) -> list[Mean]:
    """Sum up, in the order of the trials."""
    groups: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        groups.setdefault((trial.point, trial.name), []).append(trial)
    return [_mean(point, name, group) for (point, name), group in groups.items()]


def _mean(point: str, name: str, group: Sequence[Trial]) -> Mean:
    reached = [trial.rounds_to_goal for trial in group if trial.rounds_to_goal is not None]
    return Mean(
        point,
        name,
        len(group),
        fmean(trial.best_accuracy for trial in group),
        fmean(trial.mean_accuracy for trial in group),
        fmean(reached) if len(reached) == len(group) else None,
        len(reached),
        fmean(trial.share_of_bad for trial in group),
    )


def _trial(row: dict[str, str]) -> Trial:
    return Trial(
        row["point"],
        row["algorithm"],
        row["mode"],
        int(row["seed"]),
        int(row["rounds"]),
        float(row["best_accuracy"]),
        float(row["mean_accuracy"]),
        int(row["rounds_to_goal"]) if row["rounds_to_goal"] else None,
        float(row["share_of_bad"]),
    )
