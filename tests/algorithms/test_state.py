"""State is one explicit value: saving and loading it in the middle of a run changes nothing, to the bit."""

import subprocess
import sys
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from safetensors.numpy import load, save
from toy_federation import POPULATION, SIZES, play

from fedprof.algorithms.base import Population, Selection, with_clients
from fedprof.algorithms.registry import NAMES, create
from fedprof.errors import SettingsError

VARIANTS = [
    *((name, {}) for name in NAMES),
    ("fedavg", {"reading": "cache"}),
    ("cfcfm", {"reading": "cache"}),
    ("fedavg-rp", {"scheme": "I"}),
    ("fedprox", {"replace": True}),
    ("fedprof", {"aggregation": "full"}),
    ("fedprof", {"aggregation": "full", "reading": "cache"}),
    ("fedprof", {"alpha": "optimal", "replace": True}),
]


def through_a_file(state):
    return load(save({name: np.ascontiguousarray(array) for name, array in state.items()}))


def write_protected(state):
    for array in state.values():
        array.flags.writeable = False
    return state


def bits(result):
    state, weights = result
    return {name: (array.dtype, array.shape, array.tobytes()) for name, array in state.items()}, weights.tobytes()


@pytest.mark.parametrize(("name", "settings"), VARIANTS, ids=str)
def test_saving_and_loading_every_round_changes_nothing(name, settings):
    algorithm = create(name, settings)
    assert bits(play(algorithm, between=through_a_file)) == bits(play(algorithm))


@pytest.mark.parametrize(("name", "settings"), VARIANTS, ids=str)
def test_state_is_replaced_and_never_changed_in_place(name, settings):
    algorithm = create(name, settings)
    assert bits(play(algorithm, between=write_protected)) == bits(play(algorithm))


@pytest.mark.parametrize("name", NAMES)
def test_an_algorithm_is_a_frozen_value(name):
    algorithm = create(name)
    assert algorithm == create(name)
    with pytest.raises(FrozenInstanceError):
        algorithm.alpha = 1.0


def test_growing_keeps_what_is_known_and_marks_the_rest_unknown():
    state = {
        "client/loss": np.array([1.0, 2.0]),
        "client/merged": np.array([1, 1], np.int8),
        "client/seen": np.array([True, True]),
        "momentum": np.zeros(2),
    }
    grown = with_clients(state, 4)
    np.testing.assert_array_equal(grown["client/loss"], [1, 2, np.nan, np.nan])
    np.testing.assert_array_equal(grown["client/merged"], [1, 1, 0, 0])
    np.testing.assert_array_equal(grown["client/seen"], [True, True, False, False])
    assert [array.dtype for array in grown.values()] == [array.dtype for array in state.values()]
    assert len(grown["momentum"]) == 2
    assert len(state["client/loss"]) == 2


@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_goes_on_after_clients_join(name):
    algorithm = create(name)
    state, _ = play(algorithm, rounds=2)
    grown = Population(np.append(SIZES, [30, 30]), POPULATION.cohort, POPULATION.trainable)
    state = with_clients(state, len(grown))
    reached = set()
    for turn in range(300):
        reached.update(algorithm.select(state, grown, np.random.default_rng(turn)).clients.tolist())
    assert {7, 8} <= reached


def test_a_client_drawn_twice_trains_once_and_counts_twice():
    chosen = Selection.of(np.array([5, 2, 5, 0]))
    assert chosen.clients.tolist() == [5, 2, 0]
    assert chosen.draws.tolist() == [2, 1, 1]


@pytest.mark.parametrize(
    ("sizes", "cohort", "problem"),
    [
        ([], 1, "at least one client"),
        ([5, 0, 5], 1, "at least one sample"),
        ([5, 5], 3, "cohort of 3 cannot be chosen from 2"),
        ([5, 5], 0, "cohort of 0"),
    ],
)
def test_an_impossible_population_is_refused(sizes, cohort, problem):
    with pytest.raises(SettingsError, match=problem):
        Population(np.array(sizes, np.int64), cohort)


def test_algorithms_need_neither_torch_nor_anything_that_runs_them():
    code = (
        "import sys; from fedprof.algorithms.registry import NAMES, create; [create(name) for name in NAMES];"
        "print([name for name in ('torch', 'simpy', 'flwr', 'numba', 'matplotlib') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
