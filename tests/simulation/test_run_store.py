"""A run on disk: what is written is what is read, by whom it may be written, and what the errors say."""

import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from fedprof.errors import StoreError
from fedprof.simulation.store import ClientRow, ParticipationRow, RoundRow, Store, holds_nothing

FACTS = {"plan": {"name": "toy", "seed": 3}, "engine": "toy"}
CLIENTS = [ClientRow(0, "a", "normal", 5, 1.0, 2.0), ClientRow(1, "b", "blur", 6)]
STATE = {
    "weights": np.arange(6, dtype=np.float32).reshape(2, 3),
    "step": np.asarray(7),
    "flags": np.array([True, False]),
    "nan": np.array([np.nan, 1.0]),
    "none": np.zeros((0, 3), np.int8),
}


@pytest.fixture
def store(tmp_path):
    made = Store.create(tmp_path / "runs" / "a.sqlite", FACTS, CLIENTS)
    yield made
    made.close()


def test_what_is_written_is_read_back(store):
    row = RoundRow(1, 0.5, 0.7, 0.6, 0.01, 30.0, 60.0, 5.0, 9.0, 2, 1)
    parts = [
        ParticipationRow(1, 0, 1, 1, 0.25, 0.5, None, 1, 2, 3, 4, 5, 6, 7, 8, "crashed"),
        ParticipationRow(1, 1, 0),
    ]
    store.record(row, iter(parts), STATE, wall_seconds=1.5)
    store.close()
    again = Store.open(store.path, read_only=True)
    assert again.facts() == {"format": 1, **FACTS}
    assert again.clients() == CLIENTS
    assert again.rounds() == [row]
    assert again.last_round() == row
    assert list(again.participation()) == parts
    assert again.wall_seconds() == 1.5
    for name, array in again.state().items():
        assert array.dtype == STATE[name].dtype
        assert array.shape == STATE[name].shape
        np.testing.assert_array_equal(array, STATE[name])
    again.close()


def test_a_loaded_state_is_read_only_and_in_the_machines_own_byte_order(store):
    store.record(RoundRow(0, None, None, None), [], {"a": np.arange(3, dtype=">i4")})
    loaded = store.state()["a"]
    assert loaded.dtype.isnative
    assert loaded.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        loaded[0] = 1


def test_numbers_lie_on_disk_in_little_endian(store):
    store.record(RoundRow(0, None, None, None), [], {"a": np.array([1, 256], ">i4")})
    assert store.query("SELECT dtype, shape, data FROM state") == [("<i4", "[2]", bytes([1, 0, 0, 0, 0, 1, 0, 0]))]


def test_state_that_did_not_change_is_not_written_again_and_what_is_gone_is_deleted(store):
    old, gone = np.zeros(3), np.ones(1)
    store.record(RoundRow(0, None, None, None), [], {"old": old, "new": np.zeros(1), "gone": gone})
    store.record(RoundRow(1, None, None, None), [], {"old": old, "new": np.ones(1)})
    assert sorted(store.query("SELECT name, round FROM state")) == [("new", 1), ("old", 0)]


def test_a_round_is_written_whole_or_not_at_all(store):
    store.record(RoundRow(0, None, None, None), [], {"a": np.zeros(1)})
    with pytest.raises(ZeroDivisionError):
        store.record(RoundRow(1, None, None, None), (ParticipationRow(1, 1 // k, 0) for k in (1, 0)), {"a": np.ones(1)})
    twice = [ParticipationRow(1, 0, 0)] * 2
    with pytest.raises(StoreError):
        store.record(RoundRow(1, None, None, None), twice, {"a": np.ones(1)})
    assert store.last_round().round == 0
    assert not list(store.participation())
    assert store.state()["a"].tolist() == [0]
    store.record(RoundRow(1, None, None, None), twice[:1], {"a": np.ones(1)})
    assert store.state()["a"].tolist() == [1]


def test_notes_are_facts(store):
    store.note("versions-resumed", [{"numpy": "9"}])
    assert store.facts()["versions-resumed"] == [{"numpy": "9"}]


def test_clients_may_join(store):
    store.add_clients([ClientRow(2, "c", "normal", 9)])
    assert [row.name for row in store.clients()] == ["a", "b", "c"]


def test_a_run_is_read_while_it_is_written(store):
    store.record(RoundRow(0, 0.1, None, None), [], {})
    reader = Store.open(store.path, read_only=True)
    store.record(RoundRow(1, 0.2, None, None), [], {})
    assert [row.round for row in reader.rounds()] == [0, 1]
    reader.close()


def test_only_one_may_write_a_run_at_a_time(store):
    store.record(RoundRow(0, None, None, None), [], {})
    other = Store.open(store.path)
    with pytest.raises(StoreError, match=r"Another process is writing .*a\.sqlite"):
        other.claim()
    other.close()
    store.record(RoundRow(1, None, None, None), [], {})
    assert store.last_round().round == 1


def test_a_closed_run_can_be_claimed(store):
    store.close()
    other = Store.open(store.path)
    other.claim()
    other.record(RoundRow(0, None, None, None), [], {})
    other.close()


def test_a_second_run_is_not_made_over_the_first(store):
    store.close()
    with pytest.raises(StoreError, match="already holds a run"):
        Store.create(store.path, FACTS, [])


def test_a_finished_run_is_one_file(store):
    store.record(RoundRow(0, None, None, None), [], STATE)
    store.close()
    assert [path.name for path in store.path.parent.iterdir()] == ["a.sqlite"]


def test_the_log_beside_a_run_does_not_grow_without_end(store):
    for number in range(60):
        store.record(RoundRow(number, None, None, None), [], {"weights": np.full(100_000, number, np.float32)})
    assert store.path.with_name("a.sqlite-wal").stat().st_size < 10_000_000


@pytest.mark.parametrize("read_only", [False, True])
def test_what_is_no_run_is_named(tmp_path, read_only):
    with pytest.raises(StoreError, match="no run at"):
        Store.open(tmp_path / "none.sqlite", read_only=read_only)
    text = tmp_path / "text.csv"
    text.write_text("a,b\n" * 500)
    with pytest.raises(StoreError, match=r"text\.csv is not a run of fedprof"):
        Store.open(text, read_only=read_only)
    assert text.read_text() == "a,b\n" * 500
    foreign = tmp_path / "foreign.sqlite"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE other (a)")
    with pytest.raises(StoreError, match=r"not a run of fedprof .*no such table"):
        Store.open(foreign, read_only=read_only)


def test_another_format_is_refused(store):
    store.note("format", 99)
    store.close()
    with pytest.raises(StoreError, match="format 99"):
        Store.open(store.path)


def test_a_foreign_database_is_not_written_over(tmp_path):
    foreign = tmp_path / "foreign.sqlite"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE other (a)")
    with pytest.raises(StoreError, match="another database"):
        Store.create(foreign, FACTS, [])


def test_a_damaged_run_is_a_clear_error(store):
    store.record(RoundRow(0, None, None, None), [], {"a": np.zeros(50_000)})
    store.close()
    content = bytearray(store.path.read_bytes())
    content[2000:200_000] = bytes(198_000)
    store.path.write_bytes(content)
    with pytest.raises(StoreError):
        Store.open(store.path, read_only=True).state()


def test_an_empty_file_or_database_holds_nothing(tmp_path, store):
    assert holds_nothing(tmp_path / "none")
    (tmp_path / "empty").touch()
    assert holds_nothing(tmp_path / "empty")
    sqlite3.connect(tmp_path / "wal").execute("PRAGMA journal_mode = WAL").connection.close()
    assert holds_nothing(tmp_path / "wal")
    assert not holds_nothing(store.path)


def test_a_run_that_cannot_be_placed_is_a_clear_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="file"):
        Store.create(tmp_path / "file" / "a.sqlite", FACTS, [])
    with pytest.raises(StoreError, match="unable to open"):
        Store.create(tmp_path, FACTS, [])


UNPRIVILEGED = """
import os, sys
from pathlib import Path
from fedprof.errors import StoreError
from fedprof.simulation.store import RoundRow, Store
path = Path(sys.argv[1])
os.setuid(65534)
reader = Store.open(path, read_only=True)
assert reader.last_round().round == 0, "reading"
reader.close()
for attempt in (lambda: Store.create(path.parent / "new.sqlite", {}, []), lambda: Store.open(path).claim()):
    try:
        attempt()
    except StoreError as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform == "win32" or __import__("os").getuid() != 0, reason="needs root, to become nobody")
def test_a_folder_that_cannot_be_written_can_still_be_read(store, tmp_path):
    store.record(RoundRow(0, None, None, None), [], {})
    store.close()
    for folder in (tmp_path, *list(tmp_path.parents)[:-2]):
        folder.chmod(folder.stat().st_mode | 0o055)
    before = store.path.read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", UNPRIVILEGED, str(store.path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Cannot read or write the run") == 2
    assert store.path.read_bytes() == before


@pytest.mark.parametrize("package", ["pandas", "duckdb"])
def test_others_open_a_run_directly(store, package):
    module = pytest.importorskip(package)
    store.record(RoundRow(0, 0.25, None, None), [], {})
    store.record(RoundRow(1, 0.5, None, None), [], {})
    store.close()
    if package == "pandas":
        with sqlite3.connect(store.path) as connection:
            frame = module.read_sql("SELECT round, accuracy FROM rounds", connection)
        assert frame["accuracy"].tolist() == [0.25, 0.5]
        return
    database = module.connect(config={"autoinstall_known_extensions": False})
    try:
        database.execute(f"ATTACH '{store.path}' AS run (TYPE sqlite)")
    except module.Error as error:
        pytest.skip(f"DuckDB's sqlite extension is not there: {error}")
    assert database.execute("SELECT max(accuracy) FROM run.rounds").fetchall() == [(0.5,)]
