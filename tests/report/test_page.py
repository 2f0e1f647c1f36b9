"""The report's page, as text."""

import json
import re

import pytest

from fedprof.report.comparison import compare
from fedprof.report.page import render
from fedprof.report.palette import ALGORITHMS, DARK, LIGHT, series_styles
from fedprof.report.stored import read
from fedprof.simulation.store import ClientRow, ParticipationRow, RoundRow, Store


def own_text(page):
    """The page without Plotly's own code."""
    return re.sub(r"<script>/\*\*.*?</script>", "", page, flags=re.DOTALL)


def plots(page):
    return json.loads(re.search(r'<script id="plots"[^>]*>(.*?)</script>', page, re.DOTALL)[1])


def test_the_page_refers_to_nothing_outside_itself(run_file):
    page = own_text(render(compare([read(run_file(scored=True))])))
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!data:)""", page)
    assert "http://" not in page
    assert "https://" not in page
    assert "default-src 'none'" in page


def test_the_same_runs_give_the_same_page(run_file):
    path = run_file(scored=True)
    assert render(compare([read(path)])) == render(compare([read(path)]))


def test_names_cannot_become_code(run_file):
    evil = "</script><img src=x onerror=alert(1)>"
    settings = {"name": evil, "title": evil, "model": {"name": evil}}
    page = own_text(render(compare([read(run_file(algorithm=f"mine:{evil}", settings=settings))])))
    assert "<img" not in page


def test_settings_and_table_are_on_the_page(run_file):
    page = render(compare([read(run_file(parameters={"reading": "fresh"}))]))
    for part in (
        "2 epochs, batch 8, rate 0.1",
        "accuracy 0.8",
        "6 (3 normal, 1 pixel, 1 blur, 1 irrelevant)",
        "numpy 2",
    ):
        assert part in page
    assert "FedAvg (full).reading" in page
    assert '<td class="best">' not in page


@pytest.fixture
def flower_run(tmp_path):
    """What a real federation leaves: names, but no devices, no kinds, no energy, rounds without evaluation."""
    plan = {"name": "hospitals", "algorithm": "fedprof", "algorithms": {"fedprof": {"alpha": 10.0}}, "seed": 3}
    facts = {"plan": {**plan, "federation": {"goal": None}}, "aggregation": "FedAdam", "engine": "flower"}
    clients = [ClientRow(k, name, "unknown", 5) for k, name in enumerate(("north", "<b>south"))]
    store = Store.create(tmp_path / "flower.sqlite", facts, clients)
    for number, accuracy in enumerate((None, 0.5, None, 0.7)):
        row = RoundRow(number, accuracy, None, accuracy, None, 9.0, 9.0 * number, 0.0, 0.0, 1, 1)
        parts = [ParticipationRow(number, k, int(k == 1), 1, 0.5, None if number == 0 else 0.1 * k) for k in (0, 1)]
        store.record(row, parts, {})
    store.close()
    return tmp_path / "flower.sqlite"


def test_a_flower_run_draws_what_it_has(flower_run):
    page = render(compare([read(flower_run)]))
    assert "FedAdam aggregation" in page
    assert "Accuracy against virtual time" in page
    assert "Accuracy against energy" not in page
    assert "What a participation costs" not in page
    names = json.dumps(plots(page))
    assert "north" in names
    assert "&lt;b&gt;south" in names
    assert "<b>" not in names


def test_every_colour_is_known_by_day_and_by_night(run_file):
    tokens = set(re.findall(r'"@(\w+)"', json.dumps(plots(render(compare([read(run_file(scored=True))]))))))
    assert tokens
    assert tokens <= set(LIGHT)
    assert set(LIGHT) == set(DARK)


def test_algorithms_differ_in_colour_and_most_in_dash_too():
    styles = list(ALGORITHMS.values())
    assert len({style.colour for style in styles}) == len(styles)
    assert len({style.dash for style in styles}) >= 5


def test_a_second_version_of_an_algorithm_looks_different():
    pairs = [("FedProf [alpha=1]", "fedprof"), ("FedProf [alpha=5]", "fedprof"), ("Mine", "mine:Mine")]
    styles = series_styles(pairs)
    assert len(set(styles.values())) == 3
    assert styles["FedProf [alpha=1]"] == ALGORITHMS["fedprof"]
