"""``fedprof`` commands in real processes, forked from one that has imported everything, so that each starts at once."""

import multiprocessing
import os
import resource
import sys
from pathlib import Path

from fedprof.errors import StoreError
from fedprof.simulation.store import Store

PRELOADED = ("fedprof.cli.main", "fedprof.simulation.start", "fedprof.training.torch_engine", "sklearn.datasets")
SETTINGS = ("--set", "clients=10", "--set", "fraction=0.5", "--set", "validation=100", "--set", "crash=0.1")
ROUNDS = 25
KILLED = -9


def arguments(path, *more, rounds=ROUNDS, algorithm="fedprof"):
    fixed = ("run", "digits", "-a", algorithm, "--engine", "torch", "--workers", "1", *SETTINGS)
    return [*fixed, "--rounds", str(rounds), "--out", str(path), *more]


class Command:
    """A command under way."""

    def __init__(self, path, *more, prepare=None, environment=None, **chosen):
        self._streams = [Path(f"{path}.{os.urandom(4).hex()}.{name}") for name in ("out", "err")]
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(PRELOADED))
        words = arguments(path, *more, **chosen)
        target = (words, self._streams, prepare, environment or {})
        self.process = context.Process(target=_main, args=target)
        self.process.start()

    @property
    def pid(self):
        return self.process.pid

    @property
    def running(self):
        return self.process.is_alive()

    def kill(self):
        self.process.kill()
        return self.wait()

    def wait(self, timeout=120):
        self.process.join(timeout)
        return self.process.exitcode

    @property
    def stdout(self):
        return self._streams[0].read_text()

    @property
    def stderr(self):
        return self._streams[1].read_text()


def finish(path, *more, **chosen):
    command = Command(path, *more, **chosen)
    command.wait()
    return command


def rounds_in(path):
    """The last recorded round; -1 if there is none."""
    try:
        store = Store.open(path, read_only=True)
    except StoreError:
        return -1
    last = store.last_round()
    store.close()
    return -1 if last is None else last.round


def _main(words, streams, prepare, environment):
    for number, stream in enumerate(streams, start=1):
        os.dup2(os.open(stream, os.O_WRONLY | os.O_CREAT), number)
    os.environ.update(environment)
    sys.path += environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.argv = ["fedprof", *words]
    if prepare is not None:
        function, argument = prepare
        function(argument)
    from fedprof.cli.main import main

    main()


def limit_file_size(most):
    """As if the disk were full beyond so many bytes a file."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


def die_after(statements):
    """SIGKILL from within, after so many SQL statements."""
    from fedprof.simulation import store

    done = [0]

    def count():
        done[0] += 1
        if done[0] == statements:
            os.kill(os.getpid(), 9)

    class Counted(store.sqlite3.Connection):
        def execute(self, *what):
            cursor = super().execute(*what)
            count()
            return cursor

        def executemany(self, *what):
            cursor = super().executemany(*what)
            count()
            return cursor

    real = store.sqlite3.connect
    store.sqlite3.connect = lambda *what, **more: real(*what, factory=Counted, **more)
