"""A round in virtual time: who is merged, when it ends, who is charged, and what can go wrong."""

import numpy as np
import pytest
from simulated import ask, fleet_of

from fedprof.simulation.federation import Federation


def ids(submissions):
    return [one.client for one in submissions]


def test_clients_are_merged_in_order_of_arrival():
    outcome = fleet_of([3, 1, 2]).round(1, 0.0, ask(0, 1, 2), profile=False)
    assert ids(outcome.merged) == [1, 2, 0]
    assert outcome.ended == pytest.approx(3)


def test_ties_are_settled_by_the_order_asked():
    outcome = fleet_of([1, 1, 1]).round(1, 0.0, ask(2, 0, 1), profile=False)
    assert ids(outcome.merged) == [2, 0, 1]


def test_a_round_starts_where_the_last_one_ended():
    assert fleet_of([2]).round(5, 100.0, ask(0), profile=False).ended == pytest.approx(102)


def test_only_those_asked_take_part():
    assert ids(fleet_of([1, 2, 3]).round(1, 0.0, ask(2), profile=False).charged) == [2]


def test_the_round_ends_when_the_quota_is_full_and_the_others_are_not_charged():
    outcome = fleet_of([1, 2, 3, 4]).round(1, 0.0, ask(0, 1, 2, 3, quota=2), profile=False)
    assert ids(outcome.merged) == ids(outcome.charged) == [0, 1]
    assert outcome.ended == pytest.approx(2)


def test_those_who_go_first_fill_the_quota_before_quicker_others():
    first = [False, False, True, True]
    outcome = fleet_of([1, 2, 3, 4]).round(1, 0.0, ask(0, 1, 2, 3, quota=2, first=first), profile=False)
    assert ids(outcome.merged) == [2, 3]
    assert outcome.ended == pytest.approx(4)


def test_others_fill_what_is_left_of_the_quota_in_order_of_arrival():
    first = [False, False, False, True]
    outcome = fleet_of([1, 2, 3, 4]).round(1, 0.0, ask(0, 1, 2, 3, quota=2, first=first), profile=False)
    assert ids(outcome.merged) == [3, 0]
    assert outcome.ended == pytest.approx(4)


def test_a_quota_of_everybody_waits_for_everybody():
    outcome = fleet_of([1, 2]).round(1, 0.0, ask(0, 1, quota=2), profile=False)
    assert ids(outcome.merged) == [0, 1]


def test_who_goes_first_and_fails_is_not_waited_for():
    for seed in range(30):
        federation = Federation(*_parts(fleet_of([1, 2, 9], dropout=0.5), seed))
        outcome = federation.round(1, 0.0, ask(0, 1, 2, quota=1, first=[False, False, True]), profile=False)
        if ids(outcome.failed) == [2]:
            assert ids(outcome.merged) == [0]
            assert outcome.ended == pytest.approx(10)  # when the server notices
            return
    pytest.fail("no seed gave the case")


def _parts(federation, seed):
    return federation.costs, federation.conditions, seed


def test_a_deadline_ends_the_round_and_charges_the_late_in_full():
    outcome = fleet_of([1, 5], deadline=2.0).round(1, 0.0, ask(0, 1), profile=False)
    assert outcome.ended == pytest.approx(2)
    assert ids(outcome.merged) == [0]
    (late,) = outcome.failed
    assert (late.client, late.failure) == (1, "timed out")
    assert sum(late.seconds) == pytest.approx(5)


def test_a_deadline_nobody_misses_changes_nothing():
    assert fleet_of([1, 2], deadline=3.0).round(1, 0.0, ask(0, 1), profile=False) == fleet_of([1, 2]).round(
        1, 0.0, ask(0, 1), profile=False
    )


def test_a_deadline_that_all_miss_leaves_nobody():
    outcome = fleet_of([3, 5], deadline=2.0).round(1, 0.0, ask(0, 1), profile=False)
    assert not outcome.merged
    assert [one.failure for one in outcome.failed] == ["timed out"] * 2


def test_a_crash_costs_a_part_of_the_training_and_no_upload():
    federation = fleet_of([4.0] * 50, crash=1.0)
    outcome = federation.round(1, 0.0, ask(*range(50)), profile=False)
    assert not outcome.merged
    assert {one.failure for one in outcome.failed} == {"crashed"}
    training = [one.seconds[2] for one in outcome.failed]
    assert 0 < min(training) < 1
    assert 3 < max(training) < 4
    assert {one.seconds[3] for one in outcome.failed} == {0.0}
    assert {one.joules[3] for one in outcome.failed} == {0.0}
    assert outcome.ended == pytest.approx(max(training) + 10)  # the server notices ten seconds later


def test_a_dropout_costs_the_client_nothing_and_the_server_the_time_to_notice():
    outcome = fleet_of([4.0] * 3, dropout=1.0, notice=7.0).round(1, 0.0, ask(0, 1, 2), profile=False)
    assert [(one.failure, sum(one.seconds), sum(one.joules)) for one in outcome.failed] == [("unreachable", 0, 0)] * 3
    assert outcome.ended == pytest.approx(7)


def test_mishaps_come_as_often_as_they_should():
    federation = fleet_of([1.0] * 400, crash=0.25, dropout=0.2)
    failures = [one.failure for one in federation.round(1, 0.0, ask(*range(400)), profile=False).failed]
    assert failures.count("unreachable") / 400 == pytest.approx(0.2, abs=0.06)
    assert failures.count("crashed") / 400 == pytest.approx(0.8 * 0.25, abs=0.06)


def test_a_clients_luck_does_not_depend_on_who_else_is_asked():
    federation = fleet_of([1.0] * 40, crash=0.3, dropout=0.3)
    everybody = {one.client: one for one in federation.round(3, 0.0, ask(*range(40)), profile=False).charged}
    few = federation.round(3, 0.0, ask(7, 2, 31), profile=False).charged
    assert all(everybody[one.client] == one for one in few)


def test_luck_changes_from_round_to_round():
    federation = fleet_of([1.0] * 40, dropout=0.5)
    rounds = [ids(federation.round(number, 0.0, ask(*range(40)), profile=False).merged) for number in (1, 2)]
    assert rounds[0] != rounds[1]


def test_each_client_is_reachable_for_its_share_of_every_period():
    federation = fleet_of([0.1] * 20, availability=0.25, period=100.0)
    there = np.array([_reached(federation, clock) for clock in np.arange(0.0, 200.0, 2.5)])
    assert there[:40].mean(axis=0) == pytest.approx(np.full(20, 0.25), abs=0.03)
    assert (there[:40] == there[40:]).all()  # and again in the next period
    assert len({tuple(one) for one in there.T}) > 10  # from a phase of its own on


def _reached(federation, clock):
    return [k in ids(federation.round(1, clock, ask(*range(20)), profile=False).merged) for k in range(20)]


def test_a_window_is_one_stretch_of_time():
    federation = fleet_of([0.1], availability=0.5, period=100.0)
    there = [bool(federation.round(1, clock, ask(0), profile=False).merged) for clock in np.arange(0.0, 100.0, 1.0)]
    changes = sum(one != other for one, other in zip(there, there[1:] + there[:1], strict=True))
    assert changes == 2


def test_when_nobody_can_be_reached_time_still_passes():
    federation = fleet_of([1.0], availability=0.01, period=1000.0)
    clock = 0.0
    for number in range(1, 200):
        outcome = federation.round(number, clock, ask(0), profile=False)
        if outcome.merged:
            return
        clock = outcome.ended
    pytest.fail("the client's window never came")


def test_bandwidth_varies_around_its_mean_within_the_spread():
    steady, varying = (_uploads(spread) for spread in (0.0, 0.4))
    assert len(set(steady)) == 1
    speeds = steady[0] / np.array(varying)
    assert 0.6 <= speeds.min() < 0.7
    assert 1.3 < speeds.max() <= 1.4
    assert speeds.mean() == pytest.approx(1.0, abs=0.05)


def _uploads(spread):
    federation = fleet_of([1.0] * 4, bandwidth_variation=spread)
    return [
        one.seconds[3]
        for number in range(1, 60)
        for one in federation.round(number, 0.0, ask(0, 1, 2, 3), profile=False).merged
    ]


def test_everything_off_is_the_papers_federation():
    conditions = fleet_of([1.0]).conditions
    assert (conditions.crash, conditions.dropout, conditions.deadline) == (0, 0, None)
    assert (conditions.availability, conditions.bandwidth_variation) == (1, 0)


@pytest.mark.parametrize("conditions", [{}, {"crash": 0.3, "dropout": 0.2, "bandwidth_variation": 0.5, "deadline": 3}])
def test_a_round_is_a_function_of_seed_number_and_clock(conditions):
    outcomes = [fleet_of([3, 1, 2] * 5, **conditions).round(4, 7.0, ask(*range(15)), profile=False) for _ in range(2)]
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("conditions", [{}, {"crash": 0.2, "dropout": 0.2, "notice": 0.5}, {"deadline": 1.4}])
@pytest.mark.parametrize("seed", range(6))
def test_leaving_out_who_cannot_fill_the_quota_changes_nothing(monkeypatch, conditions, seed):
    rng = np.random.default_rng(seed)
    federation = fleet_of(rng.uniform(1, 3, 60).round(1), bandwidth_variation=0.3, **conditions)
    selection = ask(*range(60), quota=12, first=rng.random(60) < 0.6)
    quick = federation.round(2, 50.0, selection, profile=False)
    monkeypatch.setattr("fedprof.simulation.federation._who_matters", lambda *_: np.arange(60))
    assert federation.round(2, 50.0, selection, profile=False) == quick
