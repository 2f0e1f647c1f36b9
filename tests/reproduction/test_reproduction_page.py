import re

import pytest
from toy_histories import make_table, reaching
from typer.testing import CliRunner

from fedprof.cli.main import app
from fedprof.reproduction import sweeps
from fedprof.reproduction.experiments import EXPERIMENTS, GROUPS
from fedprof.reproduction.paper import TABLES
from fedprof.reproduction.studies import STUDIES
from fedprof.reproduction.sweeps import Trial
from fedprof.reproduction.write import MOST_SEEDS, archive, write_page


@pytest.fixture
def results(tmp_path):
    experiment = make_table(
        tmp_path / "work",
        lambda algorithm, _mode, seed: reaching(0.8, 3 + seed if algorithm == "fedprof" else 7 - seed),
    )
    archive(experiment, tmp_path / "work", tmp_path / "results")
    sweeps.save(
        [Trial(point, "fedprof", "partial", 0, 60, 0.9, 0.8, 5, 0.1) for point in ("0", "10")],
        tmp_path / "results" / "studies" / "alpha.csv",
    )
    return tmp_path / "results"


def test_the_page_sets_our_figures_beside_the_papers(results, tmp_path):
    page = write_page(results, tmp_path / "docs" / "reproduction.md").read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith("| FedAvg |") and "0.817" in line]
    assert "| 6 ± 1 | 82 ± 73 |" in row
    assert row.endswith("| 2/2 |")


def test_the_page_says_what_is_missing(results, tmp_path):
    page = write_page(results, tmp_path / "docs" / "reproduction.md").read_text(encoding="utf-8")
    wanted = [one.name for one in EXPERIMENTS if not one.optional]
    assert page.count("**no run yet**") == len(wanted) - 1
    assert "Figure 7" in page
    assert "its runs are missing" in page
    assert "**not measured**" in page


def test_every_picture_the_page_shows_is_there(results, tmp_path):
    page = write_page(results, tmp_path / "docs" / "reproduction.md")
    links = re.findall(r"\]\((.*?\.png)\)", page.read_text(encoding="utf-8"))
    assert len(links) == 4
    assert all((page.parent / link).exists() for link in links)


def test_the_page_is_made_from_results_alone_and_the_same_each_time(results, tmp_path):
    where = tmp_path / "docs" / "reproduction.md"
    first = write_page(results, where).read_bytes()
    done = CliRunner().invoke(app, ["reproduce", "--render", "--out", str(results), "--page", str(where)])
    assert done.exit_code == 0, done.output
    assert where.read_bytes() == first


def test_more_seeds_than_are_archived_are_refused(tmp_path):
    places = [f"--{name}={tmp_path / name}" for name in ("out", "work", "page")]
    done = CliRunner().invoke(app, ["reproduce", "gasturbine", f"--seeds={MOST_SEEDS + 1}", "--no-run", *places])
    assert done.exit_code == 2
    assert not list(tmp_path.iterdir())


def test_trials_survive_their_table(tmp_path):
    trials = [Trial("a, b", "fedavg", "full", 3, 60, 0.5, 0.25, None, 0.125)]
    assert sweeps.load(sweeps.save(trials, tmp_path / "t.csv")) == trials


def test_a_mean_to_the_goal_needs_every_seed_to_have_got_there():
    trials = [Trial("x", "fedavg", "full", seed, 60, 0.5, 0.25, goal, 0.1) for seed, goal in ((0, 5), (1, None))]
    (mean,) = sweeps.means(trials)
    assert (mean.rounds_to_goal, mean.reached, mean.seeds) == (None, 1, 2)


def test_the_papers_tables_have_our_rows():
    for experiment in EXPERIMENTS:
        _, groups = TABLES[experiment.task]
        assert {mode: tuple(rows) for mode, rows in groups.items()} == GROUPS


@pytest.mark.parametrize("study", STUDIES.values(), ids=lambda study: study.name)
def test_every_study_is_made_of_different_runs_with_checked_settings(study):
    plans = [str(plan.describe()) for _, plan in study.plans()]
    assert len(plans) == len(set(plans)) == len(study.points) * len(study.algorithms) * len(study.seeds)


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_every_table_has_the_papers_eight_rows_a_seed(experiment):
    plans = list(experiment.plans(range(2)))
    assert len({str(plan.describe()) for plan in plans}) == len(plans) == 16
