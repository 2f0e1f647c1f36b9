"""The report in a real browser."""

import pytest
from toy_runs import make_run

from fedprof.report.comparison import compare
from fedprof.report.page import render
from fedprof.report.stored import read_all

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    for seed in (0, 1):
        make_run(folder / f"a{seed}.sqlite", "fedavg", "full", seed)
        make_run(folder / f"p{seed}.sqlite", "fedprof", "full", seed, (0.1, 0.7, 0.85, 0.95), scored=True)
        make_run(folder / f"q{seed}.sqlite", "fedprof", "partial", seed, (0.1, 0.8, 0.9, 0.96), scored=True)
    path = folder / "report.html"
    path.write_text(render(compare(read_all([folder]))), encoding="utf-8")
    return path


@pytest.fixture
def tab(browser, page):
    opened = browser.open(page)
    yield opened
    opened.close()


VISIBLE = """[...document.querySelectorAll('.plot')].filter(p => p.offsetWidth)"""


def test_no_complaint_and_no_request(tab):
    assert tab.complaints() == []
    assert tab.requests() == []


def test_every_plot_is_drawn(tab):
    plots = tab.evaluate("document.querySelectorAll('.plot').length")
    assert plots == 6 + 1 + 3 + 2 + 4 + 2
    assert tab.evaluate("Number(document.documentElement.dataset.drawn)") == plots
    marks = (
        "p.querySelectorAll('.trace path, .trace image, .hm image, .point path, .scatterlayer path, .barlayer path')"
    )
    assert tab.evaluate(f"{VISIBLE}.filter(p => {marks}.length === 0).length") == 0


def switch(tab, label):
    tab.evaluate(f"document.querySelector('nav [data-switch=\"{label}\"]').click()")


def shown(tab, label):
    """Traces of an algorithm that are drawn, over all plots in view."""
    return tab.evaluate(
        f"{VISIBLE}.reduce((n, p) => n + p._fullData.filter(t => t.meta === '{label}' && t.visible === true).length, 0)"
    )


def test_one_switch_hides_an_algorithm_everywhere_and_brings_it_back(tab):
    before, others = shown(tab, "FedProf"), shown(tab, "FedAvg")
    assert before > 20
    switch(tab, "FedProf")
    assert shown(tab, "FedProf") == 0
    assert shown(tab, "FedAvg") == others
    assert tab.evaluate("document.querySelectorAll('tr[data-row=\"FedProf\"].off').length") == 2
    pressed = tab.evaluate("[...document.querySelectorAll('[data-switch=\"FedProf\"]')].map(b => b.ariaPressed)")
    assert set(pressed) == {"false"}
    switch(tab, "FedProf")
    assert shown(tab, "FedProf") == before
    assert tab.complaints() == []


def test_a_switch_in_a_legend_does_the_same(tab):
    tab.evaluate("document.querySelector('.legend [data-switch=\"FedAvg\"]').click()")
    assert shown(tab, "FedAvg") == 0
    assert tab.evaluate("document.querySelector('nav [data-switch=\"FedAvg\"]').ariaPressed") == "false"


def test_hovering_says_the_value(tab):
    tab.evaluate("document.querySelector('#plot-0').scrollIntoView({block: 'center'})")
    x, y = tab.evaluate(
        "(() => { const b = document.querySelector('#plot-0 .nsewdrag').getBoundingClientRect();"
        "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
    )
    for step in (0, 3):
        tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + step, y=y)
    tab.wait("document.querySelectorAll('#plot-0 .hoverlayer text').length > 0")
    said = tab.evaluate("document.querySelector('#plot-0 .hoverlayer').textContent")
    assert "FedProf" in said
    assert "0." in said


INK = "getComputedStyle(document.querySelector('#plot-0 .xtick text')).fill"


def test_dark_follows_the_reader_and_print_is_on_white(tab):
    light = tab.evaluate(INK)
    tab.emulate(dark=True)
    tab.wait(f"{INK} !== '{light}'")
    background = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, background[4:-1].split(","))) < 60
    tab.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    tab.wait(f"{INK} === '{light}'")
    assert tab.evaluate("document.querySelectorAll('details:not([open])').length") == 0
    tab.evaluate("window.dispatchEvent(new Event('afterprint'))")
    tab.wait(f"{INK} !== '{light}'")


@pytest.mark.parametrize("width", [360, 768, 1600])
def test_no_screen_scrolls_sideways(browser, page, width):
    opened = browser.open(page, width=width)
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    opened.close()


def test_it_prints(tab):
    assert tab.pdf().startswith(b"%PDF")
    assert tab.complaints() == []
