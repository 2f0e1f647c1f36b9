"""Who does a torch engine's work: this process, or a crew of worker processes."""

from __future__ import annotations

import io
import mmap
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

import cloudpickle
import numpy as np
import torch

from fedprof.training.engine import Vector, Workload
from fedprof.training.torch_trainer import Trainer
from fedprof.training.torch_worker import Worker

_MAPPED_FROM_BYTES = 1 << 16


@dataclass(frozen=True)
class Job:
    """One call of a ``Trainer`` method."""

    method: str
    arguments: tuple[object, ...]
    doing: str
    """What it is and for whom, to name it in an error."""
    cost: int
    """Samples it has to go through: long jobs start first."""


class Crew(Protocol):
    """Does jobs under given weights; the results come in the order of the jobs."""

    def run(self, weights: Vector, jobs: Sequence[Job]) -> list[Any]:
        """Do all jobs."""
        ...

    def close(self) -> None:
        """Free processes and memory."""
        ...


class Here:
    """The calling process, on one thread."""

    def __init__(self, workload: Workload, device: str, channels_last: bool) -> None:
        self._trainer = Trainer(workload, device, channels_last)

    def run(self, weights: Vector, jobs: Sequence[Job]) -> list[Any]:
        """Do all jobs, one after the other."""
        with single_thread():
            self._trainer.load(weights)
            return [getattr(self._trainer, job.method)(*job.arguments) for job in jobs]

    def close(self) -> None:
        """Nothing to free."""


class Processes:
    """Worker processes; they start with the first jobs, and anew after an error or an interrupt has ended them."""

    def __init__(self, workload: Workload, count: int, channels_last: bool) -> None:
        self._workload, self._count, self._channels_last = workload, count, channels_last
        self._workers: list[Worker] = []
        self._weights = np.zeros(0, np.float32)
        self._weights_number = 0
        # Runs when the interpreter ends, if not before.
        weakref.finalize(self, _end, self._workers)

    def run(self, weights: Vector, jobs: Sequence[Job]) -> list[Any]:
        """Do all jobs; whoever is free takes the longest job left."""
        if not np.array_equal(weights, self._weights):
            self._weights, self._weights_number = weights.copy(), self._weights_number + 1
        try:
            if not self._workers:
                self._start()
            return self._shared_out(jobs)
        except BaseException:
            _end(self._workers)
            raise

    def close(self) -> None:
        """End the processes."""
        _end(self._workers)

    def _start(self) -> None:
        # The files stay mapped when their names are gone (on Windows they cannot go, and are left to the system).
        with tempfile.TemporaryDirectory(prefix="fedprof-", ignore_cleanup_errors=True) as folder:
            setup = packed((self._workload, self._channels_last), Path(folder))
            self._workers.extend(Worker(setup) for _ in range(self._count))
            for worker in self._workers:
                worker.wait_ready()

    def _shared_out(self, jobs: Sequence[Job]) -> list[Any]:
        free: SimpleQueue[Worker] = SimpleQueue()
        for worker in self._workers:
            free.put(worker)
        order = sorted(range(len(jobs)), key=lambda index: -jobs[index].cost)
        with ThreadPoolExecutor(self._count) as threads:
            futures = {index: threads.submit(self._do, jobs[index], free) for index in order}
            try:
                return [futures[index].result() for index in range(len(jobs))]
            except BaseException:
                _kill(self._workers)  # or leaving the pool would wait for all that is under way
                raise

    def _do(self, job: Job, free: SimpleQueue[Worker]) -> Any:
        worker = free.get()
        try:
            if worker.weights_held != self._weights_number:
                worker.call(job.doing, "load", self._weights)
                worker.weights_held = self._weights_number
            return worker.call(job.doing, job.method, *job.arguments)
        finally:
            free.put(worker)


@contextmanager
def single_thread() -> Iterator[None]:
    """Let PyTorch use one thread: sums come out the same everywhere, and small models run faster."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def packed(value: object, folder: Path) -> bytes:
    """Pickle a value for a worker; large arrays go by the name of a file, which all workers map."""
    buffer = io.BytesIO()
    _Pickler(buffer, folder).dump(value)
    return buffer.getvalue()


class _Pickler(cloudpickle.Pickler):
    def __init__(self, buffer: io.BytesIO, folder: Path) -> None:
        super().__init__(buffer)
        self._folder = folder

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, np.memmap) and _is_whole(value):
            return np.memmap, (value.filename, value.dtype, "r", value.offset, value.shape)
        if isinstance(value, np.ndarray) and value.nbytes >= _MAPPED_FROM_BYTES and not value.dtype.hasobject:
            return np.load, (str(self._saved(value)), "r")
        return super().reducer_override(value)

    def _saved(self, array: np.ndarray[Any, Any]) -> Path:
        path = self._folder / f"{id(array)}.npy"
        np.save(path, array)
        return path


def _is_whole(array: np.memmap[Any, Any]) -> bool:
    # A part of a map keeps the offset of the whole: it cannot be found again in the file.
    owner: object = array.base
    return isinstance(owner, mmap.mmap) and array.filename is not None and array.flags.c_contiguous


def _kill(workers: list[Worker]) -> None:
    for worker in workers:
        worker.kill()


def _end(workers: list[Worker]) -> None:
    _kill(workers)
    while workers:
        workers.pop().close()
