"""``fedprof costs``: the cost model beside the paper's tables."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("costs")(costs)


def costs(
    fleets: int = typer.Option(40, min=1, help="Fleets to draw."),
    rounds: int = typer.Option(50, min=1, help="Rounds on each."),
) -> None:
    """Compare simulated time and energy a round with what the paper's Tables 3 to 5 imply.

    Example:
    - `fedprof costs --fleets 10` - quicker, less exact
    """
    from fedprof.simulation.paper import IMPLIED, comparisons

    typer.echo(f"{'task':<11}{'row':<17}{'s/round':>9}{'paper':>8}{'':>8}{'J/client':>11}{'paper':>8}")
    for task in IMPLIED:
        for one in comparisons(task, fleets, rounds):
            seconds, joules = one.seconds / one.paper_seconds - 1, one.joules / one.paper_joules - 1
            typer.echo(
                f"{one.task:<11}{one.row:<17}{one.seconds:>9.1f}{one.paper_seconds:>8.1f}{seconds:>+8.1%}"
                f"{one.joules:>11.1f}{one.paper_joules:>8.1f}{joules:>+8.1%}"
            )
