"""Options that several commands share, each stated once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from fedprof.cli import completion

TaskName = Annotated[
    str,
    typer.Argument(
        help="A task by name (`fedprof tasks`), or your own .toml file.",
        show_default=False,
        autocompletion=completion.tasks,
    ),
]
Aggregation = Annotated[
    Literal["full", "partial"] | None, typer.Option(help="For algorithms that have both.", show_default=False)
]
Rounds = Annotated[int | None, typer.Option(help="Rounds to run; default: the task's.", show_default=False)]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a setting, e.g. `--set alpha=5 --set rate=0.01`.",
        show_default=False,
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data", help="Folder of downloaded data sets; default: FEDPROF_DATA or a cache.", show_default=False
    ),
]
Engine = Annotated[
    Literal["auto", "native", "torch"],
    typer.Option(help="native: compiled, for sequential models; torch: any model; auto: native where it can be."),
]
Device = Annotated[
    str | None,
    typer.Option(
        help="Train with PyTorch on an accelerator, e.g. cuda, cuda:1 or mps; default: the CPU.", show_default=False
    ),
]
Log = Annotated[
    list[str] | None,
    typer.Option(help="Also log to tensorboard, mlflow or wandb (offline), beside the run.", show_default=False),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", min=1, help="Runs at a time; default: one a core.", show_default=False),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1, max=256, help="Threads or processes that train; default: one a core, eight at most.", show_default=False
    ),
]
