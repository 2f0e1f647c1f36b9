"""``fedprof algorithms`` and ``fedprof tasks``: what there is."""

from __future__ import annotations

from typing import Annotated

import typer

from fedprof.cli.options import Overrides

tasks = typer.Typer(invoke_without_command=True)


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
        typer.echo(f"{name:<10} {(cls.__doc__ or '').splitlines()[0]}  [{cls.citation}]")
        if values:
            typer.echo(f"{'':<10} {values}")


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
        typer.echo(
            f"{name:<11} {settings.title}: {settings.data.clients} clients, {settings.model.name}, "
            f"goal {settings.federation.goal:g}"
        )


@tasks.command("show")
def show(
    task: Annotated[str, typer.Argument(help="A task's name or a .toml file.", show_default=False)],
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
