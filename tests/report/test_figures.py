"""The paper's figures for print."""

import numpy as np
import pytest
from matplotlib import image

from fedprof.data.sources import Raw, load
from fedprof.errors import SettingsError, StoreError
from fedprof.report.comparison import compare
from fedprof.report.figures import conditions, heatmap, normality, participation, snapshots, style, traces
from fedprof.report.figures.normality import Representations, Verdict
from fedprof.report.stored import read
from fedprof.tasks.load import plan


@pytest.fixture
def comparisons(run_file):
    return compare(
        [
            read(run_file("a.sqlite")),
            read(run_file("b.sqlite", seed=1, accuracies=(0.2, 0.5, 0.7, 0.95))),
            read(run_file("p.sqlite", algorithm="fedprof", scored=True)),
            read(run_file("q.sqlite", algorithm="fedprof", mode="partial", scored=True)),
        ]
    )


def test_traces_have_a_curve_a_series_and_a_band_where_there_are_seeds(comparisons):
    (axes,) = traces.draw(comparisons, "full").axes
    curves = {line.get_label(): line for line in axes.lines}
    assert curves["FedAvg"].get_ydata().tolist() == pytest.approx([0.15, 0.5, 0.75, 0.925])
    assert "FedProf" in curves
    assert len(axes.collections) == 1


def test_traces_of_a_mode_nobody_has_are_an_error(run_file):
    with pytest.raises(SettingsError, match="partial"):
        traces.draw(compare([read(run_file())]), "partial")


def test_participation_has_a_bar_a_client_of_the_runs_that_select_by_score(comparisons):
    figure = participation.draw(comparisons)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in shown] == ["toy: FedProf (full), seed 0", "toy: FedProf (partial), seed 0"]
    assert [bar.get_height() for bar in shown[0].patches] == [1, 2, 1, 1, 2, 2]


def test_the_heatmap_names_every_client_by_a_letter_while_they_are_few(comparisons):
    axes = heatmap.draw(comparisons).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["N", "N", "N", "P", "B", "R"]


def test_no_heatmap_without_scores(run_file):
    with pytest.raises(SettingsError, match="has scores"):
        heatmap.draw(compare([read(run_file())]))


def test_four_conditions_of_the_data_are_four_different_tasks():
    made = {
        name: plan("mnist", algorithm="fedavg", overrides=changes).settings
        for name, changes in conditions.CONDITIONS.items()
    }
    biased = {name for name, settings in made.items() if settings.data.partition.kind == "dominant"}
    noisy = {name for name, settings in made.items() if settings.damage["noise"].share == 0.65}
    assert biased == {"biased", "biased and noisy"}
    assert noisy == {"noisy", "biased and noisy"}


def test_conditions_have_a_curve_each(run_file):
    (series,) = compare([read(run_file())])[0].series
    (axes,) = conditions.draw(dict.fromkeys(conditions.CONDITIONS, series)).axes
    assert [line.get_label() for line in axes.lines] == list(conditions.CONDITIONS)


def test_the_tests_tell_normal_values_from_others():
    rng = np.random.default_rng(1)
    normal = Verdict.of(rng.normal(size=(2000, 60)), 0)
    skewed = Verdict.of(rng.exponential(size=(2000, 60)), 0)
    assert normal.shapiro > 0.98 > skewed.shapiro
    assert normal.passing > 0.85
    assert skewed.passing == 0


def test_dead_elements_are_neither_drawn_nor_tested():
    values = np.random.default_rng(1).normal(size=(300, 8))
    values[:, :5] = 0
    figure = normality.draw([Representations("fc1", values)], "t")
    assert [axes.get_title() for axes in figure.axes[:4]] == ["element 6", "element 7", "element 8", ""]
    assert "of 3 elements" in figure.axes[0].get_ylabel()


def test_representations_are_taken_after_the_epochs_asked_for_and_weights_are_kept(tmp_path):
    digits = load("digits")
    raw = Raw(digits.train_x[:300], digits.train_y[:300], digits.train_x[300:], digits.train_y[300:], 10)
    options = {"inputs": 64, "hidden": [16], "outputs": 10}
    lesson = snapshots.Lesson("mlp", "digits", "ce", ("fc1",), (1, 2), samples=200, batch=20, options=options)
    said = []
    found = snapshots.representations(lesson, raw, tmp_path, "torch", said.append)
    assert [row.title for row in found] == ["fc1, epoch 1", "fc1, epoch 2"]
    assert found[0].values.shape == (1497, 16)
    assert len(said) == 2
    again = snapshots.representations(lesson, raw, tmp_path, "torch", said.append)
    assert len(said) == 2
    assert all(np.array_equal(a.values, b.values) for a, b in zip(found, again, strict=True))


@pytest.mark.parametrize("ending", style.FORMATS)
def test_figures_are_saved_the_same_every_time(comparisons, tmp_path, ending):
    one, two = (style.save(traces.draw(comparisons, "full"), tmp_path / f"{name}{ending}") for name in "ab")
    assert one.read_bytes() == two.read_bytes()
    assert len(one.read_bytes()) > 1000
    if ending == ".png":
        assert image.imread(one).std() > 0.01


def test_an_unknown_format_is_refused_and_an_unwritable_place_named(comparisons, tmp_path):
    figure = traces.draw(comparisons, "full")
    with pytest.raises(SettingsError, match=r"\.pdf, \.png, \.svg"):
        style.save(figure, tmp_path / "a.jpg")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="Cannot write"):
        style.save(figure, tmp_path / "file" / "a.png")
    assert list(tmp_path.glob(".*")) == []
