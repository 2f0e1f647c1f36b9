"""``fedprof``: the command line. Commands import what they need when they run, so that help is quick."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fedprof import __version__
from fedprof.cli import audit, catalogue, compare, costs, data, figure, interrupt, report, reproduce, run
from fedprof.errors import FedProfError, SettingsError

WRONG_USE, FAILED = 2, 1

app = typer.Typer(
    name="fedprof",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedprof {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Selective federated learning with representation profiling.

    Start with:

    - `fedprof run digits` - one run on the embedded task, seconds
    - `fedprof compare digits` - every algorithm, several seeds, the paper's table
    - `fedprof report runs` - a page about what was run

    Exit codes: 0 done, 1 failed (data, disk, a client's code), 2 wrong use or settings, 130 interrupted.
    """


run.register(app)
compare.register(app)
report.register(app)
figure.register(app)
audit.register(app)
data.register(app)
reproduce.register(app)
catalogue.register(app)
costs.register(app)


def main() -> None:
    """Run the command line; a user's mistake is one message, never a traceback."""
    interrupt.watch()
    sys.path.append(str(Path.cwd()))  # so that `my_file:MyAlgorithm` beside the user is found
    try:
        app(prog_name="fedprof")
    except SettingsError as error:
        _complain(error, WRONG_USE)
    except (FedProfError, OSError) as error:  # the latter: standard output cannot be written
        _complain(error, FAILED)
    except KeyboardInterrupt:
        interrupt.leave()
    except SystemExit as end:
        if end.code == interrupt.INTERRUPTED:  # what Typer makes of an interrupt
            interrupt.leave()
        raise


def _complain(error: Exception, code: int) -> None:
    typer.echo(f"fedprof: {error}", err=True)
    raise SystemExit(code) from None
