"""The engine is chosen by what the model allows, unless one is named."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
import torch_cases as cases

from fedprof.errors import SettingsError
from fedprof.models.registry import create
from fedprof.training.choose import available_cpus, make_engine

TESTS = Path(__file__).parent


def chosen(work, *arguments, **options):
    engine = make_engine(work, *arguments, **options)
    engine.close()
    return engine.name


def test_a_sequence_of_plain_layers_goes_to_the_native_engine():
    assert chosen(cases.mlp()) == "native"
    assert chosen(cases.lenet()) == "native"
    assert chosen(cases.mlp(), "native", 1) == "native"


@pytest.mark.parametrize("case", ["lstm", "batch norm", "dropout"])
def test_any_other_model_goes_to_pytorch(case):
    assert chosen(cases.CASES[case]()) == "torch"


def test_wide_dense_layers_go_to_pytorch_where_there_is_no_avx512(monkeypatch):
    wide = dataclasses.replace(cases.mlp(), model=create("mlp", 0, inputs=6, hidden=[2048, 2048], outputs=4))
    for lanes, name in ((16, "native"), (8, "torch")):
        monkeypatch.setattr("fedprof.training.native.engine.widest", lambda lanes=lanes: lanes)
        assert chosen(wide) == name
        assert chosen(wide, "native", 1) == "native"
        assert chosen(cases.mlp()) == "native"


def test_pytorch_can_be_asked_for():
    assert chosen(cases.mlp(), "torch", 1) == "torch"


def test_a_loss_of_ones_own_goes_to_pytorch():
    work = dataclasses.replace(cases.mlp(), loss=lambda outputs, targets: outputs.mean() + targets.sum())
    assert chosen(work) == "torch"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("nativ",), "unknown engine 'nativ'; there are auto, native, torch"),
        (("torch", 0), "workers is 0; it takes at least one"),
        (("native", 1, "meta"), "the native engine cannot run this task: it runs on the CPU, not on meta"),
    ],
)
def test_a_choice_that_cannot_be_is_refused(arguments, problem):
    with pytest.raises(SettingsError, match=problem):
        make_engine(cases.mlp(), *arguments)


NO_NUMBA = """
import sys
import warnings
sys.modules["numba"] = None
import torch_cases as cases
from fedprof.errors import SettingsError
from fedprof.models.registry import create
from fedprof.training.choose import make_engine
with warnings.catch_warnings(record=True) as said:
    assert make_engine(cases.mlp()).name == "torch"
assert "Numba cannot be imported" in str(said[0].message)
try:
    make_engine(cases.mlp(), "native")
except SettingsError as error:
    assert "Numba cannot be imported" in str(error)
else:
    raise AssertionError
"""


def test_where_numba_cannot_be_imported_pytorch_trains_and_the_reason_is_told():
    done = subprocess.run([sys.executable, "-c", NO_NUMBA], cwd=TESTS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_native_engine_says_why_it_cannot():
    with pytest.raises(
        SettingsError, match=r"the native engine cannot run this task: .*Dropout.*; use the torch engine"
    ):
        make_engine(cases.dropped(), "native")


def test_there_is_at_least_one_cpu():
    assert available_cpus() >= 1
