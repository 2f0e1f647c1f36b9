"""``fedprof compare``: every algorithm on one task over several seeds, and the paper's table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedprof.cli import completion
from fedprof.cli.options import DataDir, Engine, Jobs, Overrides, Rounds, TaskName
from fedprof.errors import SettingsError

if TYPE_CHECKING:
    from fedprof.report.table import Table
    from fedprof.simulation.batch import Assignment


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compare")(compare)


def compare(
    task: TaskName,
    algorithms: Annotated[
        str | None,
        typer.Option(
            "--algorithms",
            "-a",
            help="Which, separated by commas; default: all. `fedprof-full` and `fedprof-partial` name one mode.",
            show_default=False,
            autocompletion=completion.algorithms,
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from 0 on.")] = 5,
    jobs: Jobs = None,
    rounds: Rounds = None,
    overrides: Overrides = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder of the runs and tables; default: runs/TASK.", show_default=False),
    ] = None,
    data: DataDir = None,
    engine: Engine = "auto",
) -> None:
    """Compare algorithms over several seeds, in parallel, and print the paper's table.

    Runs are files in a folder: the same command goes on after an interruption, and more seeds or rounds add to what
    is there. The table is also written as Markdown, CSV and LaTeX.

    Examples:
    - `fedprof compare digits` - every algorithm, five seeds
    - `fedprof compare emnist -a fedavg,fedprof --seeds 3` - some algorithms
    - `fedprof compare gasturbine --jobs 8 --set alpha=5` - eight runs at a time; alpha goes to FedProf alone
    """
    from fedprof.cli.batch import make_runs
    from fedprof.report.comparison import compare as compared
    from fedprof.report.stored import read
    from fedprof.report.table import Table

    folder = out or Path("runs") / Path(task).stem
    assignments = plans(task, algorithms, range(seeds), folder, rounds, overrides or ())
    make_runs(assignments, jobs, data, engine)
    (comparison,) = compared(read(one.path, one.plan.rounds) for one in assignments)
    table = Table.of(comparison)
    _show(table)
    written = ", ".join(str(path) for path in save(table, folder))
    typer.echo(f"Written: {written}\nNext: fedprof report {folder}")


def plans(
    task: str | Path,
    algorithms: str | None,
    seeds: range,
    folder: Path,
    rounds: int | None,
    overrides: list[str] | tuple[()],
) -> list[Assignment]:
    """The runs of a comparison, seed by seed."""
    from fedprof.simulation.batch import Assignment
    from fedprof.simulation.paths import default_path
    from fedprof.tasks.load import plan

    chosen = _versions(algorithms)
    if not chosen:
        raise SettingsError(f"--algorithms '{algorithms}' names none")
    names = sorted({name for name, _ in chosen})
    found = [
        plan(
            task, algorithm=name, aggregation=mode, rounds=rounds, seed=seed, overrides=_fitting(overrides, name, names)
        )
        for seed in seeds
        for name, mode in chosen
    ]
    return [Assignment(one, default_path(one, folder)) for one in found]


def save(table: Table, folder: Path) -> list[Path]:
    """Write a table into a folder in every form."""
    from fedprof.report.files import write_text
    from fedprof.report.table import FORMATS

    return [write_text(folder / f"table.{ending}", write(table)) for ending, write in FORMATS.items()]


def _show(table: Table) -> None:
    from fedprof.report.table import text

    bold = sys.stdout.isatty()
    typer.echo(text(table, (lambda cell: typer.style(cell, bold=True)) if bold else str))


def _versions(algorithms: str | None) -> list[tuple[str, str | None]]:
    """Algorithms with their aggregation mode; one that has both comes twice unless a mode is named with it."""
    from fedprof.algorithms import registry

    asked = [name.strip() for name in algorithms.split(",") if name.strip()] if algorithms else list(registry.NAMES)
    chosen: list[tuple[str, str | None]] = []
    for name in asked:
        stem, _, mode = name.rpartition("-")
        if mode in ("full", "partial") and stem:
            chosen.append((stem, mode))
        elif "aggregation" in registry.parameters(registry.find(name)):
            chosen += [(name, "full"), (name, "partial")]
        else:
            chosen.append((name, None))
    return list(dict.fromkeys(chosen))


def _fitting(overrides: list[str] | tuple[()], name: str, names: list[str]) -> list[str]:
    """Overrides without those that set a parameter which only other algorithms of the comparison have."""
    from fedprof.algorithms import registry

    mine = registry.parameters(registry.find(name))
    others = {key for other in names for key in registry.parameters(registry.find(other))} - set(mine)
    return [override for override in overrides if override.partition("=")[0].strip() not in others]
