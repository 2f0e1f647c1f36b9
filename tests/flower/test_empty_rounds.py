"""A round that gives no new model: the old one stays, and a federation that gives none at all is an error."""

import pytest

pytest.importorskip("flwr", reason="needs the flower extra: pip install 'fedprof[flower]'")

import numpy as np
from flower_fakes import federation, fedprof, in_rounds, start, unavailable, weights, with_arrays
from flwr.serverapp.strategy import FedAvgM

from fedprof.errors import FederationError
from fedprof.simulation.store import Store

pytestmark = pytest.mark.flower

EMPTY = {
    "nobody answers": lambda m, r: None,
    "all nodes are gone": lambda m, r: unavailable(m),
    "all updates are NaN": with_arrays(lambda n, a: a * np.float32("nan")),
}


def failing_in(distort, *numbers):
    grid = federation(4, bad=())
    for node in grid.nodes.values():
        node.wrong = in_rounds(distort, *numbers)
    return grid


def recorded(path):
    store = Store.open(path)
    rows = [(row.round, row.selected, row.accepted) for row in store.rounds()]
    store.close()
    return rows


@pytest.mark.parametrize("case", EMPTY)
def test_a_round_without_a_usable_update_leaves_the_model_as_it_was_and_says_so(case, tmp_path, caplog):
    path = tmp_path / "run.sqlite"
    result = start(fedprof(store=path), failing_in(EMPTY[case], 2), 2)
    assert np.array_equal(weights(result), weights(start(fedprof(), federation(4, bad=()), 1)))
    assert "Round 2: no client's answer can be used (client-" in caplog.text
    assert recorded(path) == [(0, 0, 0), (1, 2, 2), (2, 2, 0)]


@pytest.mark.parametrize("case", EMPTY)
def test_a_first_round_without_a_usable_update_is_an_error_not_an_empty_success(case):
    with pytest.raises(FederationError, match=r"round 1: no client's answer can be used \(client-\d: "):
        start(fedprof(), failing_in(EMPTY[case], 1), 1)


def test_three_rounds_in_a_row_without_a_usable_update_are_an_error(tmp_path):
    path = tmp_path / "run.sqlite"
    with pytest.raises(FederationError, match=r"round 7: no client's answer can be used"):
        start(fedprof(store=path), failing_in(EMPTY["nobody answers"], 2, 3, 5, 6, 7), 9)
    assert [number for number, _, _ in recorded(path)] == [0, 1, 2, 3, 4, 5, 6]  # what was reached is kept


def test_a_model_that_comes_out_infinite_of_finite_updates_is_not_taken(caplog):
    """Nor is the momentum that led to it. (The gate lets pass what no sum takes out of range; a rate can.)"""

    def far(message, reply):
        return with_arrays(lambda n, a: np.full_like(a, 9e29))(message, reply)

    def base():
        return FedAvgM(server_learning_rate=1e9, server_momentum=0.5, fraction_train=1.0, fraction_evaluate=0.0)

    result = start(fedprof(base()), failing_in(far, 2), 3)
    spared = start(fedprof(base()), failing_in(EMPTY["nobody answers"], 2), 3)
    assert np.array_equal(weights(result), weights(spared))
    assert "what FedAvgM made of finite updates holds NaN or infinity" in caplog.text
