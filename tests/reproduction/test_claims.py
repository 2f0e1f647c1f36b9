import dataclasses
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


def test_a_run_ended_before_100_rounds_does_not_show_that_100_are_needed(table):
    found = table({**EVERYBODY, "fedavg": None}, name="emnist-200")
    finding = judges.under_30_against_100(found)
    assert finding.verdict is Verdict.DIRECTION
    assert "FedAvg not in 30" in finding.measured


def test_a_claim_on_every_baseline_stays_open_while_one_is_missing(table):
    found = table(EVERYBODY)
    entries = {key: entry for key, entry in found.entries.items() if key[0] != "cfcfm"}
    found = dataclasses.replace(found, entries=entries)
    for judge in (judges.faster("full"), judges.most_accurate("full"), judges.within_60, judges.less_than_half):
        assert judge(found).verdict is Verdict.OPEN


def test_a_baseline_that_sometimes_fails_is_not_counted_as_twice_as_slow(table):
    rounds = dict.fromkeys(EVERYBODY, 20) | {"fedprof": 18, "afl": None}
    finding = judges.less_than_half(table(rounds))
    assert finding.verdict is Verdict.DIRECTION
    assert "below half of 0 of 6" in finding.measured
    assert "at most 0.64 of AFL's" in finding.measured


def test_each_saving_is_held_against_the_papers_own(table):
    found = table({**EVERYBODY, "fedavg-rp": 10, "fedadam": 26})
    judge = judges.reduction("energy", "partial", {"fedavg-rp": 0.6, "fedadam": 0.6})
    assert judge(found).verdict is Verdict.DIRECTION
    assert "42.4 % less than FedAvg-RP (60.0), 76.5 % less than FedADAM (60.0)" in judge(found).measured
    best = judges.reduction("energy", "partial", {"fedavg-rp": 0.6, "fedadam": 0.6}, up_to=True)
    assert best(found).verdict is Verdict.CONFIRMED


def test_figures_are_compared_over_common_seeds(table):
    found = table(EVERYBODY)
    late = {("fedavg", "full"): found.entries["fedavg", "full"].over({2})}
    found = dataclasses.replace(found, entries={**found.entries, **late})
    assert "3.2 times" in judges.speedup("full", "fedavg", 2.1)(found).measured  # (24 + 2) / (5 + 3)


def test_closest_to_fedprof_is_who_needs_most_nearly_as_many_rounds(table):
    ahead = {**EVERYBODY, "afl": 1, "fedadam": 6}
    assert judges.afl_is_closest(table(ahead, name="emnist-200")).verdict is Verdict.NOT
    assert judges.afl_is_closest(table({**ahead, "afl": 5}, name="emnist-200")).verdict is Verdict.CONFIRMED


def test_one_seed_does_not_confirm_that_partial_is_faster(table):
    assert judges.partial_is_faster(table({**EVERYBODY, "fedavg": None}, seeds=1)).verdict is Verdict.DIRECTION


def test_participation_is_measured_against_normal_clients(table):
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
