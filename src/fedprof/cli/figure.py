"""``fedprof figure``: the paper's figures for print."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedprof.cli import completion
from fedprof.cli.options import DataDir, Engine, Jobs, Overrides, Rounds
from fedprof.errors import SettingsError, unknown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fedprof.report.comparison import Comparison

FIGURES = {
    "conditions": "MNIST under four data conditions (runs what is missing)",
    "normality-fc": "LeNet-5's first dense layer on MNIST, after 1, 6 and 10 epochs (trains what is missing)",
    "normality-conv": "a convolution and a residual block of ResNet-18 on CIFAR-10 (trains what is missing)",
    "traces-full": "accuracy over rounds, full aggregation",
    "traces-partial": "accuracy over rounds, partial aggregation",
    "participation": "how often each client took part, best data first",
    "heatmap": "scores over rounds, with what every client's data suffer from",
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("figure")(figure)


def figure(
    name: Annotated[
        str, typer.Argument(help=", ".join(FIGURES), show_default=False, autocompletion=completion.figures)
    ],
    runs: Annotated[list[Path] | None, typer.Argument(help="Runs, or folders of runs.", show_default=False)] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A .pdf, .png or .svg; default: NAME.pdf.", show_default=False)
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            help="Make the runs of this task that are missing.", show_default=False, autocompletion=completion.tasks
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds to run, from 0 on.")] = 1,
    rounds: Rounds = None,
    epochs: Annotated[
        str | None,
        typer.Option(help="normality: after which epochs to look, e.g. 1,6,10.", show_default=False),
    ] = None,
    jobs: Jobs = None,
    overrides: Overrides = None,
    data: DataDir = None,
    engine: Engine = "auto",
) -> None:
    """Draw one of the paper's figures, from stored runs or by running what is missing.

    Examples:
    - `fedprof figure traces-partial runs/digits` - from stored runs, as PDF
    - `fedprof figure heatmap --task digits -o heatmap.png` - makes the run if it is not there
    - `fedprof figure conditions --rounds 20` - FedAvg on MNIST under four data conditions
    - `fedprof figure normality-fc --epochs 1,6,10` - trains LeNet-5 on MNIST
    """
    from fedprof.report.figures import style

    if name not in FIGURES:
        raise unknown("figure", name, FIGURES)
    given = {"runs": runs, "--task": task, "--epochs": epochs, "--rounds": rounds, "--set": overrides}
    _refuse_unused(name, [what for what, value in given.items() if value])
    path = out or Path(f"{name}.pdf")
    style.check_path(path)
    if name.startswith("normality"):
        drawn = _normality(name, epochs, data, engine)
    elif name == "conditions":
        drawn = _conditions(seeds, rounds, overrides or [], jobs, data, engine)
    else:
        algorithms = None if name.startswith("traces") else "fedprof"
        drawn = _of_runs(name, _comparisons(task, algorithms, runs, seeds, rounds, overrides or [], jobs, data, engine))
    style.save(drawn, path)
    typer.echo(str(path))


def _refuse_unused(name: str, given: list[str]) -> None:
    """What a figure has no use for is not passed over in silence."""
    making = {"--rounds", "--set"}
    if name.startswith("normality"):
        useful = {"--epochs"}
    elif name == "conditions":
        useful = making
    else:
        useful = {"runs", "--task"} | (making if "--task" in given else set())
    idle = [what for what in given if what not in useful]
    if idle:
        hint = " without --task" if "--task" in useful and making.issuperset(idle) else ""
        raise SettingsError(f"figure {name} has no use for {' and '.join(idle)}{hint}")


def _of_runs(name: str, comparisons: list[Comparison]) -> Figure:
    from fedprof.report.figures import heatmap, participation, traces

    if name == "heatmap":
        return heatmap.draw(comparisons)
    if name == "participation":
        return participation.draw(comparisons)
    return traces.draw(comparisons, name.removeprefix("traces-"))


def _comparisons(
    task: str | None,
    algorithms: str | None,
    runs: list[Path] | None,
    seeds: int,
    rounds: int | None,
    overrides: list[str],
    jobs: int | None,
    data: Path | None,
    engine: str,
) -> list[Comparison]:
    """The runs named, and those of the task, made where they are missing."""
    from fedprof.cli.batch import make_runs
    from fedprof.cli.compare import plans
    from fedprof.report.comparison import compare
    from fedprof.report.stored import read, read_all

    if not runs and not task:
        raise SettingsError("name runs to draw (files or folders), or a task to run with --task")
    found = read_all(runs or [])
    if task:
        folder = Path("runs") / Path(task).stem
        assignments = plans(task, algorithms, range(seeds), folder, rounds, overrides)
        make_runs(assignments, jobs, data, engine)
        found += [read(one.path, one.plan.rounds) for one in assignments]
    return compare(found)


def _conditions(
    seeds: int, rounds: int | None, overrides: list[str], jobs: int | None, data: Path | None, engine: str
) -> Figure:
    from fedprof.cli.batch import make_runs
    from fedprof.cli.compare import plans
    from fedprof.report.comparison import Series
    from fedprof.report.figures import conditions
    from fedprof.report.stored import read

    folder = Path("runs/conditions")
    made = {
        condition: plans("mnist", "fedavg", range(seeds), folder, rounds, [*changes, *overrides])
        for condition, changes in conditions.CONDITIONS.items()
    }
    make_runs([one for group in made.values() for one in group], jobs, data, engine)
    return conditions.draw(
        {
            condition: Series(condition, "fedavg", "full", [read(one.path, one.plan.rounds) for one in group])
            for condition, group in made.items()
        }
    )


def _normality(name: str, epochs: str | None, data: Path | None, engine: str) -> Figure:
    from fedprof.cli.progress import write
    from fedprof.data.sources import load
    from fedprof.report.figures import normality, snapshots

    lesson = snapshots.FULLY_CONNECTED if name == "normality-fc" else snapshots.CONVOLUTIONAL
    if epochs is not None:
        lesson = replace(lesson, epochs=_numbers(epochs))
    found = snapshots.representations(lesson, load(lesson.source, data), Path("runs/normality"), engine, write)
    return normality.draw(found, lesson.title, lesson.seed)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        numbers = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        numbers = ()
    if not numbers or numbers[0] < 1:
        raise SettingsError(f"--epochs {text}: whole numbers from 1 on, separated by commas, are wanted")
    return numbers
