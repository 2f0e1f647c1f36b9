"""``fedprof audit``: which clients have bad data."""

from __future__ import annotations

import json
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedprof.cli.options import DataDir
from fedprof.errors import SettingsError

if TYPE_CHECKING:
    from fedprof.report.audit import Case


USUAL: dict[str, Any] = {"layer": None, "options": {}, "shift": 0.0, "scale": 1.0}
"""How a model of the user's own is taken unless told otherwise."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("audit")(audit)


def audit(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="One data set a client (.npz, .csv or a folder of images), and the server's 'validation'.",
            show_default=False,
        ),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(help="A stored run: its last global model; without FOLDER, its clients too.", show_default=False),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="A model by name, or package.module:function.", show_default=False)
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="The model's state dictionary (.safetensors).", show_default=False)
    ] = None,
    layer: Annotated[
        str | None, typer.Option(help="Layer to profile; default: the model's.", show_default=False)
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--option", metavar="KEY=VALUE", help="An argument of the model's, e.g. classes=62.", show_default=False
        ),
    ] = None,
    shift: Annotated[float, typer.Option(help="Taken from inputs before the model sees them.")] = USUAL["shift"],
    scale: Annotated[float, typer.Option(help="What inputs are divided by after that.")] = USUAL["scale"],
    alpha: Annotated[float, typer.Option(min=0, help="Penalty factor for the column 'chance'.")] = 10.0,
    top: Annotated[int, typer.Option(min=1, help="Clients to list.")] = 20,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A picture: .pdf, .png or .svg.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all clients as one JSON array.")] = False,
    data: DataDir = None,
) -> None:
    """Say which clients have bad data: profiles under one model, compared with the server's, worst first.

    No federation is needed. `chance` is how often FedProf would draw a client, as a multiple of an even chance.

    Examples:
    - `fedprof audit --run runs/digits-fedprof-partial-s0.sqlite` - a run's clients under its last model
    - `fedprof audit hospitals/ --model cnn --weights cnn.safetensors --scale 255 -o audit.png` - your own data
    """
    from fedprof.report import audit as auditing
    from fedprof.report.figures import style

    if out is not None:
        style.check_path(out)
    arguments = {"layer": layer, "options": _options(options or []), "shift": shift, "scale": scale}
    findings = auditing.audit(_case(folder, run, model, weights, data, arguments), alpha)
    typer.echo(json.dumps([asdict(one) for one in findings]) if as_json else auditing.describe(findings, top))
    if out is not None:
        from fedprof.report.figures.audit import draw

        typer.echo(str(style.save(draw(findings), out)), err=as_json)


def _case(
    folder: Path | None,
    run: Path | None,
    model: str | None,
    weights: Path | None,
    data: Path | None,
    arguments: dict[str, Any],
) -> Case:
    from fedprof.report import audit as auditing

    if run is not None and model is not None:
        raise SettingsError("--run and --model both name a model: give one of them")
    if run is not None and (weights is not None or arguments != USUAL):
        raise SettingsError("--run knows its weights, layer, options, shift and scale: leave them out")
    if run is not None:
        return auditing.of_run(run, data) if folder is None else auditing.of_folder(folder, run, data)
    if folder is None or model is None or weights is None:
        raise SettingsError("name a stored run (--run RUN), or a FOLDER with --model NAME and --weights FILE")
    return auditing.of_model(folder, model, weights, **arguments)


def _options(given: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in given:
        key, equals, text = one.partition("=")
        if not equals:
            raise SettingsError(f"--option wants key=value, got '{one}'")
        try:
            found[key] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            found[key] = text
    return found
