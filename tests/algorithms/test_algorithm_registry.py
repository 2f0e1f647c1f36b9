"""Algorithms by name or import path, with errors that help; and the documentation's own algorithm, run as written."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load, save
from toy_federation import POPULATION, SIZES, play

from fedprof.algorithms.registry import NAMES, create, find, parameters
from fedprof.errors import SettingsError
from fedprof.randomness import stream

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


@pytest.fixture
def power_of_choice(tmp_path, monkeypatch):
    """The page's algorithm, saved where the page says."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (code,) = [block for block in blocks if "PowerOfChoice" in block]
    assert len([line for line in code.splitlines() if line.strip()]) < 40
    (tmp_path / "power_of_choice.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "power_of_choice", raising=False)
    return lambda **settings: create("power_of_choice:PowerOfChoice", settings)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_makes_its_algorithm(name):
    assert create(name).name == name
    assert create(name).citation
    assert find(name).__doc__


@pytest.mark.parametrize(
    ("name", "settings", "text"),
    [
        (
            "fedpruf",
            {},
            r"no algorithm 'fedpruf'. Did you mean 'fedprof'\? Known: fedavg, .* package.module:Class",
        ),
        ("FEDAVG_RP", {}, r"Did you mean 'fedavg-rp'\?"),
        ("sgd", {}, r"no algorithm 'sgd'. Known:"),
        (
            "fedprof",
            {"alhpa": 1},
            r"fedprof has no parameter 'alhpa'. Did you mean 'alpha'\? It has: alpha, aggr",
        ),
        ("fedadam", {"speed": 1}, r"It has: server_rate, beta1, beta2"),
        ("fedprof", {"alpha": -1}, r"fedprof.alpha = -1: should be greater than or equal to 0 or should be 'optimal'"),
        ("fedprof", {"alpha": float("nan")}, r"fedprof.alpha = nan"),
        ("fedprof", {"alpha": float("inf")}, r"fedprof.alpha = inf: should be a finite number"),
        ("fedprof", {"aggregation": "half"}, r"aggregation = 'half': should be 'full' or 'partial'"),
        ("fedavg", {"reading": "stale"}, r"reading = 'stale': should be 'fresh' or 'cache'"),
        ("afl", {"alpha1": 1, "alpha3": 2}, r"alpha1 = 1: should be less than 1; afl.alpha3 = 2: .* equal to 1"),
        ("no.such.package:Thing", {}, r"Cannot import the algorithm 'no.such.package:Thing': .*No module named 'no'"),
        ("math:Thing", {}, r"Cannot import the algorithm 'math:Thing': .* no attribute 'Thing'"),
        ("math:pi", {}, r"'math:pi' is not a subclass"),
        ("fedprof.algorithms.base:Algorithm", {}, r"is not a subclass of .* with all it asks for"),
        ("power:", {}, r"no algorithm 'power:'"),
        (".relative:Thing", {}, r"no algorithm '.relative:Thing'"),
    ],
)
def test_mistakes_are_answered_with_what_would_be_right(name, settings, text):
    with pytest.raises(SettingsError, match=text):
        create(name, settings)


def test_a_class_that_is_no_dataclass_is_told_so(tmp_path, monkeypatch):
    (tmp_path / "forgetful.py").write_text(
        "from fedprof.algorithms.base import Algorithm\n"
        "class Forgetful(Algorithm):\n    combines = None\n    def select(self, *_): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SettingsError, match=r"not a dataclass: write @dataclass\(frozen=True\)"):
        create("forgetful:Forgetful")


def test_settings_come_as_text_too():
    assert create("fedprof", {"alpha": "25", "replace": "true"}) == create("fedprof", {"alpha": 25.0, "replace": True})
    assert create("fedprof", {"alpha": "optimal"}).alpha == "optimal"


def test_parameters_lists_names_and_defaults():
    assert parameters(find("fedavg-rp")) == {"scheme": "II"}


def test_power_of_choice_takes_the_worst_fitted_of_its_candidates(power_of_choice):
    everybody = power_of_choice(d=len(SIZES))
    state = {"client/loss": np.array([1.0, 7.0, 2.0, 6.0, 3.0, 5.0, 4.0])}
    assert everybody.select(state, POPULATION, stream(0, "select")).clients.tolist() == [1, 3, 5]
    state["client/loss"][4] = np.nan
    assert everybody.select(state, POPULATION, stream(0, "select")).clients.tolist() == [4, 1, 3]


def test_power_of_choice_with_d_equal_to_k_draws_by_data_size(power_of_choice):
    algorithm, fedprox = power_of_choice(d=1), create("fedprox")
    state = {"client/loss": np.arange(7.0)}
    for turn in range(20):
        ours = algorithm.select(state, POPULATION, stream(0, "select", turn)).clients
        theirs = fedprox.select({}, POPULATION, stream(0, "select", turn)).clients
        assert sorted(ours) == sorted(theirs)


def test_power_of_choice_runs_and_resumes_like_the_built_in_ones(power_of_choice):
    algorithm = power_of_choice(d=5)
    _, weights = play(algorithm)
    _, resumed = play(algorithm, between=lambda state: load(save(dict(state))))
    assert weights.tobytes() == resumed.tobytes()
    with pytest.raises(SettingsError, match="d = 0: should be greater than or equal to 1"):
        power_of_choice(d=0)
