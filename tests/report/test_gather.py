"""The numbers behind the figures."""

import numpy as np
import pytest
from toy_runs import KINDS

from fedprof.report import gather
from fedprof.report.comparison import compare
from fedprof.report.stored import read


@pytest.fixture
def series(run_file):
    made = [
        run_file("0.sqlite", algorithm="fedprof", seed=0, accuracies=(0.0, 0.4, 0.8, 0.9), scored=True),
        run_file("1.sqlite", algorithm="fedprof", seed=1, accuracies=(0.2, 0.6, 0.8), scored=True),
    ]
    return compare(map(read, made))[0].series[0]


def test_a_band_goes_as_far_as_all_runs_go(series):
    band = gather.accuracy(series, "rounds")
    assert band.x.tolist() == [0, 1, 2]
    assert band.mean.tolist() == pytest.approx([0.1, 0.5, 0.8])
    assert band.std.tolist() == pytest.approx([0.02**0.5, 0.02**0.5, 0])
    assert band.low[0] == 0


def test_against_time_the_model_is_that_of_the_last_round_that_ended(series):
    band = gather.accuracy(series, "minutes")
    assert band.x[-1] == 2.0
    at = dict(zip(band.x.round(3).tolist(), band.mean, strict=True))
    before, after = max(x for x in at if x < 1), min(x for x in at if x >= 1)
    assert at[before] == pytest.approx(0.1)
    assert at[after] == pytest.approx(0.5)


def test_without_costs_there_is_no_curve_against_them(run_file):
    run = read(run_file(accuracies=(0.5,)))
    assert gather.accuracy(compare([run])[0].series[0], "energy") is None


def test_a_round_that_was_not_evaluated_is_left_out(run_file):
    run = read(run_file(accuracies=(0.1, 0.3, 0.5)))
    rows = [row._replace(accuracy=None) if row.round == 1 else row for row in run.history]
    band = gather.accuracy(compare([type(run)(run.path, run.facts, run.clients, rows)])[0].series[0], "rounds")
    assert band.x.tolist() == [0, 2]


def test_counts_and_shares(series):
    run = series.runs[0]
    assert gather.counts(run) == {0: 1, 1: 2, 2: 1, 3: 2, 4: 1, 5: 2}
    shares = gather.shares_by_kind([run])
    assert shares == pytest.approx({"normal": 4 / 9, "pixel": 1 / 9, "irrelevant": 2 / 9, "blur": 2 / 9})
    assert gather.shares_by_kind([run], of_clients=True)["normal"] == 0.5


def test_phases_are_means_over_participations(series):
    assert gather.phase_means(series, "s") == [1.0, 0.0, 4.0, 2.0]
    assert gather.phase_means(series, "j") == [0.5, 0.0, 3.0, 1.0]


def test_clients_are_ordered_by_the_quality_of_their_data(series):
    run = series.runs[0]
    assert [KINDS[row.client] for row in run.by_quality()] == [
        "normal", "normal", "normal", "pixel", "blur", "irrelevant",
    ]  # fmt: skip
    assert gather.blocks(run) == [("normal", 0, 3), ("pixel", 3, 4), ("blur", 4, 5), ("irrelevant", 5, 6)]
    known = gather.field(run, "score")
    assert known.clients == [0, 1, 4, 2, 5, 3]
    assert known.values[:, 0].tolist() == pytest.approx([0.1 * k / 1.5 for k in known.clients])


def test_an_algorithm_without_scores_has_no_field(run_file):
    assert gather.field(read(run_file()), "score") is None


def test_divergences_are_summed_up_over_clients_of_a_kind(series):
    found = gather.divergence_by_kind(series.runs[:1])
    assert found["normal"].rounds == [0, 1, 2, 3]
    assert found["normal"].median.tolist() == pytest.approx([1.1] * 4)
    assert (found["normal"].low < found["normal"].high).all()


def test_long_runs_are_thinned_out(run_file):
    run = read(run_file(accuracies=np.linspace(0, 1, 400).tolist(), scored=True))
    assert len(gather.field(run, "score").rounds) <= gather.MOST_COLUMNS
