"""``fedprof algorithms`` and ``fedprof tasks``: what there is."""

from __future__ import annotations

import shutil
import sys
import textwrap
from itertools import zip_longest

import typer

from fedprof.cli.options import Overrides, TaskName

tasks = typer.Typer(invoke_without_command=True)
BESIDE = 12
"""Where what is said about a name begins."""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("algorithms")(algorithms)
    app.add_typer(tasks, name="tasks")


def algorithms() -> None:
    """List the algorithms: what each does in a line, its citation, its parameters and their defaults.

    Example:
    - `fedprof algorithms` - then `fedprof run digits -a NAME --set PARAMETER=VALUE`
    """
    from fedprof.algorithms import registry

    for name in registry.NAMES:
        cls = registry.find(name)
        values = ", ".join(f"{key}={value}" for key, value in registry.parameters(cls).items())
        _list(name, f"{(cls.__doc__ or '').splitlines()[0]}  [{cls.citation}]", values)


def _list(name: str, *about: str) -> None:
    """Write a name with lines about it beside; in a terminal none is wider than that is."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    parts = [part for line in about for part in textwrap.wrap(line, width - BESIDE, break_on_hyphens=False)]
    for head, part in zip_longest([name], parts, fillvalue=""):
        typer.echo(f"{head:<{BESIDE}}{part}")


@tasks.callback()
def listing(context: typer.Context) -> None:
    """List the tasks, or show one whole.

    Examples:
    - `fedprof tasks` - their names
    - `fedprof tasks show emnist` - all of one's settings
    """
    if context.invoked_subcommand is not None:
        return
    from fedprof.tasks.load import PRESETS, plan

    for name in PRESETS:
        settings = plan(name).settings
        _list(
            name,
            f"{settings.title}: {settings.data.clients} clients, {settings.model.name}, "
            f"goal {settings.federation.goal:g}",
        )


@tasks.command("show")
def show(
    task: TaskName,
    overrides: Overrides = None,
) -> None:
    """Print all settings of a task as TOML, ready to be saved and changed.

    Example:
    - `fedprof tasks show digits > my.toml` - then change it, and `fedprof run my.toml`
    """
    from fedprof.tasks.load import plan
    from fedprof.tasks.toml import dumps

    typer.echo(
        dumps(plan(task, overrides=overrides or ()).settings.model_dump(mode="json", exclude_none=True)), nl=False
    )
