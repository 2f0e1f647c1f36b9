"""From a name or a file and overrides to checked settings; every mistake is named with its remedy."""

import pytest

from fedprof.errors import SettingsError
from fedprof.simulation.paths import default_path
from fedprof.tasks.load import PRESETS, check, keys, plan
from fedprof.tasks.toml import dumps


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_written_out_is_the_preset(name, tmp_path):
    settings = plan(name).settings
    path = tmp_path / "copy.toml"
    path.write_text(dumps(settings.model_dump(mode="json", exclude_none=True)))
    assert plan(path).settings == settings


@pytest.mark.parametrize(
    ("task", "clients", "cohort", "epochs", "rate", "alpha"),
    [("gasturbine", 50, 10, 2, 5e-3, 10.0), ("emnist", 500, 25, 5, 5e-3, 10.0), ("cifar10", 10, 5, 6, 1e-2, 25.0)],
)
def test_presets_hold_the_papers_second_table(task, clients, cohort, epochs, rate, alpha):
    chosen = plan(task, algorithm="fedprof")
    settings = chosen.settings
    assert (settings.data.clients, settings.cohort) == (clients, cohort)
    assert (settings.training.epochs, settings.training.rate) == (epochs, rate)
    assert chosen.server.alpha == alpha
    assert (settings.costs.transmitter_watts, settings.costs.processor_watts) == (0.75, 0.7)
    assert settings.conditions == type(settings.conditions)()


def test_rounds_follow_the_aggregation_mode():
    assert plan("emnist", aggregation="full").rounds == 240
    assert plan("emnist", aggregation="partial").rounds == 80
    assert plan("emnist", algorithm="cfcfm").rounds == 240
    assert plan("emnist", rounds=7).rounds == 7


@pytest.mark.parametrize("condition", ["crash=0.1", "dropout=0.1", "deadline=60", "availability=0.5"])
def test_each_condition_is_one_line(condition):
    chosen = plan("digits", overrides=[condition])
    name, value = condition.split("=")
    assert getattr(chosen.settings.conditions, name) == float(value)


def test_a_file_may_build_on_a_preset(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('task = "digits"\nalgorithm = "fedavg"\nseed = 4\nrounds = 9\n[training]\nrate = 0.2\n')
    chosen = plan(path)
    assert (chosen.algorithm, chosen.seed, chosen.rounds, chosen.settings.training.rate) == ("fedavg", 4, 9, 0.2)
    assert chosen.settings.training.epochs == 3
    assert plan(path, seed=1).seed == 1


def test_a_source_or_a_model_of_ones_own_wants_nothing_of_the_presets(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'task = "digits"\ndamage = {}\n[data]\nsource = "folder"\npath = "x"\nclients = 3\n[model]\nname = "cnn"\n'
    )
    settings = plan(path).settings
    assert settings.data.partition.kind == "given"
    assert settings.data.validation is None
    assert settings.damage == settings.model.options == {}
    assert settings.training == plan("digits").settings.training


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("epochs=0", r"training\.epochs = 0: .*greater than or equal to 1"),
        ("fraction=1.5", r"federation\.fraction = 1\.5: .*less than or equal to 1"),
        ("epoch=3", "There is no setting 'epoch'. Did you mean 'epochs'"),
        ("crash=2", r"conditions\.crash = 2"),
        ("mean=3", "could be .*fleet.speed.mean"),
        ("epochs", "wants key=value"),
        ("matching=open", r"federation\.matching = 'open'"),
        ("partition.kind=sizes", "also needs mean and std"),
        ("source=folder", "^data: source = 'folder' needs path"),
    ],
)
def test_a_wrong_override_is_answered_with_what_is_allowed(override, message):
    with pytest.raises(SettingsError, match=message):
        plan("digits", overrides=[override])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "digit"}, "Did you mean 'digits'"),
        ({"task": "none.toml"}, "There is no file"),
        ({"task": "digits", "algorithm": "fedprf"}, "Did you mean 'fedprof'"),
        ({"task": "digits", "algorithm": "fedavg", "aggregation": "partial"}, "full mode only"),
        ({"task": "digits", "aggregation": "half"}, "'full' and 'partial'"),
        ({"task": "digits", "rounds": 0}, "rounds = 0"),
        ({"task": "digits", "seed": -1}, "seed = -1"),
    ],
)
def test_a_wrong_choice_is_answered_with_the_known(arguments, message):
    with pytest.raises(SettingsError, match=message):
        plan(**arguments)


def test_a_broken_file_is_named(tmp_path):
    path = tmp_path / "broken.toml"
    path.write_text("a = = 1")
    with pytest.raises(SettingsError, match=r"broken\.toml is not valid TOML"):
        plan(path)


def test_every_problem_of_a_file_is_named_at_once():
    tree = plan("digits").settings.model_dump(mode="json")
    tree["training"]["epochs"] = 0
    tree["fleet"]["sped"] = 1
    with pytest.raises(SettingsError) as caught:
        check(tree)
    assert "training.epochs = 0" in str(caught.value)
    assert "There is no setting 'fleet.sped'. Did you mean 'fleet.speed" in str(caught.value)


def test_every_setting_has_a_dotted_name():
    assert {"data.partition.kind", "conditions.crash", "costs.model_megabytes"} <= set(keys())


def test_a_runs_file_is_named_after_it():
    assert default_path(plan("digits")).as_posix() == "runs/digits-fedprof-partial-s0.sqlite"
    assert default_path(plan("digits", algorithm="cfcfm", seed=2)).name == "digits-cfcfm-full-s2.sqlite"
    assert default_path(plan("digits", aggregation="full")).name == "digits-fedprof-full-s0.sqlite"
    assert default_path(plan("digits", rounds=3)) == default_path(plan("digits"))


def test_other_settings_get_another_file():
    usual, one, other = (default_path(plan("digits", overrides=o)) for o in ([], ["crash=0.1"], ["crash=0.2"]))
    assert len({usual, one, other}) == 3
    assert one.name.startswith("digits-fedprof-partial-s0-")
