"""The paper's table: figures by hand, in every form."""

import csv
import io
from dataclasses import replace

import pytest

from fedprof.report import table
from fedprof.report.comparison import compare
from fedprof.report.numbers import Spread, decimals, written
from fedprof.report.stored import read, read_all
from fedprof.report.table import Table

FAST, SLOW, NEVER = (0.1, 0.85, 0.9), (0.1, 0.5, 0.8, 0.82), (0.1, 0.2, 0.3)


@pytest.fixture
def comparison(run_file):
    made = [
        run_file("a0.sqlite", algorithm="fedavg", seed=0, accuracies=SLOW),
        run_file("a1.sqlite", algorithm="fedavg", seed=1, accuracies=NEVER),
        run_file("p0.sqlite", algorithm="fedprof", seed=0, accuracies=FAST),
        run_file("p1.sqlite", algorithm="fedprof", seed=1, accuracies=SLOW),
        run_file("c0.sqlite", algorithm="cfcfm", seed=0, accuracies=NEVER),
        run_file("c1.sqlite", algorithm="cfcfm", seed=1, accuracies=NEVER),
        run_file("q0.sqlite", algorithm="fedprof", mode="partial", seed=0, accuracies=FAST),
    ]
    (found,) = compare(map(read, made))
    return found


@pytest.fixture
def summary(comparison):
    return Table.of(comparison)


def row(summary, key):
    return next(row for _, rows in summary.groups for row in rows if row.series.key == key)


def test_costs_are_those_of_the_first_round_at_the_goal(summary):
    best, rounds, minutes, energy = row(summary, "FedProf (full)").spreads
    assert best.mean == pytest.approx((0.9 + 0.82) / 2)
    assert best.std == pytest.approx(0.08 / 2**0.5)
    assert rounds == Spread(1.5, pytest.approx(0.5**0.5), 2)
    assert minutes.mean == 1.5
    assert energy.mean == pytest.approx(0.15)


def test_costs_are_over_the_seeds_that_reached_the_goal_and_the_table_says_which(summary):
    partly = row(summary, "FedAvg (full)")
    assert partly.reached == (0,)
    assert partly.spreads[1] == Spread(2, None, 1)
    assert "FedAvg (full): costs over seed 0." in summary.notes
    assert "CFCFM" not in "".join(summary.notes)


def test_who_never_got_there_has_a_dash_and_is_never_best(summary):
    (mode, rows), _ = summary.groups
    assert mode == "full"
    lines = {line.name: line for line in summary.lines(rows)}
    assert [cell.text for cell in lines["CFCFM"].cells[1:]] == ["-", "-", "-"]
    assert lines["CFCFM"].reached == "0/2"
    assert not any(cell.best for cell in lines["CFCFM"].cells)
    assert all(cell.best for cell in lines["FedProf"].cells)


def test_best_costs_are_among_those_who_got_there_most_often(run_file):
    made = [
        run_file("a0.sqlite", algorithm="fedavg", seed=0, accuracies=FAST),
        run_file("a1.sqlite", algorithm="fedavg", seed=1, accuracies=NEVER),
        run_file("c0.sqlite", algorithm="cfcfm", seed=0, accuracies=SLOW),
        run_file("c1.sqlite", algorithm="cfcfm", seed=1, accuracies=SLOW),
    ]
    summary = Table.of(compare(map(read, made))[0])
    lucky, steady = summary.lines(summary.groups[0][1])
    assert [cell.best for cell in lucky.cells] == [False, False, False, False]
    assert [cell.best for cell in steady.cells] == [True, True, True, True]


def test_a_group_of_one_has_no_best(summary):
    (line,) = summary.lines(summary.groups[1][1])
    assert not any(cell.best for cell in line.cells)


def test_the_terminal_marks_the_best_and_lines_up(summary):
    shown = table.text(summary).splitlines()
    assert shown[0] == "toy: 1 to 2 seeds"
    assert "0.860 ± 0.057*" in shown[5]
    ends = {len(line) for line in shown[3:6]}
    assert len(ends) == 1
    bold = table.text(summary, lambda cell: f"<{cell}>")
    assert bold.count("<") == 4
    assert shown[-1] == "* the best of its group"


def test_the_terminal_explains_no_mark_where_there_is_none(summary):
    alone = replace(summary, groups=summary.groups[1:])
    assert "*" not in table.text(alone)


def test_markdown_and_latex_mark_the_best_in_bold(summary):
    assert "**0.860 ± 0.057**" in table.markdown(summary)
    assert r"\textbf{0.860$\pm$0.057}" in table.latex(summary)
    assert r"\textsc{CFCFM} & 0.300$\pm$0.000 & - & - & - & 0/2 \\" in table.latex(summary)


def test_names_cannot_break_latex(run_file):
    made = run_file(algorithm="my_code:A_B%", settings={"name": "50%_task"})
    assert r"A\_B\%" in (text := table.latex(Table.of(compare([read(made)])[0])))
    assert r"50\%\_task" in text


def test_csv_has_full_precision_and_leaves_empty_what_was_never_reached(summary):
    rows = {(r["algorithm"], r["aggregation"]): r for r in csv.DictReader(io.StringIO(table.comma_separated(summary)))}
    assert float(rows["FedProf", "full"]["minutes_to_goal_mean"]) == 1.5
    assert rows["CFCFM", "full"]["rounds_to_goal_mean"] == ""
    assert rows["FedProf", "partial"]["best_accuracy_std"] == ""
    assert rows["FedAvg", "full"]["reached"] == "1"


@pytest.mark.parametrize(
    ("usual", "means", "expected"),
    [(2, [4.59, 8.15], 2), (2, [0.0551], 3), (1, [11.0], 1), (1, [0.04], 3), (0, [7], 0), (2, [], 2)],
)
def test_a_column_keeps_two_digits_of_its_smallest_mean(usual, means, expected):
    assert decimals(usual, [Spread(mean, None, 1) for mean in means]) == expected


def test_numbers_are_written_as_in_the_paper():
    assert written(Spread(0.8166, 0.0051, 3), 3) == "0.817 ± 0.005"
    assert written(Spread(38.2, 23.4, 3), 0) == "38 ± 23"
    assert written(Spread(38.2, None, 1), 0) == "38"
    assert written(None, 3) == "-"


def test_the_first_rounds_alone_can_be_read(run_file):
    path = run_file(accuracies=SLOW)
    assert read(path, 1).best_accuracy == 0.5
    assert read(path, 1).reached is None
    assert read(path).reached == (2, 2.0, pytest.approx(0.2))


def test_series_differ_in_nothing_but_the_seed_and_say_what_tells_them_apart(run_file):
    made = [
        run_file("1.sqlite", algorithm="fedprof", parameters={"alpha": 10.0, "memory": 2}),
        run_file("2.sqlite", algorithm="fedprof", parameters={"alpha": 5.0, "memory": 2}),
        run_file("3.sqlite", algorithm="fedprof", parameters={"alpha": 5.0, "memory": 2}, seed=1),
        run_file("4.sqlite", settings={"model": {"name": "cnn"}}),
    ]
    first, second = compare(map(read, made))
    assert [(series.label, series.seeds) for series in first.series] == [
        ("FedProf [alpha=10]", [0]),
        ("FedProf [alpha=5]", [0, 1]),
    ]
    assert [first.title, second.title] == ["toy (name=mlp)", "toy (name=cnn)"]


def test_runs_are_found_at_any_depth_and_once(run_file, tmp_path):
    (tmp_path / "deep").mkdir()
    path = run_file("deep/run.sqlite")
    run_file("not-begun.sqlite", accuracies=())
    assert [run.path for run in read_all([tmp_path, path])] == [path]
