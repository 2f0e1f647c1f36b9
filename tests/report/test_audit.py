"""Which clients have bad data?"""

from dataclasses import replace

import numpy as np
import pytest
from safetensors.torch import save_file

from fedprof.data.clients import ClientData, Samples
from fedprof.errors import DataError, SettingsError, StoreError
from fedprof.models import registry
from fedprof.report import audit
from fedprof.report.figures import audit as picture
from fedprof.simulation.start import simulate
from fedprof.tasks.load import plan

SIZES = {"inputs": 6, "hidden": [8], "outputs": 3}


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "run.sqlite"
    simulate(plan("digits", rounds=3), path, engine="torch", workers=1).close()
    return path


@pytest.fixture
def folder(tmp_path):
    """Two clients like the server, one whose features are three times as wide."""
    home = tmp_path / "hospitals"
    home.mkdir()
    for number, (name, width) in enumerate({"validation": 1, "east": 1, "west": 3, "north": 1}.items()):
        rng = np.random.default_rng(number)
        x = (width * rng.normal(size=(300, 6)) * 10 + 5).astype(np.float32)
        np.savez(home / f"{name}.npz", x=x, y=rng.permutation(300) % 3)
    return home


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "model.safetensors"
    save_file(registry.create("mlp", 3, **SIZES).state_dict(), path)
    return path


def test_damaged_clients_of_a_run_come_before_the_others(run):
    findings = audit.audit(audit.of_run(run))
    assert len(findings) == 40
    kinds = [finding.kind for finding in findings]
    assert set(kinds[:14]) == {"irrelevant", "blur"}
    assert set(kinds[-16:]) == {"normal"}
    values = [finding.divergence for finding in findings]
    assert values == sorted(values, reverse=True)
    assert sum(finding.chance for finding in findings) == pytest.approx(40)


def test_a_folder_under_a_model_of_ones_own(folder, weights):
    case = audit.of_model(folder, "mlp", weights, options=SIZES, shift=5, scale=10)
    worst, *others = audit.audit(case)
    assert worst.name == "west"
    assert worst.kind is None
    assert worst.samples == 300
    assert worst.chance < 0.01
    assert {one.name for one in others} == {"east", "north"}
    assert all(one.chance == pytest.approx(1.5, abs=0.3) for one in others)
    assert case.validation.standardised().std() == pytest.approx(1, abs=0.1)


def test_weights_that_do_not_fit_are_named(folder, weights, tmp_path):
    with pytest.raises(DataError, match="does not fit"):
        audit.of_model(folder, "mlp", weights, options={**SIZES, "hidden": [9]})
    (tmp_path / "text.safetensors").write_text("no weights")
    with pytest.raises(DataError, match="cannot be read"):
        audit.of_model(folder, "mlp", tmp_path / "text.safetensors", options=SIZES)


def test_data_that_do_not_fit_the_model_are_named_with_whose_they_are(folder, weights):
    case = audit.of_model(folder, "mlp", weights, options=SIZES)
    narrow = Samples(case.validation.x[:, 1:], case.validation.y)
    with pytest.raises(DataError, match="The data of validation do not fit the model"):
        audit.audit(replace(case, validation=narrow))
    with pytest.raises(DataError, match=f"The data of {case.names[0]} do not fit the model"):
        audit.audit(replace(case, clients=ClientData(narrow, np.array([0, len(narrow)]))))


def test_wrong_choices_are_refused(folder, weights):
    with pytest.raises(SettingsError, match="the model has flatten, fc1"):
        audit.of_model(folder, "mlp", weights, options=SIZES, layer="fc9")
    for wrong in (0, float("inf"), float("nan")):
        with pytest.raises(SettingsError, match=f"--scale {wrong}"):
            audit.of_model(folder, "mlp", weights, options=SIZES, scale=wrong)


def test_a_run_that_does_not_say_its_data_cannot_be_audited(run_file):
    with pytest.raises(StoreError, match="does not say which data"):
        audit.of_run(run_file())


def test_a_folder_is_standardised_as_the_runs_own_data_were(run, tmp_path):
    home = tmp_path / "own"
    home.mkdir()
    case = audit.of_run(run)
    for name, rows in {"validation": case.validation, "a": case.validation}.items():
        np.savez(home / f"{name}.npz", x=rows.x, y=rows.y)
    (finding,) = audit.audit(audit.of_folder(home, run))
    assert finding.name == "a"
    assert finding.divergence == pytest.approx(0, abs=1e-6)


def test_the_table_shows_the_worst_and_counts_the_rest(run):
    findings = audit.audit(audit.of_run(run))
    lines = audit.describe(findings, 3).splitlines()
    assert lines[0].split() == ["client", "kind", "samples", "divergence", "chance"]
    assert lines[1].split()[0] == findings[0].name
    assert lines[-1] == "... and 37 more, less divergent"


def test_the_picture_has_a_bar_a_client_and_a_colour_a_kind(run):
    findings = audit.audit(audit.of_run(run))
    (axes,) = picture.draw(findings).axes
    assert len(axes.patches) == 40
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["normal", "pixel", "blur", "irrelevant"]
    assert axes.get_yticklabels()[0].get_text() == findings[0].name
