from functools import cache

import pytest
from toy_histories import archived, reaching

from fedprof.reproduction import judges
from fedprof.reproduction.claims import CLAIMS
from fedprof.reproduction.experiments import GROUPS, find
from fedprof.reproduction.judges import Verdict
from fedprof.reproduction.results import outcome

GOAL = 0.9


@pytest.fixture(scope="module")
def plans():
    """Settle each run once."""
    return cache(lambda name, algorithm, mode, seed: find(name)[0].plan(algorithm, mode, seed))


@pytest.fixture
def table(plans):
    """Results of a table whose runs reach the goal after given rounds, per algorithm, plus the seed."""

    def history(algorithm, seed, after, best):
        rounds, final = after[algorithm], None if best is None else best[algorithm] + seed / 1000
        jitter = seed + (seed == 2 and algorithm == "fedprof")
        return reaching(GOAL, None if rounds is None else rounds + jitter, 30, final)

    def make(after, best=None, seeds=3, name="gasturbine"):
        runs = [
            archived(plans(name, algorithm, mode, seed), history(algorithm, seed, after, best))
            for seed in range(seeds)
            for mode, algorithms in GROUPS.items()
            for algorithm in algorithms
        ]
        return outcome(find(name)[0], runs)

    return make


EVERYBODY = {"fedavg": 24, "cfcfm": 26, "fedavg-rp": 20, "fedprox": 21, "fedadam": 22, "afl": 23, "fedprof": 5}


def test_quicker_on_every_seed_with_little_spread_is_confirmed(table):
    finding = judges.faster("partial")(table(EVERYBODY))
    assert finding.verdict is Verdict.CONFIRMED
    assert "earlier on 3 of 3" in finding.measured


def test_quicker_than_all_but_one_is_not_confirmed(table):
    assert judges.faster("partial")(table({**EVERYBODY, "afl": 2})).verdict is Verdict.NOT


def test_a_baseline_that_never_arrives_is_slower(table):
    finding = judges.faster("partial")(table({**EVERYBODY, "afl": None}))
    assert finding.verdict is Verdict.CONFIRMED
    assert "AFL not in 30" in finding.measured


def test_two_seeds_that_agree_exactly_prove_nothing(table):
    assert judges.faster("partial")(table(EVERYBODY, seeds=2)).verdict is Verdict.DIRECTION


def test_a_fedprof_that_never_arrives_confirms_nothing(table):
    lost = table({**EVERYBODY, "fedprof": None})
    assert judges.faster("full")(lost).verdict is Verdict.NOT
    assert judges.speedup("full", "fedavg", 2.1)(lost).verdict is Verdict.NOT
    assert judges.within_60(lost).verdict is not Verdict.CONFIRMED


def test_a_speedup_below_the_papers_is_confirmed_in_direction_only(table):
    found = table({**EVERYBODY, "fedavg": 10})
    assert judges.speedup("full", "fedavg", 1.5)(found).verdict is Verdict.CONFIRMED
    assert judges.speedup("full", "fedavg", 2.1)(found).verdict is Verdict.DIRECTION
    assert judges.speedup("full", "fedavg", 2.1)(table({**EVERYBODY, "fedavg": 4})).verdict is Verdict.NOT


def test_gains_are_measured_in_best_accuracy(table):
    best = dict.fromkeys(EVERYBODY, 0.92) | {"fedprof": 0.95}
    finding = judges.gain(0.018)(table(EVERYBODY, best))
    assert finding.verdict is Verdict.CONFIRMED
    assert "+3.0 points on FedAvg" in finding.measured
    assert judges.gain(0.068)(table({**EVERYBODY}, best, name="cifar10")).verdict is Verdict.DIRECTION


def test_participation_is_measured_against_an_even_chance(table):
    found = table(EVERYBODY)
    assert judges.avoids("noise", "polluted", below=0.5)(found).verdict is Verdict.CONFIRMED
    assert judges.avoids("normal", below=0.5)(found).verdict is Verdict.NOT


def test_who_is_quickest_by_the_clock_is_found(table):
    assert judges.cfcfm_is_quickest(table(EVERYBODY)).verdict is Verdict.NOT
    assert judges.cfcfm_is_quickest(table({**EVERYBODY, "cfcfm": 3})).verdict is Verdict.CONFIRMED


def test_without_runs_every_claim_stays_open():
    assert all(claim.findings({}) == [] for claim in CLAIMS)


def test_every_claim_is_judged_by_a_whole_table(table):
    for name, task in (("gasturbine", "gasturbine"), ("emnist-200", "emnist"), ("cifar10", "cifar10")):
        found = {name: table(EVERYBODY, name=name)}
        mine = [claim for claim in CLAIMS if task in claim.tasks]
        assert mine
        for claim in mine:
            ((where, finding),) = claim.findings(found)
            assert where == name
            assert finding.verdict is not Verdict.OPEN, claim.text
