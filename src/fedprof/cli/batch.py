"""Making several runs at once, with progress: what `compare`, `figure` and `reproduce` share."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fedprof.cli.progress import PLAIN_SECONDS, Patience, bars, figures, write

if TYPE_CHECKING:
    from rich.progress import TaskID

    from fedprof.simulation.batch import Assignment, Watcher
    from fedprof.simulation.store import RoundRow


def make_runs(
    assignments: Sequence[Assignment], jobs: int | None, data: Path | None, engine: str, device: str | None = None
) -> None:
    """Make whatever is missing of some runs: side by side on the CPU, or stacked on a device."""
    from fedprof.simulation.batch import Means, play, recorded_rounds
    from fedprof.training.choose import available_cpus

    done = [recorded_rounds(assignment) for assignment in assignments]
    missing = [one for one, rounds in zip(assignments, done, strict=True) if rounds < one.plan.rounds]
    if not missing:
        return
    if len(missing) < len(assignments):
        write(f"{len(assignments) - len(missing)} of {len(assignments)} runs are there already")
    with _watching(missing) as watcher:
        if device is None:
            play(missing, jobs or available_cpus(), Means(data, engine), watcher)
        else:
            from fedprof.simulation.together import play_together

            play_together(missing, device, data, watcher)


@contextmanager
def _watching(assignments: Sequence[Assignment]) -> Iterator[Watcher]:
    if not sys.stderr.isatty():
        yield _Plain(assignments)
        return
    live = _Live(assignments)
    with live.bars:
        yield live


class _Plain:
    """A line for every run that is complete, and now and then for one that is not."""

    def __init__(self, assignments: Sequence[Assignment]) -> None:
        self._assignments = assignments
        self._last: dict[int, RoundRow] = {}
        self._complete = 0
        self._spoke = time.monotonic()
        self._patience = Patience()

    def prepare(self, number: int, what: str) -> None:
        self._patience.say_later(what)

    def round(self, number: int, row: RoundRow) -> None:
        self._patience.forget()
        self._last[number] = row
        if time.monotonic() - self._spoke >= 5 * PLAIN_SECONDS:
            self._say(number, f"round {row.round}/{self._assignments[number].plan.rounds}")

    def done(self, number: int) -> None:
        self._complete += 1
        self._say(number, "done")

    def _say(self, number: int, state: str) -> None:
        from fedprof.simulation.batch import label

        self._spoke = time.monotonic()
        row = self._last.get(number)
        write(
            f"[{self._complete}/{len(self._assignments)}] {label(self._assignments[number])}: {state}"
            f"{'  ' + figures(row) if row else ''}"
        )


class _Live:
    """A bar for the whole and one for every run under way."""

    def __init__(self, assignments: Sequence[Assignment]) -> None:
        self._assignments = assignments
        self.bars = bars()
        self._whole = self.bars.add_task(
            f"{len(assignments)} runs", total=sum(one.plan.rounds for one in assignments), figures=""
        )
        self._lines: dict[int, TaskID] = {}
        self._at: dict[int, int] = {}

    def prepare(self, number: int, what: str) -> None:
        self.bars.update(self._line(number), figures="preparing")

    def round(self, number: int, row: RoundRow) -> None:
        self.bars.update(self._line(number), completed=row.round, figures=figures(row))
        self._advance(number, row.round)

    def done(self, number: int) -> None:
        self._advance(number, self._assignments[number].plan.rounds)
        if number in self._lines:
            self.bars.remove_task(self._lines.pop(number))

    def _line(self, number: int) -> TaskID:
        from fedprof.simulation.batch import label

        if number not in self._lines:
            one = self._assignments[number]
            self._lines[number] = self.bars.add_task(label(one), total=one.plan.rounds, figures="")
        return self._lines[number]

    def _advance(self, number: int, rounds: int) -> None:
        self._at[number] = rounds
        self.bars.update(self._whole, completed=sum(self._at.values()))
