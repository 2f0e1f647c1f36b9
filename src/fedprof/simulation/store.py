"""A run on disk: one SQLite file (WAL), one transaction a round for the history and the state together.

The schema is documented in ``docs/store.md`` and opens in sqlite3, pandas and DuckDB as it is.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedprof.errors import StoreError

FORMAT = 1
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
    rate: float | None
    seconds: float
    clock: float
    """Virtual seconds since the start."""
    joules: float
    total_joules: float
    selected: int
    accepted: int


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
        self._written: dict[str, NDArray[np.generic]] = {}

    @classmethod
    def create(cls, path: Path | str, facts: Mapping[str, Any], clients: Iterable[ClientRow]) -> Store:
        """Start a run: its settings, versions and clients. The file must not exist."""
        target = Path(path)
        with _translated(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            store = cls(target, _connect(target))
            with store._transaction():
                for statement in SCHEMA.split(";\n"):
                    store._db.execute(statement)
                store._insert("clients", clients, len(ClientRow._fields))
                everything = {"format": FORMAT, **facts}
                store._insert("run", ((key, json.dumps(value)) for key, value in everything.items()), 2)
        return store

    @classmethod
    def open(cls, path: Path | str, *, read_only: bool = False) -> Store:
        """Open a run to go on with it, or only to read."""
        target = Path(path)
        if not target.is_file():
            raise StoreError(f"There is no run at {target}")
        with _translated(target):
            store = cls(target, _connect(target, read_only=read_only))
            try:
                found = store.facts().get("format")
            except sqlite3.DatabaseError as error:
                store.close()
                raise StoreError(f"{target} is not a fedprof run ({error})") from error
        if found != FORMAT:
            store.close()
            raise StoreError(f"{target} has format {found}; this version of fedprof reads format {FORMAT}")
        return store

    def facts(self) -> dict[str, Any]:
        """Settings, versions, seed: what was written when the run began."""
        return {key: json.loads(value) for key, value in self._db.execute("SELECT key, value FROM run")}

    def note(self, key: str, value: object) -> None:
        """Write one fact."""
        with _translated(self.path), self._transaction():
            self._db.execute("INSERT OR REPLACE INTO run VALUES (?, ?)", (key, json.dumps(value)))

    def record(
        self, row: RoundRow, participation: Iterable[ParticipationRow], state: State, wall_seconds: float = 0.0
    ) -> None:
        """Write a round: history and state in one transaction, so that a crash leaves whole rounds only."""
        changed = {name: array for name, array in state.items() if self._written.get(name) is not array}
        gone = self._written.keys() - state.keys()
        with _translated(self.path), self._transaction():
            self._insert("rounds", [row], len(RoundRow._fields))
            self._insert("participation", participation, len(ParticipationRow._fields))
            self._insert("timing", [(row.round, wall_seconds)], 2)
            self._insert("state", (_pack(name, row.round, array) for name, array in changed.items()), 5, replace=True)
            self._db.executemany("DELETE FROM state WHERE name = ?", [(name,) for name in gone])
        self._written = dict(state)

    def state(self) -> dict[str, NDArray[np.generic]]:
        """The state after the last recorded round."""
        rows = self._db.execute("SELECT name, dtype, shape, data FROM state")
        self._written = {name: _unpack(dtype, shape, data) for name, dtype, shape, data in rows}
        return dict(self._written)

    def rounds(self) -> list[RoundRow]:
        """History, in order."""
        return [RoundRow(*row) for row in self._db.execute("SELECT * FROM rounds ORDER BY round")]

    def last_round(self) -> RoundRow | None:
        """The last recorded round."""
        row = self._db.execute("SELECT * FROM rounds ORDER BY round DESC LIMIT 1").fetchone()
        return None if row is None else RoundRow(*row)

    def clients(self) -> list[ClientRow]:
        """The clients, in order."""
        return [ClientRow(*row) for row in self._db.execute("SELECT * FROM clients ORDER BY client")]

    def add_clients(self, rows: Iterable[ClientRow]) -> None:
        """Add clients that joined while the run was going on."""
        with _translated(self.path), self._transaction():
            self._insert("clients", rows, len(ClientRow._fields), replace=True)

    def participation(self) -> Iterator[ParticipationRow]:
        """Every client's part in every round, as far as recorded."""
        for row in self._db.execute("SELECT * FROM participation ORDER BY round, client"):
            yield ParticipationRow(*row)

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a query of one's own."""
        return self._db.execute(sql, values).fetchall()

    def wall_seconds(self) -> float:
        """Real time spent on the recorded rounds."""
        return float(self._db.execute("SELECT COALESCE(SUM(wall_seconds), 0) FROM timing").fetchone()[0])

    def close(self) -> None:
        """Close the file; SQLite then folds its write-ahead log into it."""
        self._db.close()

    def _insert(self, table: str, rows: Iterable[Sequence[Any]], width: int, *, replace: bool = False) -> None:
        verb = "INSERT OR REPLACE" if replace else "INSERT"
        self._db.executemany(f"{verb} INTO {table} VALUES ({', '.join('?' * width)})", rows)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


def _connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    if read_only:
        return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
    connection = sqlite3.connect(path, isolation_level=None, timeout=10)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Turn what the disk and SQLite say into one clear error."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise StoreError(f"Another process is writing the run {path}; what it recorded is kept") from error
    except (sqlite3.OperationalError, OSError) as error:
        raise StoreError(f"Cannot write the run {path}: {error}. The rounds recorded so far are safe.") from error


def _pack(name: str, number: int, array: NDArray[np.generic]) -> tuple[str, int, str, str, bytes]:
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return name, number, little.dtype.str, json.dumps(list(array.shape)), little.tobytes()


def _unpack(dtype: str, shape: str, data: bytes) -> NDArray[np.generic]:
    return np.frombuffer(data, dtype=np.dtype(dtype)).reshape(json.loads(shape))
