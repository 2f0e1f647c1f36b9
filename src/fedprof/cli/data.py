"""``fedprof data``: get, check and look at the data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedprof.cli import completion
from fedprof.cli.options import DataDir, Overrides, TaskName
from fedprof.errors import DataError

if TYPE_CHECKING:
    from fedprof.data.catalogue import Source

data = typer.Typer(
    help="Get, check and look at the public data sets.\n\nExample:\n- `fedprof data fetch mnist` - then `run mnist`",
    no_args_is_help=True,
)
MEGABYTE = 1e6
Names = Annotated[
    list[str] | None,
    typer.Argument(help="Data sets; default: all.", show_default=False, autocompletion=completion.sources),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(data, name="data")


@data.command("list")
def listing(folder: DataDir = None) -> None:
    """List the public data sets, and which of them are here.

    Example:
    - `fedprof data list` - with their sizes
    """
    from fedprof.data.catalogue import SOURCES, data_home

    typer.echo(f"in {data_home(folder)}")
    for source in SOURCES.values():
        typer.echo(f"{source.name:<11} {_state(source, folder):<26} {source.title}; {_size(source)}")


@data.command("fetch")
def fetch(
    names: Names = None,
    folder: DataDir = None,
    force: Annotated[bool, typer.Option(help="Also replace usable files that are not the official ones.")] = False,
) -> None:
    """Download data sets; an interrupted download goes on, and every file is checked.

    Examples:
    - `fedprof data fetch mnist` - one
    - `fedprof data fetch --data /scratch/data` - all, into a folder of your own
    """
    from fedprof.data.download import fetch as download

    for source in _sources(names):
        with _progress(source.name) as progress:
            paths = download(source, folder, progress, force=force)
        typer.echo(f"{source.name}: {len(paths)} file{'s' if len(paths) != 1 else ''} in place")


@data.command("verify")
def verify(names: Names = None, folder: DataDir = None) -> None:
    """Compare every file with its published checksum; exit code 1 if one is wrong, or missing from a set named.

    Example:
    - `fedprof data verify mnist` - without a name: all that are here
    """
    from fedprof.data.sources import verify as inspect

    bad = 0
    for source in _sources(names):
        findings = inspect(source, folder)
        if not names and findings and all(found.state == "missing" for found in findings):
            continue
        if not findings:
            typer.echo(f"ok    {source.name}: comes with the package")
        for found in findings:
            typer.echo(f"{'ok   ' if found.usable else 'WRONG'} {found.file.path}: {found.note}")
            bad += not found.usable
    if bad:
        raise DataError(f"{bad} file{'s are' if bad > 1 else ' is'} wrong or missing: `fedprof data fetch` gets them")


@data.command("preview")
def preview(
    task: TaskName,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A .png, .pdf or .svg; default: TASK-data.png.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides who holds what, and what is wrong with it.")] = 0,
    overrides: Overrides = None,
    folder: DataDir = None,
) -> None:
    """Draw what each kind of client of a task holds.

    Example:
    - `fedprof data preview digits` - writes digits-data.png
    """
    from fedprof.data.catalogue import SOURCES
    from fedprof.data.preview import preview as draw
    from fedprof.report.figures.style import check_path
    from fedprof.report.files import write
    from fedprof.tasks.data import prepare
    from fedprof.tasks.load import plan

    chosen = plan(task, seed=seed, overrides=overrides or ())
    path = out or Path(f"{chosen.settings.name}-data.png")
    check_path(path)
    prepared, _ = prepare(chosen.settings, chosen.seed, folder)
    source = SOURCES.get(chosen.settings.data.source)
    features = source.features if source else None
    typer.echo(str(write(path, lambda temporary: draw(prepared.clients, temporary, features=features))))


def _sources(names: list[str] | None) -> list[Source]:
    from fedprof.data.sources import SOURCES, find_source

    return [find_source(name) for name in names or SOURCES]


def _state(source: Source, folder: Path | None) -> str:
    """Whether the files are there; their content is for `verify`."""
    from fedprof.data.catalogue import data_home

    if not source.downloads:
        return "comes with the package"
    there = sum((data_home(folder) / file.path).is_file() for file in source.files)
    return "here" if there == len(source.files) else f"{there} of {len(source.files)} files" if there else "not here"


def _size(source: Source) -> str:
    kind = f"{source.classes} classes" if source.classes else "regression"
    download = f", {source.size / MEGABYTE:.0f} MB" if source.size else ""
    return f"{source.samples:,} samples, {kind}{download}"


@contextmanager
def _progress(name: str) -> Iterator[Callable[[str, int, int | None], None]]:
    """A bar in a terminal; elsewhere a line a file."""
    if not sys.stderr.isatty():
        said: set[str] = set()

        def say(file: str, _done: int, total: int | None) -> None:
            if file not in said:
                said.add(file)
                sys.stderr.write(f"{name}: {file}{f', {total / MEGABYTE:.1f} MB' if total else ''}\n")

        yield say
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        lines = {}

        def move(file: str, done: int, total: int | None) -> None:
            if file not in lines:
                lines[file] = bars.add_task(file, total=total)
            bars.update(lines[file], completed=done, total=total)

        yield move
