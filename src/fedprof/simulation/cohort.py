"""Real work for simulated clients: a client that fails at it is left out of the round; the run goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from fedprof.errors import WorkerError

CLIENT_ERRORS = (RuntimeError, ValueError, ArithmeticError, LookupError, MemoryError)
"""What a model, a loss, a client's data or a worker process may raise (WorkerError and ProfileError are among them)."""

T = TypeVar("T")


def spare_others(
    work: Callable[[Sequence[int]], list[T]],
    clients: Sequence[int],
    doing: str,
    proven: Callable[[], bool] = lambda: False,
) -> tuple[list[T], dict[int, str]]:
    """Do clients' work together; should that fail, one by one: the results, and why which client has none.

    What every client fails at is not the clients' fault, and is raised, unless it is ``proven`` to work for others.
    """
    try:
        return work(clients), {}
    except CLIENT_ERRORS:
        results, failed = [], {}
        for client in clients:
            try:
                results += work([client])
            except CLIENT_ERRORS as error:
                failed[client] = _reason(error, f"{doing} client {client}")
        if not results and not proven():
            raise
        return results, failed


def _reason(error: Exception, doing: str) -> str:
    """The same words whether a worker process met the error or this one."""
    text = str(error) if isinstance(error, WorkerError) else f"while {doing}: {type(error).__name__}: {error}"
    return text.partition("\n")[0]
