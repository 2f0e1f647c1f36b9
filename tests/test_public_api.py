"""The public surface is what `fedprof.__all__` says, and importing it is light."""

import subprocess
import sys

import pytest

import fedprof

EXPORTS = {
    "FedProfError",
    "Profile",
    "__version__",
    "divergence",
    "log_scores",
    "moments",
    "profile",
    "sample",
    "scores",
    "stream",
}
OPTIONAL = {"flwr", "ray", "matplotlib", "plotly", "tenseal", "tensorboard", "mlflow", "wandb", "pandas"}
HEAVY = OPTIONAL | {"torch", "numba", "scipy", "sklearn", "safetensors", "simpy", "pydantic", "typer", "rich", "numpy"}


def loaded_after(code):
    """Which heavy packages a fresh interpreter has loaded after running some code."""
    report = f"import sys\n{code}\nprint(*(set({HEAVY}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_exports_are_exactly_these():
    assert set(fedprof.__all__) == EXPORTS
    assert len(fedprof.__all__) == len(EXPORTS)
    assert set(dir(fedprof)) == EXPORTS


@pytest.mark.parametrize("name", sorted(EXPORTS))
def test_every_export_exists_and_is_documented(name):
    value = getattr(fedprof, name)
    assert name == "__version__" or value.__doc__


def test_functions_are_not_shadowed_by_the_modules_they_live_in():
    code = "import fedprof.core.profile, fedprof.core.divergence, fedprof.core.scores, fedprof\n" + "\n".join(
        f"assert not isinstance(fedprof.{name}, type(sys)), fedprof.{name}" for name in sorted(EXPORTS)
    )
    loaded_after(code)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'fedprof' has no attribute 'nonsense'"):
        _ = fedprof.nonsense


def test_importing_the_package_loads_nothing_heavy():
    assert loaded_after("import fedprof") == set()


@pytest.mark.parametrize("name", sorted(EXPORTS - {"moments", "profile"}))
def test_only_profiling_a_model_needs_pytorch(name):
    assert loaded_after(f"from fedprof import {name}") <= {"numpy"}


def test_profiling_a_model_loads_pytorch_and_nothing_optional():
    loaded = loaded_after("from fedprof import profile")
    assert "torch" in loaded
    assert not loaded & OPTIONAL
