"""Worker processes of the torch engine: one thread each, fed through their own pipe.

A worker is a fresh interpreter that runs this module. It never imports the caller's main script, so scripts need no
``if __name__ == "__main__"`` guard, and a model defined in a script or a notebook travels by value. It ends when its
pipe closes, so it outlives no caller, however that dies.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING, Any

from fedprof.errors import WorkerError

if TYPE_CHECKING:
    from fedprof.training.torch_trainer import Trainer

_LENGTH_BYTES = 8
_STARTING = "starting"


class Worker:
    """The caller's end of one worker process."""

    def __init__(self, setup: bytes) -> None:
        command = [sys.executable, "-P", "-m", "fedprof.training.torch_worker"]
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment()
        )
        self._send(setup, _STARTING)
        self.weights_held = 0
        """Number of the weights last loaded; the engine counts them."""

    def wait_ready(self) -> None:
        """Wait until the worker has the workload."""
        self._receive(_STARTING)

    def call(self, doing: str, method: str, *arguments: object) -> Any:
        """Run a method of the worker's ``Trainer``; ``doing`` says what and for whom, should it fail."""
        self._send(pickle.dumps((method, arguments)), doing)
        return self._receive(doing)

    def kill(self) -> None:
        """End the process at once: it holds nothing that needs saving."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Close the pipes of a process that has ended."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _send(self, message: bytes, doing: str) -> None:
        try:
            _write(self._process.stdin, message)
        except OSError as error:
            raise self._death(doing) from error

    def _receive(self, doing: str) -> Any:
        message = _read(self._process.stdout)
        if message is None:
            raise self._death(doing)
        result, failure, details = pickle.loads(message)  # noqa: S301 - from our own child, through our own pipe
        if failure:
            error = WorkerError(f"while {doing}: {failure}")
            error.add_note(details)
            raise error
        return result

    def _death(self, doing: str) -> WorkerError:
        code = self._process.wait()
        cause = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return WorkerError(f"a worker process died ({cause}) while {doing}; if memory ran out, use fewer workers")


def main() -> None:
    """Be a worker: read a setup, then calls, until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller gets Ctrl-C too, and ends its workers
    inbox, outbox = _claimed_pipes()
    messages: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(inbox, messages), daemon=True).start()
    _keep_freed_memory()
    state: list[Trainer] = []
    while True:
        _write(outbox, _answered(messages.get(), state))


def _answered(message: bytes, state: list[Trainer]) -> bytes:
    """Carry out one message and pickle the outcome; the first message makes the trainer."""
    try:
        if state:
            method, arguments = pickle.loads(message)  # noqa: S301 - from our own parent, through our own pipe
            return pickle.dumps((getattr(state[0], method)(*arguments), "", ""), protocol=5)
        state.append(_made_trainer(message))
        return pickle.dumps((None, "", ""))
    except Exception as error:  # noqa: BLE001 - whatever it is, the caller is told
        return pickle.dumps((None, f"{type(error).__name__}: {error}", traceback.format_exc()))


def _made_trainer(setup: bytes) -> Trainer:
    import torch

    from fedprof.training.torch_trainer import Trainer

    torch.set_num_threads(1)
    workload, channels_last = pickle.loads(setup)  # noqa: S301 - from our own parent, through our own pipe
    return Trainer(workload, "cpu", channels_last)


def _listen(inbox: IO[bytes], messages: SimpleQueue[bytes]) -> None:
    while (message := _read(inbox)) is not None:
        messages.put(message)
    os._exit(0)  # the caller is gone: leave at once, even in the middle of a client


def _claimed_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Keep the pipes for ourselves: what a model prints goes to standard error."""
    inbox, outbox = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    return inbox, outbox


def _keep_freed_memory() -> None:
    """Let glibc keep the large blocks every training step frees, instead of getting them from the kernel anew."""
    trim_threshold, mmap_threshold, most = -1, -3, 2**30
    with contextlib.suppress(OSError, AttributeError, TypeError):  # another C library
        libc = ctypes.CDLL(None)
        libc.mallopt(trim_threshold, most)
        libc.mallopt(mmap_threshold, most)


def _environment() -> dict[str, str]:
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**os.environ, **threads, "PYTHONPATH": os.pathsep.join(sys.path)}


def _write(pipe: IO[bytes] | None, message: bytes) -> None:
    assert pipe is not None
    pipe.write(len(message).to_bytes(_LENGTH_BYTES, "little"))
    pipe.write(message)
    pipe.flush()


def _read(pipe: IO[bytes] | None) -> bytes | None:
    """Read one message; ``None`` when the other end is gone."""
    assert pipe is not None
    header = pipe.read(_LENGTH_BYTES)
    if len(header) < _LENGTH_BYTES:
        return None
    size = int.from_bytes(header, "little")
    message = pipe.read(size)
    return message if len(message) == size else None


if __name__ == "__main__":
    main()
