"""The pages of the documentation show what really happens."""

import re
import sqlite3
from pathlib import Path

import pytest
from console import differences, examples, output

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "cli.md").read_text(encoding="utf-8")


def test_every_example_prints_what_the_page_shows(tmp_path):
    """In the order of the page: later examples use what earlier ones made."""
    wrong = {}
    for block in examples(PAGE):
        for command, shown in block:
            if found := differences(shown, output(command, tmp_path)):
                wrong[command] = found
    assert wrong == {}


def test_every_command_has_an_example():
    from typer.main import get_command

    from fedprof.cli.main import app

    shown = " ".join(command for block in examples(PAGE) for command, _ in block)
    group = get_command(app)
    names = []
    for name, command in group.commands.items():
        inner = getattr(command, "commands", {})
        names += [f"{name} {part}" for part in inner] or [name]
    beyond_a_test = {"data fetch", "reproduce"}  # a network; hours
    assert {name for name in names if f"fedprof {name}" not in shown} == beyond_a_test


def test_a_wrong_page_would_be_noticed():
    assert differences("best 0.912", "best 0.870")
    assert differences("0.0749 Wh", "0.0949 Wh")
    assert differences("reached 3/3", "reached 2/3")
    assert differences("best 0.912", "worst 0.912")
    assert differences("one\ntwo", "one")
    assert not differences("best  0.912", "best 0.910")


STORE = (DOCS / "store.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    output("fedprof run digits --rounds 3 --engine torch --workers 1 -o run.sqlite", folder)
    return folder


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", STORE, re.DOTALL), ids=lambda code: code.split()[1])
def test_a_stored_run_opens_as_the_page_says(code, run, monkeypatch, capsys):
    module = pytest.importorskip(code.split()[1])
    monkeypatch.chdir(run)
    try:
        exec(code, {})
    except getattr(module, "IOException", ()) as error:
        if "Failed to download extension" not in str(error):
            raise
        pytest.skip("DuckDB's sqlite extension is not installed and cannot be fetched here")
    assert capsys.readouterr().out.strip()


def test_the_page_names_every_table_and_column(run):
    with sqlite3.connect(run / "run.sqlite") as file:
        tables = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = {table: [row[1] for row in file.execute(f"PRAGMA table_info({table})")] for table in tables}
    file.close()
    described = {
        match[1]: set(re.findall(r"^\| `(\w+)`", match[2], re.MULTILINE))
        for match in re.finditer(r"^## `(\w+)`\n(.*?)(?=^## |\Z)", STORE, re.DOTALL | re.MULTILINE)
    }
    assert described == {table: set(names) for table, names in columns.items()}
