"""Many runs at once: a crew of processes, each playing whole runs on a single thread, one after another.

A process lives as long as there are runs, so what it imported and compiled serves all of them. Every run goes on from
its own file, so a batch that was interrupted goes on where it was.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sqlite3
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from fedprof.errors import FedProfError, SettingsError, WorkerError
from fedprof.simulation.store import RoundRow
from fedprof.tasks.load import Plan

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

    from fedprof.simulation.run import Run


@dataclass(frozen=True)
class Assignment:
    """A run to be made, and where."""

    plan: Plan
    path: Path


@dataclass(frozen=True)
class Means:
    """What every run of a batch is made with."""

    data_dir: Path | None = None
    engine: str = "auto"


class News(NamedTuple):
    """What a process has to say about the run it plays."""

    what: Literal["preparing", "round", "done", "refused", "failed"]
    """``refused``: settings were wrong; ``failed``: anything else."""
    row: RoundRow | None = None
    """The last round recorded."""
    text: str = ""


class Watcher(Protocol):
    """Sees a batch as it happens."""

    def prepare(self, number: int, what: str) -> None:
        """Take note of what assignment ``number`` spends some time on before it goes on."""
        ...

    def round(self, number: int, row: RoundRow) -> None:
        """Take note that assignment ``number`` has recorded a round."""
        ...

    def done(self, number: int) -> None:
        """Take note that assignment ``number`` is complete."""
        ...


def recorded_rounds(assignment: Assignment) -> int:
    """How many rounds of a run there are already."""
    try:
        with contextlib.closing(sqlite3.connect(f"{assignment.path.resolve().as_uri()}?mode=ro", uri=True)) as file:
            return int(file.execute("SELECT COALESCE(MAX(round), 0) FROM rounds").fetchone()[0])
    except sqlite3.Error:
        return 0


def play(assignments: Sequence[Assignment], jobs: int, means: Means, watcher: Watcher) -> None:
    """Make all runs, ``jobs`` at a time; the first that fails ends the batch, and what is recorded stays."""
    waiting = list(enumerate(assignments))
    with _crew(min(jobs, len(waiting)), means) as crew:
        busy = {channel: _next(channel, waiting) for channel in crew}
        while busy:
            ready = wait(list(busy))
            for channel in [channel for channel in busy if channel in ready]:
                number = busy[channel]
                if _heed(_receive(channel, assignments[number]), number, assignments[number], watcher):
                    del busy[channel]
                    if waiting:
                        busy[channel] = _next(channel, waiting)


def _next(channel: Connection, waiting: list[tuple[int, Assignment]]) -> int:
    number, assignment = waiting.pop(0)
    channel.send(assignment)
    return number


def _receive(channel: Connection, assignment: Assignment) -> News:
    try:
        news: News = channel.recv()
    except (EOFError, ConnectionError) as error:
        raise WorkerError(
            f"The process playing {assignment.path} ended without a word: perhaps it ran out of memory (try fewer "
            "--jobs). What it recorded is safe."
        ) from error
    return news


def _heed(news: News, number: int, assignment: Assignment, watcher: Watcher) -> bool:
    """Pass news on; whether the run is over."""
    if news.what == "round" and news.row is not None:
        watcher.round(number, news.row)
        return False
    if news.what == "preparing":
        watcher.prepare(number, news.text)
        return False
    if news.what == "refused":
        raise SettingsError(news.text)
    if news.what == "failed":
        raise WorkerError(f"The run {assignment.path} failed: {news.text}")
    watcher.done(number)
    return True


@contextlib.contextmanager
def _crew(size: int, means: Means) -> Iterator[list[Connection]]:
    """Processes that play what they are sent; none of them is left behind, whatever happens."""
    context = multiprocessing.get_context("spawn")
    members: list[tuple[SpawnProcess, Connection]] = []
    try:
        for _ in range(size):
            ours, theirs = context.Pipe()
            process = context.Process(target=_member, args=(theirs, means), daemon=True)
            process.start()
            theirs.close()
            members.append((process, ours))
        yield [channel for _, channel in members]
    finally:
        for process, channel in members:
            channel.close()
            process.terminate()
        for process, _ in members:
            process.join()


def _member(channel: Connection, means: Means) -> None:
    """A process of the crew: play runs until the pipe closes, which also happens when the parent dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal interrupts everybody; the parent sees to the end
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            channel.send(_attempt(channel.recv(), channel, means))


def _attempt(assignment: Assignment, channel: Connection, means: Means) -> News:
    from fedprof.simulation.start import simulate

    try:
        simulate(
            assignment.plan,
            assignment.path,
            data_dir=means.data_dir,
            engine=means.engine,
            workers=1,
            observers=[_Reporter(channel)],
            say=lambda text: channel.send(News("preparing", text=text)),
        ).close()
    except SettingsError as error:
        return News("refused", text=str(error))
    except FedProfError as error:
        return News("failed", text=str(error))
    except ConnectionError:
        raise
    except Exception:  # noqa: BLE001 - a user's own algorithm or model may raise anything; the parent shows it
        return News("failed", text=traceback.format_exc())
    return News("done")


class _Reporter:
    """An observer that tells the parent of every round."""

    def __init__(self, channel: Connection) -> None:
        self._channel = channel

    def begin(self, run: Run) -> None:
        self.round(run, run.last)

    def round(self, run: Run, row: RoundRow) -> None:
        self._channel.send(News("round", row))

    def end(self, run: Run) -> None:
        """Done is said when the file is closed."""


def label(assignment: Assignment) -> str:
    """Name a run for a progress line, nearly as its file is named."""
    plan = assignment.plan
    return f"{plan.algorithm}-{plan.server.combines.mode}-s{plan.seed}"
