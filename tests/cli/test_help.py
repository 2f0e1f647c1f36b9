"""Help is quick, and the shell can complete names, because nothing heavy is imported for either."""

import os
import subprocess
import sys

import pytest

HEAVY = ("torch", "numba", "numpy", "matplotlib", "plotly", "scipy", "sklearn", "flwr", "tenseal", "pandas")


def modules_after(code):
    script = f"import sys\n{code}\nprint(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


def test_help_imports_nothing_heavy():
    loaded = modules_after("from fedprof.cli.main import app\ntry:\n    app(['--help'])\nexcept SystemExit:\n    pass")
    assert "fedprof.cli.main" in loaded
    assert loaded.isdisjoint(HEAVY)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("fedprof run gas", "gasturbine"),
        ("fedprof compare dig", "digits"),
        ("fedprof run digits --algorithm fedpro", "fedprof"),
        ("fedprof compare digits -a fedavg,cf", "fedavg,cfcfm"),
        ("fedprof figure heat", "heatmap"),
        ("fedprof data fetch emn", "emnist"),
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
