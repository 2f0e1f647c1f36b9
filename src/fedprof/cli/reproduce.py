"""``fedprof reproduce``: the paper's tables and figures again, from runs that are made as far as they are missing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedprof.cli.options import DataDir, Device, Engine, Jobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedprof.reproduction.studies import Study
    from fedprof.tasks.load import Plan


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("reproduce")(reproduce)


def reproduce(
    what: Annotated[
        str, typer.Argument(help="gasturbine, emnist, cifar10, one experiment, a study, 'studies', 'figures' or 'all'.")
    ] = "all",
    seeds: Annotated[int, typer.Option(min=1, max=10, help="How many seeds, from 0 on.")] = 5,
    jobs: Jobs = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of histories, tables and figures.")] = Path(
        "results"
    ),
    page: Annotated[Path, typer.Option(help="The page that is written.")] = Path("docs/reproduction.md"),
    work: Annotated[Path, typer.Option(help="Folder of the runs themselves.")] = Path("runs/reproduction"),
    data: DataDir = None,
    engine: Engine = "auto",
    device: Device = None,
    run: Annotated[bool, typer.Option(help="Make missing runs; --no-run takes what there is.")] = True,
    render: Annotated[bool, typer.Option("--render", help="Only write the page again, from --out alone.")] = False,
) -> None:
    """Make the paper's experiments again: Tables 3 to 5, its figures, its claims one by one, tests over seeds.

    Runs are kept in --work and go on where they were interrupted; compact histories of them go to --out, and the page
    is written from those alone. Studies are the sweeps behind the presets and the questions beyond the paper; figures
    are those of its preliminary experiments (1 and 2).

    Examples:
    - `fedprof reproduce gasturbine` - one task's table and figures
    - `fedprof reproduce studies --jobs 2` - the sweeps
    - `fedprof reproduce --render` - the page again, from the histories kept
    """
    from fedprof.cli.batch import make_runs
    from fedprof.reproduction import experiments
    from fedprof.reproduction.studies import STUDIES
    from fedprof.reproduction.write import archive, archive_study, write_page

    def make(plans: Sequence[Plan]) -> None:
        make_runs(experiments.assignments(plans, work), jobs, data, engine, device)

    studies = _studies(what)
    chosen = [] if studies or what == "figures" else experiments.find(what)
    if what == "all":
        studies = list(STUDIES.values())
    if not render:
        for experiment in chosen:
            if run:
                make(list(experiment.plans(range(seeds))))
            archive(experiment, work, out)
        for study in studies:
            if run:
                make([plan for _, plan in study.plans()])
            archive_study(study, work, out)
        if run and what in {"figures", "all"}:
            _draw(out, jobs, data, engine)
    typer.echo(f"Written: {write_page(out, page)}")


def _studies(what: str) -> Sequence[Study]:
    from fedprof.reproduction.studies import STUDIES

    return list(STUDIES.values()) if what == "studies" else [STUDIES[what]] if what in STUDIES else []


def _draw(out: Path, jobs: int | None, data: Path | None, engine: Engine) -> None:
    """Draw the figures of the paper's preliminary experiments that are not there yet."""
    from fedprof.cli.figure import figure
    from fedprof.reproduction.write import PRELIMINARY, preliminary

    for number, path in preliminary(out, drawn=False).items():
        figure(PRELIMINARY[number], out=path, jobs=jobs, data=data, engine=engine)
