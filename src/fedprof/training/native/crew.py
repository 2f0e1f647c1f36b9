"""Threads that work through a list of tasks; the compiled kernels leave the interpreter lock free."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class Crew:
    """A fixed number of workers, one of them the calling thread."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._threads = ThreadPoolExecutor(max(1, workers - 1), thread_name_prefix="fedprof-native")

    def run(self, work: Callable[[int, Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Do ``work(worker, task)`` for every task, begun in the order given; results in the same order."""
        results: dict[int, Result] = {}
        waiting = deque(range(len(tasks)))

        def drain(worker: int) -> None:
            while waiting:
                try:
                    number = waiting.popleft()
                except IndexError:  # another worker was quicker
                    return
                results[number] = work(worker, tasks[number])

        helpers = [self._threads.submit(drain, worker) for worker in range(1, min(self.workers, len(tasks)))]
        try:
            drain(0)
        finally:
            waiting.clear()  # nothing is left, unless a task failed
            wait(helpers)
        for helper in helpers:
            helper.result()
        return [results[number] for number in range(len(tasks))]

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()
