"""Time and energy a round against those the paper's Tables 3 to 5 imply."""

import pytest

from fedprof.simulation.paper import IMPLIED, ROWS, comparisons


@pytest.mark.parametrize(("task", "fleets", "rounds"), [("gasturbine", 8, 25), ("emnist", 8, 20), ("cifar10", 20, 20)])
def test_every_row_lies_within_a_tenth_of_the_papers(task, fleets, rounds):
    rows = list(comparisons(task, fleets, rounds))
    assert [one.row for one in rows] == list(ROWS)
    for one in rows:
        assert one.seconds == pytest.approx(one.paper_seconds, rel=0.1), one
        assert one.joules == pytest.approx(one.paper_joules, rel=0.1), one


def test_the_papers_figures_are_those_of_its_tables():
    """Minutes and watt-hours to the goal over rounds to the goal, and over the cohort."""
    fedavg = 47.7 * 60 / 82, 4.59 * 3600 / 82 / 10
    assert IMPLIED["gasturbine"]["FedAvg"] == pytest.approx(fedavg, rel=0.005)
    cfcfm = 46.2 * 60 / 136, 15.02 * 3600 / 136 / 25
    assert IMPLIED["emnist"]["CFCFM"] == pytest.approx(cfcfm, rel=0.005)
    ours = 23.5 * 60 / 9, 24.54 * 3600 / 9 / 5
    assert IMPLIED["cifar10"]["FedProf partial"] == pytest.approx(ours, rel=0.005)
