"""Progress on standard error: a live line in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

    from fedprof.simulation.run import Run
    from fedprof.simulation.store import RoundRow

PLAIN_SECONDS = 2.0
"""How often a plain line is written, at the most."""
WIDE = 100
"""Columns of a terminal that has room for a bar."""


class Patience:
    """Lines that are only written if nothing happens for a while: compiling is quick where it was done before."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def say_later(self, line: str) -> None:
        """Write a line in a while."""
        self.forget()
        self._timer = threading.Timer(PLAIN_SECONDS, write, [line])
        self._timer.daemon = True
        self._timer.start()

    def forget(self) -> None:
        """It is not to be written any more."""
        if self._timer is not None:
            self._timer.cancel()


class Plain:
    """A line now and then, for logs and pipes."""

    def __init__(self) -> None:
        self._spoke = -PLAIN_SECONDS
        self._began = (0, 0.0)
        self._patience = Patience()

    def prepare(self, what: str) -> None:
        """Say what takes so long, if it does."""
        self._patience.say_later(what)

    def begin(self, run: Run) -> None:
        """Say what it is and where it starts."""
        self._patience.forget()
        self._began = run.last.round, time.monotonic()
        where = f", going on after round {run.last.round}" if run.last.round else ""
        write(f"{title(run)}: {run.rounds} rounds ({run.engine.name} engine){where}")

    def round(self, run: Run, row: RoundRow) -> None:
        """Say how far it is, and how long it will take."""
        self._patience.forget()
        now = time.monotonic()
        if now - self._spoke >= PLAIN_SECONDS or row.round == run.rounds:
            self._spoke = now
            first, began = self._began
            left = (now - began) / (row.round - first) * (run.rounds - row.round)
            write(f"round {row.round}/{run.rounds}  {figures(row)}  {clock(left)} left")

    def end(self, run: Run) -> None:
        """Nothing more to say: the summary follows."""


class Live:
    """One line that moves, with the time left."""

    def __init__(self) -> None:
        from rich.progress import SpinnerColumn

        self.bar = bars(SpinnerColumn())
        self.line = self.bar.add_task("preparing", total=1, figures="")

    def prepare(self, what: str) -> None:
        """Show what takes so long."""
        self.bar.update(self.line, description=what)

    def begin(self, run: Run) -> None:
        """Show where it starts."""
        # A reset, so that rounds recorded before do not count into the speed.
        self.bar.reset(self.line, description=title(run), total=run.rounds, completed=run.last.round)

    def round(self, run: Run, row: RoundRow) -> None:
        """Move on."""
        self.bar.update(self.line, description=title(run), completed=row.round, figures=figures(row))

    def end(self, run: Run) -> None:
        """The bar vanishes with its context."""


def write(line: str) -> None:
    """Write a line at once."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def title(run: Run) -> str:
    """What is being run."""
    return f"{run.algorithm.name} on {run.task.settings.name}"


def clock(seconds: float) -> str:
    """Hours, minutes, seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


def figures(row: RoundRow) -> str:
    """Accuracy, best, virtual time and energy so far."""
    return (
        f"accuracy {row.accuracy or 0:.3f} best {row.best_accuracy or 0:.3f} "
        f"{row.clock / 60:.1f} min {row.total_joules / 3600:.2f} Wh"
    )


def bars(*first: ProgressColumn) -> Progress:
    """Lines that move: a description, a bar where the terminal has room for one, rounds, figures, the time left."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        *first,
        TextColumn("{task.description}"),
        *([BarColumn(bar_width=24)] if console.width >= WIDE else []),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(compact=True),
    )
    return Progress(*columns, console=console, transient=True)


@contextmanager
def progress() -> Iterator[Plain | Live]:
    """Give the observer that suits standard error."""
    if not sys.stderr.isatty():
        yield Plain()
        return
    live = Live()
    with live.bar:
        yield live
