"""Help is quick, and the shell can complete names, because nothing heavy is imported for either."""

import os
import re
import shlex
import subprocess
import sys

import pytest
from typer.main import get_command

from fedprof.cli import catalogue
from fedprof.cli.main import app

HEAVY = ("torch", "numba", "numpy", "matplotlib", "plotly", "scipy", "sklearn", "flwr", "tenseal", "pandas")


def modules_after(code):
    script = f"import sys\n{code}\nprint(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


def test_help_imports_nothing_heavy():
    loaded = modules_after("from fedprof.cli.main import app\ntry:\n    app(['--help'])\nexcept SystemExit:\n    pass")
    assert "fedprof.cli.main" in loaded
    assert loaded.isdisjoint(HEAVY)


def leaves(command=None, name="fedprof"):
    """Every command that does something, by its whole name."""
    command = command or get_command(app)
    inner = getattr(command, "commands", {})
    found = {} if inner and not getattr(command, "invoke_without_command", False) else {name: command}
    for part, below in inner.items():
        found |= leaves(below, f"{name} {part}")
    return found


def follow(words):
    """The command that words lead to, and what is left of them."""
    command = get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    return command, words


def test_there_are_commands():
    assert {"fedprof run", "fedprof compare", "fedprof tasks", "fedprof tasks show"} <= leaves().keys()


@pytest.mark.parametrize("name", leaves())
def test_every_command_shows_an_example_that_it_understands(name):
    examples = re.findall(r"^- `(fedprof .*?)`", leaves()[name].help, re.MULTILINE)
    assert any(example.startswith(name) for example in examples)
    for example in examples:
        command, words = follow(shlex.split(example.partition(" > ")[0])[1:])
        command.make_context("fedprof", words)


@pytest.mark.parametrize("name", leaves())
def test_help_says_what_every_argument_and_option_is(name):
    shown = subprocess.run(
        [sys.executable, "-m", *name.split(), "--help"],
        env={**os.environ, "COLUMNS": "400"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for parameter in leaves()[name].params:
        assert parameter.help, parameter.name
        assert parameter.help.replace("`", "").split(". ")[0] in shown


def test_choices_are_those_there_are():
    from fedprof.training.choose import NAMES

    options = {option.name: option for option in leaves()["fedprof run"].params}
    assert tuple(options["engine"].type.choices) == NAMES


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("fedprof run gas", "gasturbine"),
        ("fedprof compare dig", "digits"),
        ("fedprof run digits --algorithm fedpro", "fedprof"),
        ("fedprof compare digits -a fedavg,cf", "fedavg,cfcfm"),
        ("fedprof figure heat", "heatmap"),
        ("fedprof data fetch emn", "emnist"),
        ("fedprof tasks show dig", "digits"),
        ("fedprof run digits --engine to", "torch"),
    ],
)
def test_the_shell_completes_names(words, expected):
    asked = {"_FEDPROF_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    command = [sys.executable, "-m", "fedprof"]
    environment = {**os.environ, **asked}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert expected in done.stdout.split()


def test_completing_does_not_import_torch():
    code = "from fedprof.cli import completion\nassert completion.tasks('d') and completion.algorithms('f')"
    assert "torch" not in modules_after(code + "\nassert completion.sources('m') and completion.figures('h')")


def test_lists_are_wrapped_in_a_terminal_and_whole_elsewhere(monkeypatch, capsys):
    catalogue.algorithms()
    whole = capsys.readouterr().out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    catalogue.algorithms()
    wrapped = capsys.readouterr().out
    assert max(map(len, wrapped.splitlines())) <= 60 < max(map(len, whole.splitlines()))
    assert wrapped.split() == whole.split()
