"""``fedprof report``: one page about stored runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedprof.errors import SettingsError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report")(report)


def report(
    runs: Annotated[list[Path], typer.Argument(help="Runs (.sqlite), or folders of runs.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page.")] = Path("report.html"),
) -> None:
    """Write one self-contained page about stored runs; it opens offline, in any browser, and prints.

    Settings, the paper's table, accuracy against rounds, time and energy, who took part, scores, divergences, and
    where time and energy went. Click an algorithm to hide it everywhere.

    Examples:
    - `fedprof report runs/digits` - what `fedprof compare digits` made
    - `fedprof report runs -o all.html` - every run there is, a chapter a task
    - `fedprof report a.sqlite b.sqlite` - two runs
    """
    from fedprof.report.comparison import compare
    from fedprof.report.files import write_text
    from fedprof.report.page import render
    from fedprof.report.stored import read_all

    if out.suffix.lower() not in (".html", ".htm"):
        raise SettingsError(f"--out {out}: the page is HTML, name it {out.with_suffix('.html')}")
    found = read_all(runs)
    write_text(out, render(compare(found)))
    typer.echo(f"{out}: {len(found)} run{'s' if len(found) != 1 else ''}")
