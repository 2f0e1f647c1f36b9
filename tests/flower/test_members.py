"""Nodes come and go; clients stay who they are."""

import pytest

pytest.importorskip("flwr", reason="needs the flower extra: pip install 'fedprof[flower]'")

import numpy as np
from flower_fakes import FakeGrid, Node, client_app, federation, fedprof, loader, start
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

from fedprof.errors import FederationError

pytestmark = pytest.mark.flower


def at_round(grid, number, change):
    """Change the federation when the server writes to the cohort of a round."""

    def before_send(messages):
        if any(m.content.config_records.get("config", {}).get("server-round") == number for m in messages):
            grid.before_send = None
            change()

    grid.before_send = before_send


def join(grid, k, node_id, **options):
    grid.nodes[node_id] = Node(client_app(loader(k, **options)), f"client-{k}", node_id)


def _stripped(reply):
    """As a ClientApp without FedProf replies."""
    reply.content.pop("fedprof", None)
    return reply


def test_clients_are_numbered_by_name_not_by_node_id():
    grid = FakeGrid({900 - k: Node(client_app(loader(k)), f"client-{k}", 900 - k) for k in range(12)})
    strategy = fedprof()
    start(strategy, grid, 1)
    assert strategy.members.roster.names == [f"client-{k}" for k in range(12)]


def test_a_late_joiner_is_asked_when_it_appears_and_keeps_everybodys_number():
    grid = federation(4, bad=())
    strategy = fedprof()
    at_round(grid, 2, lambda: join(grid, 0, 5000, bad=True))
    grid.nodes = {i: node for i, node in grid.nodes.items() if grid.name(i) != "client-0"}
    start(strategy, grid, 4)
    assert strategy.members.roster.names == ["client-1", "client-2", "client-3", "client-0"]
    divergences = strategy.members.state["client/divergence"]
    assert np.isfinite(divergences).all()
    assert divergences[3] > 10 * divergences[:3].max()
    assert strategy.members.picked[3] == 0


def test_a_client_that_returns_under_another_node_id_is_the_same_client():
    grid = federation(4, bad=())
    strategy = fedprof()
    gone = next(i for i in grid.nodes if grid.name(i) == "client-1")

    def restart():
        node = grid.nodes.pop(gone)
        grid.nodes[7000] = Node(node.app, "client-1", 7000)

    at_round(grid, 2, restart)
    start(strategy, grid, 6)
    assert strategy.members.roster.names == [f"client-{k}" for k in range(4)]
    assert strategy.members.roster.present()[1] == 7000
    assert strategy.members.picked.sum() == 12


def test_a_client_out_of_reach_is_not_chosen_and_not_forgotten():
    grid = federation(4, bad=())
    strategy = fedprof()
    gone = next(i for i in grid.nodes if grid.name(i) == "client-1")
    at_round(grid, 1, lambda: grid.nodes.pop(gone))
    start(strategy, grid, 5)
    later = [name for number, names in grid.asked().items() if number > 1 for name in names]
    assert "client-1" not in later
    assert np.isfinite(strategy.members.state["client/divergence"][1])


def test_of_two_nodes_with_one_name_the_second_is_left_out(caplog):
    grid = federation(3, bad=())
    join(grid, 0, 5000)
    strategy = fedprof()
    start(strategy, grid, 3)
    assert len(strategy.members.roster) == 3
    assert sorted(strategy.members.roster.present().values()) != sorted(grid.nodes)
    assert "'client-0', but that client is connected" in caplog.text


def test_a_node_without_a_fedprof_client_takes_part_with_the_neutral_score():
    grid = federation(4, bad=())
    plain = grid.node("client-2")
    with_fedprof, plain.app = plain.app, ClientApp()
    plain.app.train()(lambda message, context: _stripped(with_fedprof(message, context)))
    strategy = fedprof(cohort=4)
    start(strategy, grid, 2)
    names, divergences = strategy.members.roster.names, strategy.members.state["client/divergence"]
    k = names.index(f"node-{plain.context.node_id}")
    assert np.isnan(divergences[k])
    assert k in strategy.going.heard
    scores = strategy.members.standing().scores
    assert scores[k] == pytest.approx(np.median(np.delete(scores, k)), rel=1e-6)


def test_a_client_that_cannot_profile_gets_the_neutral_score_and_the_reason_is_kept(caplog):
    grid = federation(4, bad=())

    def source(context):
        raise OSError("no such disk")

    broken = client_app(loader(2), source=source)
    grid.node("client-2").app = broken
    strategy = fedprof(cohort=4)
    result = start(strategy, grid, 2)
    assert np.isnan(strategy.members.state["client/divergence"][2])
    assert strategy.members.failures == {2: "OSError: no such disk"}
    assert "keeps the neutral score" in caplog.text
    assert strategy.going.heard.keys() == {0, 1, 2, 3}  # it trains all the same
    assert 2 in result.evaluate_metrics_serverapp


def test_when_nobody_can_profile_all_are_alike():
    grid = federation(4)
    for node in grid.nodes.values():
        node.app = client_app(loader(1), source=lambda context: 1 / 0)
    strategy = fedprof()
    start(strategy, grid, 2)
    assert strategy.members.standing().scores == pytest.approx([0.25] * 4)


def test_a_node_that_says_nothing_is_not_chosen_and_asked_again_next_round():
    grid = federation(4, bad=())
    silent = grid.node("client-3")
    silent.wrong = lambda message, reply: None
    at_round(grid, 2, lambda: setattr(silent, "wrong", None))
    strategy = fedprof()
    start(strategy, grid, 4)
    assert strategy.members.roster.names == ["client-0", "client-1", "client-2", "client-3"]
    assert all("client-3" not in names for number, names in grid.asked().items() if number < 3)
    assert np.isfinite(strategy.members.state["client/divergence"][3])


def test_when_no_node_says_who_it_is_the_run_fails_and_says_so():
    grid = federation(3)
    for node in grid.nodes.values():
        node.wrong = lambda message, reply: None
    with pytest.raises(FederationError, match="no node has said who it is"):
        start(fedprof(), grid, 1)


@pytest.mark.parametrize("wanted", [{"base": FedAvg(min_available_nodes=9)}, {"cohort": 9}])
def test_too_few_nodes_within_the_timeout_is_an_error_that_says_how_many(wanted):
    with pytest.raises(FederationError, match=r"3 of at least 9 nodes connected within 0.05 s"):
        start(fedprof(timeout=0.05, **wanted), federation(3), 1)


def test_nodes_that_connect_in_time_are_waited_for():
    grid = federation(2, bad=())
    polls = []

    def ids():
        polls.append(1)
        if len(polls) == 2:
            join(grid, 2, 5000)
        return list(grid.nodes)

    grid.get_node_ids = ids
    strategy = fedprof(FedAvg(min_available_nodes=3, fraction_evaluate=0.0), timeout=30.0)
    start(strategy, grid, 1)
    assert len(strategy.members.roster) == 3
