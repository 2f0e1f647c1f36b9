"""``docs/reproduction.md``, written from the results folder and from nothing else."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fedprof.report import numbers
from fedprof.report.comparison import NAMES
from fedprof.report.numbers import Spread, written
from fedprof.reproduction.claims import CLAIMS
from fedprof.reproduction.experiments import EXPERIMENTS, GROUPS
from fedprof.reproduction.judges import OPEN, Verdict
from fedprof.reproduction.paper import TABLES
from fedprof.reproduction.results import Entry, Outcome, planned
from fedprof.reproduction.statistics import Paired, paired
from fedprof.reproduction.studies import BEYOND, TUNING, Study
from fedprof.reproduction.sweeps import Trial, means

PLACES = (numbers.ACCURACY, numbers.ROUNDS, numbers.MINUTES, numbers.WATT_HOURS)
INTRODUCTION = """# Reproduction

The paper's experiments, run again with this package. This page is generated from `results/` alone
(`fedprof reproduce --render`); `fedprof reproduce` makes the runs that are missing. What had to be chosen or done
differently is in [deviations.md](deviations.md).

Figures are means ± standard deviations over seeds. Best accuracy is over all rounds; rounds, time and energy (both
virtual) are until the goal was first reached, over the seeds that reached it. A seed fixes the data dealt out, the
damage, the devices and the first model for all algorithms alike, so tests are paired by seed: Student's paired t-test
(p < 0.05 counts as significant; it is not corrected for the number of comparisons) and, beside it, Wilcoxon's
signed-rank test, which cannot fall below 0.0625 with five seeds.
"""


def render(
    outcomes: Mapping[str, Outcome],
    studies: Mapping[str, Sequence[Trial]],
    pictures: Mapping[str, Path],
    page: Path,
) -> str:
    """Write the whole page; ``page`` is where it will stand, so that links are right."""
    parts = [
        INTRODUCTION,
        *_missing(outcomes),
        "## The paper's claims\n",
        *_claims(outcomes),
        *(part for outcome in outcomes.values() for part in _experiment(outcome)),
        "## Figures\n",
        *_figures(pictures, page),
        "## Beyond the paper\n",
        *(part for study in BEYOND for part in _study(study, studies.get(study.name), pictures.get(study.name), page)),
        "## How the presets' numbers were chosen\n",
        *(part for study in TUNING for part in _study(study, studies.get(study.name), None, page)),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _missing(outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    """Which rows have how many seeds, where that is not the same everywhere."""
    yield "## What there is\n"
    yield "| experiment | aggregation | seeds of each row | rounds | engine | PyTorch |\n|---|---|---|---|---|---|"
    for experiment in EXPERIMENTS:
        outcome = outcomes.get(experiment.name)
        if outcome is None:
            if not experiment.optional:
                yield f"| {experiment.title} | | **no run yet** | | | |"
            continue
        for mode in GROUPS:
            counts = [(name, outcome.get(name, mode)) for name in GROUPS[mode]]
            seeds = ", ".join(f"{NAMES[name]} {len(entry.runs) if entry else '**none**'}" for name, entry in counts)
            runs = [one.run for _, entry in counts if entry for one in entry.runs]
            rounds = ", ".join(sorted({f"{run.rounds} of {planned(run)}" for run in runs}))
            engines = ", ".join(sorted({str(run.facts["engine"]) for run in runs}))
            versions = ", ".join(sorted({f"{run.facts['versions'].get('torch', '')}" for run in runs}))
            yield f"| {experiment.title} | {mode} | {seeds} | {rounds} | {engines} | {versions} |"
    yield ""


def _claims(outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    judged = Counter(finding.verdict for claim in CLAIMS for _, finding in claim.findings(outcomes))
    yield ", ".join(f"{count} {verdict}" for verdict in Verdict if (count := judged[verdict])).capitalize() + ".\n"
    yield "Confirmed: it holds, at the paper's size where the paper gives one, and significantly where it compares"
    yield "rounds, time or accuracy without one (or the other never reached the goal, on three seeds or more). In"
    yield "direction: it holds, but is smaller or not significant. A run that ended before the goal counts as having"
    yield "needed at least what it spent.\n"
    yield "| the paper says | section | on | verdict | measured |\n|---|---|---|---|---|"
    for claim in CLAIMS:
        for name, finding in claim.findings(outcomes) or [("-", OPEN)]:
            yield f"| {claim.text} | {claim.where} | {name} | **{finding.verdict}** | {finding.measured} |"
    yield ""


def _experiment(outcome: Outcome) -> Iterator[str]:
    number, paper = TABLES[outcome.experiment.task]
    goal = outcome.comparison.goal
    yield f"## {outcome.experiment.title}\n"
    yield f"Beside the paper's Table {number}; goal: accuracy {goal}.\n"
    for mode in GROUPS:
        group = outcome.group(mode)
        if not group:
            continue
        yield f"### {mode.capitalize()} aggregation\n"
        yield "| | best accuracy | paper | rounds | paper | minutes | paper | Wh | paper | reached |"
        yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
        for entry in group:
            theirs = [None if pair is None else Spread(*pair, 0) for pair in paper[mode][entry.algorithm]]
            cells = [
                written(spread, places)
                for ours, his, places in zip(entry.spreads, theirs, PLACES, strict=True)
                for spread in (ours, his)
            ]
            reached = f"{len(entry.to_goal('rounds'))}/{len(entry.runs)}"
            yield f"| {NAMES[entry.algorithm]} | {' | '.join(cells)} | {reached} |"
        yield ""
        yield from _tests(group)


def _tests(group: Sequence[Entry]) -> Iterator[str]:
    """FedProf against each baseline."""
    ours = next((entry for entry in group if entry.algorithm == "fedprof"), None)
    if ours is None or len(group) < 2:
        return
    yield "FedProf minus each baseline, paired by seed (95 % interval; p of t-test / Wilcoxon; number of pairs):\n"
    yield "| against | best accuracy | rounds to the goal | minutes to the goal |\n|---|---|---|---|"
    for other in group:
        if other.algorithm == "fedprof":
            continue
        tests = [
            _test(paired(ours.best, other.best), 3),
            _test(paired(ours.to_goal("rounds"), other.to_goal("rounds")), 1),
            _test(paired(ours.to_goal("minutes"), other.to_goal("minutes")), 1),
        ]
        yield f"| {NAMES[other.algorithm]} | {' | '.join(tests)} |"
    yield ""


def _test(test: Paired | None, places: int) -> str:
    if test is None:
        return "no pair of seeds reached it"
    text = f"{test.difference:+.{places}f}"
    if test.low is None or test.high is None or test.t_test is None:
        return f"{text} ({test.count})"
    signed = "-" if test.wilcoxon is None else f"{test.wilcoxon:.3f}"
    return f"{text} [{test.low:+.{places}f}, {test.high:+.{places}f}]; {test.t_test:.4f} / {signed}; {test.count}"


CAPTIONS = {
    "1": "Figure 1: FedAvg on MNIST over 100 clients, under four conditions of the data (`fedprof figure conditions`).",
    "2a": "Figure 2a: representations of LeNet-5's FC-1 on MNIST after 1, 6 and 10 epochs "
    "(`fedprof figure normality-fc`).",
    "2b": "Figure 2b: fused representations of ResNet-18, after one epoch of 5,000 images of CIFAR-10 "
    "(the paper: 100 epochs of CIFAR-100; `fedprof figure normality-conv`).",
    "4": "Figure 4: accuracy by round, full aggregation; bands are one standard deviation over seeds.",
    "5": "Figure 5: accuracy by round, partial aggregation.",
    "6": "Figure 6: how often each client took part with FedProf (seed 0), clients ordered by data quality.",
    "7": "Figure 7: FedProf's normalised scores on CIFAR-10 (seed 0) over the rounds.",
}


def _figures(pictures: Mapping[str, Path], page: Path) -> Iterator[str]:
    for number, caption in CAPTIONS.items():
        if number in pictures:
            yield f"![{caption}]({_link(pictures[number], page)})\n\n*{caption}*\n"
        else:
            yield f"*{caption}* Not drawn yet: its runs are missing.\n"


def _study(study: Study, trials: Sequence[Trial] | None, picture: Path | None, page: Path) -> Iterator[str]:
    yield f"### {study.title}\n"
    seeds = ", ".join(map(str, study.seeds))
    about = f"{study.what[0].upper()}{study.what[1:]}. " if study.what else ""
    yield f"{about}`{study.name}`: {study.rounds} rounds, seeds {seeds}.\n"
    if not trials:
        yield "No run yet.\n"
        return
    if picture is not None:
        yield f"![{study.title}]({_link(picture, page)})\n"
    yield "| point | algorithm | seeds | best accuracy | mean accuracy | rounds to goal | bad clients' part |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for mean in means(trials):
        rounds = (
            f"{mean.rounds_to_goal:.1f}" if mean.rounds_to_goal is not None else f"{mean.reached}/{mean.seeds} reached"
        )
        yield (
            f"| {mean.point} | {mean.name} | {mean.seeds} | {mean.best_accuracy:.4f} | {mean.mean_accuracy:.4f} "
            f"| {rounds} | {100 * mean.share_of_bad:.1f} % |"
        )
    yield ""


def _link(picture: Path, page: Path) -> str:
    return Path(os.path.relpath(picture, page.parent)).as_posix()
