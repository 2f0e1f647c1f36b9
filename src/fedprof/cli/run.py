"""``fedprof run``: one run of one algorithm on one task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedprof.cli import completion
from fedprof.cli.options import Aggregation, DataDir, Device, Engine, Log, Overrides, Rounds, TaskName, Workers

if TYPE_CHECKING:
    from fedprof.simulation.logging.base import Logger


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run")(run)


def run(
    task: TaskName = "digits",
    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm",
            "-a",
            help="`fedprof algorithms` lists them. [default: fedprof]",
            show_default=False,
            autocompletion=completion.algorithms,
        ),
    ] = None,
    aggregation: Aggregation = None,
    rounds: Rounds = None,
    seed: Annotated[
        int | None, typer.Option(help="Decides everything random. [default: 0]", show_default=False)
    ] = None,
    overrides: Overrides = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The run's file; default: a name under runs/.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON object on standard output.")] = False,
    data: DataDir = None,
    engine: Engine = "auto",
    workers: Workers = None,
    device: Device = None,
    log: Log = None,
) -> None:
    """Run one algorithm on one task, recording every round; the same command goes on after an interruption.

    Examples:
    - `fedprof run digits` - FedProf on the embedded task, seconds
    - `fedprof run gasturbine -a fedavg --rounds 100 --seed 1` - another task, algorithm and seed
    - `fedprof run digits --set alpha=5 --json` - another setting; figures for a program
    - `fedprof run my.toml` - a task of your own (`fedprof tasks show digits` prints one to start from)
    """
    from fedprof.cli.progress import progress, write
    from fedprof.simulation.paths import default_path
    from fedprof.tasks.load import plan

    chosen = plan(
        task, algorithm=algorithm, aggregation=aggregation, rounds=rounds, seed=seed, overrides=overrides or ()
    )
    path = out or default_path(chosen)
    loggers = _loggers(log or [], path)
    with progress() as observer:
        from fedprof.simulation.start import simulate
        from fedprof.simulation.summary import summarise

        store = simulate(
            chosen,
            path,
            data_dir=data,
            engine=engine,
            workers=workers,
            device=device or "cpu",
            observers=[observer, *loggers],
            say=observer.prepare,
        )
        summary = summarise(store)
        store.close()
    if summary.rounds > chosen.rounds:
        write(f"{path} holds more than the {chosen.rounds} rounds asked for: these are the figures of {summary.rounds}")
    if as_json:
        import json
        from dataclasses import asdict

        typer.echo(json.dumps(asdict(summary)))
    else:
        from fedprof.report.text import describe

        typer.echo(describe(summary))


def _loggers(names: list[str], path: Path) -> list[Logger]:
    from fedprof.simulation.logging import make

    return [make(name, path.parent) for name in dict.fromkeys(names)]
