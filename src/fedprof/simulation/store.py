"""A run on disk: one SQLite file (WAL), one transaction a round for the history and the state together.

The schema is documented in ``docs/store.md`` and opens in sqlite3, pandas and DuckDB as it is. While a process plays a
run it holds SQLite's write lock from one round to the next: others may read at any time, but nobody else can write. The
lock goes with the process, however that ends.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedprof.errors import StoreError

FORMAT = 1
CLAIM_MILLISECONDS = 200
"""How long to wait for another process to let go of a run: it holds it for as long as it plays."""
SCHEMA = """
CREATE TABLE run (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE clients (client INTEGER PRIMARY KEY, name TEXT, kind TEXT, samples INTEGER, speed_ghz REAL,
    bandwidth_mhz REAL);
CREATE TABLE rounds (round INTEGER PRIMARY KEY, accuracy REAL, loss REAL, best_accuracy REAL, rate REAL, seconds REAL,
    clock REAL, joules REAL, total_joules REAL, selected INTEGER, accepted INTEGER);
CREATE TABLE participation (round INTEGER, client INTEGER, selected INTEGER, draws INTEGER, score REAL, divergence REAL,
    loss REAL, download_s REAL, profiling_s REAL, training_s REAL, upload_s REAL, download_j REAL, profiling_j REAL,
    training_j REAL, upload_j REAL, failure TEXT, PRIMARY KEY (round, client)) WITHOUT ROWID;
CREATE TABLE timing (round INTEGER PRIMARY KEY, wall_seconds REAL);
CREATE TABLE state (name TEXT PRIMARY KEY, round INTEGER, dtype TEXT, shape TEXT, data BLOB);
"""


class ClientRow(NamedTuple):
    """A row of ``clients``."""

    client: int
    name: str
    kind: str
    samples: int
    speed_ghz: float | None = None
    bandwidth_mhz: float | None = None


class RoundRow(NamedTuple):
    """A row of ``rounds``; round 0 is the initial model."""

    round: int
    accuracy: float | None
    loss: float | None
    best_accuracy: float | None
    rate: float | None = None
    seconds: float = 0.0
    clock: float = 0.0
    """Virtual seconds since the start."""
    joules: float = 0.0
    total_joules: float = 0.0
    selected: int = 0
    accepted: int = 0


class ParticipationRow(NamedTuple):
    """A row of ``participation``."""

    round: int
    client: int
    selected: int
    draws: int = 0
    score: float | None = None
    divergence: float | None = None
    loss: float | None = None
    download_s: float | None = None
    profiling_s: float | None = None
    training_s: float | None = None
    upload_s: float | None = None
    download_j: float | None = None
    profiling_j: float | None = None
    training_j: float | None = None
    upload_j: float | None = None
    failure: str | None = None


State = Mapping[str, NDArray[np.generic]]


class Store:
    """An open run."""

    def __init__(self, path: Path | str, connection: sqlite3.Connection) -> None:
        self.path = Path(path)
        self._db = connection
        self._claimed = False
        self._written: dict[str, NDArray[np.generic]] = {}

    @classmethod
    def create(cls, path: Path | str, facts: Mapping[str, Any], clients: Iterable[ClientRow]) -> Store:
        """Start a run: its settings, versions and clients; there must not be one yet. It is claimed at once."""
        target = Path(path)
        with _translated(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            store = cls(target, _connect(target))
        try:
            store.claim()
            store._fill(facts, list(clients))
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def open(cls, path: Path | str, *, read_only: bool = False) -> Store:
        """Open a run to go on with it, or only to read."""
        target = Path(path)
        if not target.is_file():
            raise StoreError(f"There is no run at {target}")
        with _translated(target):
            store = cls(target, _connect_to_read(target) if read_only else _connect(target))
        try:
            store._check_format()
        except StoreError:
            store.close()
            raise
        return store

    def claim(self) -> None:
        """Become the one process that writes this run, until it is closed."""
        with _translated(self.path):
            self._db.execute(f"PRAGMA busy_timeout = {CLAIM_MILLISECONDS}")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("BEGIN IMMEDIATE")
        self._claimed = True

    def facts(self) -> dict[str, Any]:
        """Settings, versions, seed: what was written when the run began."""
        return {key: json.loads(value) for key, value in self.query("SELECT key, value FROM run")}

    def note(self, key: str, value: object) -> None:
        """Write one fact."""
        with self._transaction():
            self._insert("run", [(key, json.dumps(value))], replace=True)

    def record(
        self, row: RoundRow, participation: Iterable[ParticipationRow], state: State, wall_seconds: float = 0.0
    ) -> None:
        """Write a round: history and state in one transaction, so that a crash leaves whole rounds only."""
        parts = list(participation)
        changed = [(name, array) for name, array in state.items() if self._written.get(name) is not array]
        packed = [_pack(name, row.round, array) for name, array in changed]
        gone = [(name,) for name in self._written.keys() - state.keys()]
        with self._transaction():
            self._insert("rounds", [row])
            self._insert("participation", parts)
            self._insert("timing", [(row.round, wall_seconds)])
            self._insert("state", packed, replace=True)
            self._db.executemany("DELETE FROM state WHERE name = ?", gone)
        self._written = dict(state)

    def state(self) -> dict[str, NDArray[np.generic]]:
        """The state after the last recorded round; the arrays are read-only."""
        rows = self.query("SELECT name, dtype, shape, data FROM state")
        self._written = {name: _unpack(dtype, shape, data) for name, dtype, shape, data in rows}
        return dict(self._written)

    def rounds(self) -> list[RoundRow]:
        """History, in order."""
        return [RoundRow(*row) for row in self.query("SELECT * FROM rounds ORDER BY round")]

    def last_round(self) -> RoundRow | None:
        """The last recorded round."""
        rows = self.query("SELECT * FROM rounds ORDER BY round DESC LIMIT 1")
        return RoundRow(*rows[0]) if rows else None

    def clients(self) -> list[ClientRow]:
        """The clients, in order."""
        return [ClientRow(*row) for row in self.query("SELECT * FROM clients ORDER BY client")]

    def add_clients(self, rows: Iterable[ClientRow]) -> None:
        """Add clients that joined while the run was going on."""
        joined = list(rows)
        with self._transaction():
            self._insert("clients", joined, replace=True)

    def participation(self) -> Iterator[ParticipationRow]:
        """Every client's part in every round, as far as recorded."""
        for row in self._db.execute("SELECT * FROM participation ORDER BY round, client"):
            yield ParticipationRow(*row)

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a query of one's own."""
        with _translated(self.path):
            return self._db.execute(sql, values).fetchall()

    def wall_seconds(self) -> float:
        """Real time spent on the recorded rounds."""
        return float(self.query("SELECT COALESCE(SUM(wall_seconds), 0) FROM timing")[0][0])

    def close(self) -> None:
        """Close the file and give up the claim; a run that was written is then one file, without a log beside it."""
        if self._claimed:
            with suppress(sqlite3.OperationalError):  # someone is reading it: then the log stays, which is as good
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                self._db.execute("PRAGMA busy_timeout = 0")
                self._db.execute("PRAGMA journal_mode = DELETE")
            self._claimed = False
        self._db.close()

    def _fill(self, facts: Mapping[str, Any], clients: list[ClientRow]) -> None:
        if self.query("SELECT 1 FROM sqlite_master"):
            raise StoreError(f"{self.path} already holds a run or another database; choose another file")
        everything = {"format": FORMAT, **facts}
        with self._transaction():
            for statement in SCHEMA.split(";\n"):
                self._db.execute(statement)
            self._insert("clients", clients)
            self._insert("run", [(key, json.dumps(value)) for key, value in everything.items()])

    def _check_format(self) -> None:
        try:
            found = self.facts().get("format")
        except StoreError as error:
            raise StoreError(f"{self.path} is not a run of fedprof ({error.__cause__})") from error
        if found != FORMAT:
            raise StoreError(f"{self.path} has format {found}; this version of fedprof reads format {FORMAT}")

    def _insert(self, table: str, rows: Sequence[Sequence[Any]], *, replace: bool = False) -> None:
        if rows:
            verb = "INSERT OR REPLACE" if replace else "INSERT"
            self._db.executemany(f"{verb} INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing. After it a claimed run's write lock is taken again at once."""
        with _translated(self.path):
            if not self._db.in_transaction:
                self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            if self._claimed:
                self._db.execute("BEGIN IMMEDIATE")


def holds_nothing(path: Path) -> bool:
    """Whether there is no file, or an empty database, as a crash leaves behind that came before the first table."""
    if not path.exists():
        return True
    if path.is_dir():
        raise StoreError(f"{path} is a folder; a run is a file, e.g. {path / 'run.sqlite'}")
    with _translated(path), closing(_connect_to_read(path)) as connection:
        return not connection.execute("SELECT 1 FROM sqlite_master").fetchone()


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=10)
    try:
        connection.execute("PRAGMA synchronous = NORMAL")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _connect_to_read(path: Path) -> sqlite3.Connection:
    """Open for reading; a finished run in a folder that cannot be written has no log beside it and needs none."""
    uri = f"{path.resolve().as_uri()}?mode=ro"
    if not os.access(path.parent, os.W_OK) and not Path(f"{path}-wal").exists():
        uri += "&immutable=1"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=10)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Turn what the disk and SQLite say into one clear error."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise StoreError(_explanation(path, error)) from error
    except OSError as error:
        raise StoreError(f"Cannot read or write the run {path}: {error}") from error


def _explanation(path: Path, error: sqlite3.DatabaseError) -> str:
    code = getattr(error, "sqlite_errorname", "")
    if code.startswith("SQLITE_BUSY"):
        return f"Another process is writing the run {path}: wait until it has ended, or choose another file"
    if code.startswith("SQLITE_CONSTRAINT"):
        return f"Another process has written to the run {path} meanwhile; what it recorded is kept"
    if code == "SQLITE_NOTADB":
        return f"{path} is not a run of fedprof ({error})"
    return f"Cannot read or write the run {path}: {error}. The rounds recorded so far are safe."


def _pack(name: str, number: int, array: NDArray[np.generic]) -> tuple[str, int, str, str, bytes]:
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return name, number, little.dtype.str, json.dumps(list(array.shape)), little.tobytes()


def _unpack(dtype: str, shape: str, data: bytes) -> NDArray[np.generic]:
    little = np.frombuffer(data, dtype=np.dtype(dtype)).reshape(json.loads(shape))
    array = little.astype(little.dtype.newbyteorder("="), copy=False)
    array.flags.writeable = False
    return array
