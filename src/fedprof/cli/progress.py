"""Progress on standard error: a live line in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedprof.simulation.run import Observer, Run
    from fedprof.simulation.store import RoundRow

PLAIN_SECONDS = 2.0
"""How often a plain line is written, at the most."""


class Plain:
    """A line now and then, for logs and pipes."""

    def __init__(self) -> None:
        self._spoke = -PLAIN_SECONDS
        self._began = (0, 0.0)

    def begin(self, run: Run) -> None:
        """Say what it is and where it starts."""
        self._began = run.last.round, time.monotonic()
        where = f", going on after round {run.last.round}" if run.last.round else ""
        self._say(f"{title(run)}: {run.rounds} rounds ({run.engine.name} engine){where}")

    def round(self, run: Run, row: RoundRow) -> None:
        """Say how far it is, and how long it will take."""
        now = time.monotonic()
        if now - self._spoke >= PLAIN_SECONDS or row.round == run.rounds:
            self._spoke = now
            first, began = self._began
            left = (now - began) / (row.round - first) * (run.rounds - row.round)
            self._say(f"round {row.round}/{run.rounds}  {figures(row)}  {clock(left)} left")

    def end(self, run: Run) -> None:
        """Nothing more to say: the summary follows."""

    def _say(self, line: str) -> None:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


class Live:
    """One line that moves, with the time left."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(compact=True),
        )
        self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self.line = self.bar.add_task("preparing", total=1, figures="")

    def begin(self, run: Run) -> None:
        """Show where it starts."""
        # A reset, so that rounds recorded before do not count into the speed.
        self.bar.reset(self.line, description=title(run), total=run.rounds, completed=run.last.round)

    def round(self, run: Run, row: RoundRow) -> None:
        """Move on."""
        self.bar.update(self.line, completed=row.round, figures=figures(row))

    def end(self, run: Run) -> None:
        """The bar vanishes with its context."""


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
        f"accuracy {row.accuracy or 0:.3f}  best {row.best_accuracy or 0:.3f}  "
        f"{row.clock / 60:.1f} min  {row.total_joules / 3600:.2f} Wh"
    )


@contextmanager
def progress() -> Iterator[Observer]:
    """Give the observer that suits standard error."""
    if not sys.stderr.isatty():
        yield Plain()
        return
    live = Live()
    with live.bar:
        yield live
