"""A task's data: from every kind of source, through the cache, dealt out, damaged and standardised."""

import numpy as np
import pytest

from fedprof.data.clients import ClientData, Samples
from fedprof.data.sources import Raw
from fedprof.errors import DataError, SettingsError
from fedprof.tasks import data as task_data
from fedprof.tasks.data import deal, prepare
from fedprof.tasks.load import check, plan
from fedprof.tasks.settings import Data
from fedprof.tasks.task import build
from fedprof.training.metrics import Regression

CLEAN = ("damage.irrelevant.share=0", "damage.blur.share=0", "damage.pixel.share=0")


def settings(*overrides, task="digits"):
    return plan(task, overrides=overrides).settings


def federation_folder(path, clients=3, outputs=None):
    path.mkdir()
    rng = np.random.default_rng(0)
    for name in [*(f"site-{k}" for k in range(clients)), "validation"]:
        x = rng.normal(5, 2, (20, 64)).astype(np.float32)
        y = rng.integers(0, 10, 20) if outputs is None else rng.normal(3, 4, (20, outputs))
        y[0] = 9 if outputs is None else y[0]
        np.savez(path / f"{name}.npz", x=x, y=y)
    return path


def own(folder, standardise="none", clients=3):
    base = settings(*CLEAN).model_dump(mode="json")
    base["data"] |= {"source": "folder", "path": str(folder), "clients": clients, "standardise": standardise}
    base["data"] |= {"validation": None, "partition": {"kind": "given"}}
    return check(base)


def test_a_public_source_is_dealt_out_by_the_seed():
    (one, names), (same, _), (other, _) = (prepare(settings(), seed) for seed in (1, 1, 2))
    assert names[:2] == ["client-0", "client-1"]
    np.testing.assert_array_equal(one.clients.pool.x, same.clients.pool.x)
    assert not np.array_equal(one.clients.pool.y, other.clients.pool.y)
    assert len(one.clients) == 40
    assert len(one.validation) == 400


def test_training_and_validation_samples_are_different_ones():
    prepared, _ = prepare(settings(*CLEAN), 0)
    everything = len(prepared.validation) + prepared.clients.sizes.sum()
    assert everything == 1797


def test_clients_may_share_samples_when_told_so():
    with pytest.raises(DataError, match=r"data\.recycle=true"):
        prepare(settings("data.samples=50", "clients=200"), 0)
    prepared, _ = prepare(settings("data.samples=50", "clients=200", "recycle=true"), 0)
    assert set(prepared.clients.sizes) == {50}
    assert len(prepared.clients.pool) == 1397 * 4  # as they are, and once for each kind of damage


def test_shared_samples_are_not_copied():
    few, many = (
        prepare(settings("data.samples=50", f"clients={clients}", "recycle=true"), 0)[0] for clients in (100, 2000)
    )
    assert few.clients.pool.x.nbytes == many.clients.pool.x.nbytes


def test_a_folder_is_a_federation(tmp_path):
    task = build(own(federation_folder(tmp_path / "mine")), seed=0)
    assert task.names == ["site-0", "site-1", "site-2"]
    assert task.population.sizes.tolist() == [20, 20, 20]
    assert len(task.workload.validation) == 20


def test_a_folder_is_standardised_as_asked(tmp_path):
    folder = federation_folder(tmp_path / "mine")
    for how, mean in (("none", 5.0), ("all", 0.0)):
        prepared, _ = prepare(own(folder, how), 0)
        x = np.concatenate([prepared.clients.samples(k)[0] for k in range(3)])
        assert x.mean() == pytest.approx(mean, abs=0.1)


def test_a_folders_regression_is_measured_on_the_raw_scale(tmp_path):
    prepared, _ = prepare(own(federation_folder(tmp_path / "mine", outputs=2), "all"), 0)
    assert isinstance(prepared.metric, Regression)
    assert prepared.clients.pool.y.mean(axis=0) == pytest.approx([0, 0], abs=1e-5)
    raw = prepared.validation.y * prepared.targets[1] + prepared.targets[0]
    assert raw.mean() == pytest.approx(3, abs=1.5)


def test_a_folder_must_hold_the_clients_that_the_settings_say(tmp_path):
    with pytest.raises(SettingsError, match=r"data\.clients = 7: .* holds 3 clients"):
        prepare(own(federation_folder(tmp_path / "mine"), clients=7), 0)


def test_a_folders_data_are_not_damaged(tmp_path):
    chosen = own(federation_folder(tmp_path / "mine"))
    damaged = chosen.model_copy(update={"damage": settings().damage})
    with pytest.raises(SettingsError, match="damage"):
        prepare(damaged, 0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"source": "folder"}, "needs path"),
        ({"path": "x"}, "needs source"),
        ({"source": "folder", "path": "x", "partition": {"kind": "iid"}}, "partition"),
        ({"source": "folder", "path": "x", "partition": {"kind": "given"}, "samples": 4}, "leave them out"),
    ],
)
def test_what_contradicts_itself_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        Data(**{"source": "digits", "clients": 3, **given})


def test_a_public_source_does_not_give_clients():
    data = Data(source="digits", clients=3, partition={"kind": "given"})
    with pytest.raises(SettingsError, match="gives samples, not clients"):
        deal(data, np.zeros(10, np.int64), 10, 0)


def a_raw():
    x, y = np.random.default_rng(0).random((300, 64), np.float32), np.arange(300) % 10
    return Raw(x, y, x[:50], y[:50], 10)


def a_federation():
    raw = a_raw()
    return ClientData(Samples(raw.train_x, raw.train_y), np.array([0, 100, 300])), Samples(raw.test_x, raw.test_y)


@pytest.mark.parametrize(("function", "clients", "sizes"), [("a_raw", 3, [100] * 3), ("a_federation", 2, [100, 200])])
def test_a_function_gives_samples_or_a_federation(function, clients, sizes):
    source = f"source={__name__}:{function}"
    chosen = settings(source, f"clients={clients}", "partition.kind=iid", "validation=50", *CLEAN)
    prepared, _ = prepare(chosen, 0)
    assert prepared.clients.sizes.tolist() == sizes
    assert len(prepared.validation) == 50


def sequences():
    return Raw(np.ones((60, 7, 5)), np.arange(60) % 10, [], [], 10)


def test_sequences_are_taken_as_images_of_one_channel():
    chosen = settings(f"source={__name__}:sequences", "clients=3", "partition.kind=iid", "validation=6", *CLEAN)
    assert prepare(chosen, 0)[0].clients.pool.x.shape == (54, 1, 7, 5)


@pytest.mark.parametrize("source", ["nowhere:data", ":data", ".here:data"])
def test_a_function_that_is_not_there_is_named(source):
    with pytest.raises(SettingsError, match="cannot be imported"):
        prepare(settings(f"source={source}"), 0)


X, Y = np.ones((20, 4), np.float32), np.arange(20) % 2
POOL, HELD = Samples(X, Y), Samples(X[:5], Y[:5])
MISTAKES = [
    (3, "is int, not a function"),
    (lambda: None, "gave NoneType, not a Raw, nor a ClientData"),
    (lambda: (1, 2, 3), "gave tuple, not a Raw"),
    (lambda: Raw(None, Y, X, Y, 2), "1 inputs but 20 targets"),
    (lambda: Raw(X, Y[:7], X, Y, 2), "training samples: 20 inputs but 7 targets"),
    (lambda: Raw(X, Y, X * np.nan, Y, 2), "test samples: 80 inputs are not finite"),
    (lambda: Raw(X, Y - 1, X, Y, 2), "training samples: label -1 of sample 0 is out of range"),
    (lambda: Raw(X, Y, X, Y + 2, 2), "test samples: label 2 of sample 0 is out of range; labels are 0 to 1"),
    (lambda: Raw(X, Y, X[:, :3], Y, 2), r"inputs \(4,\) with int64 targets \(\), the server float32 inputs \(3,\)"),
    (lambda: Raw(X[:0], Y[:0], X, Y, 2), "there are no training samples"),
    (lambda: (ClientData(POOL, np.array([0, 5, 20])), Samples(X[:0], Y[:0])), "there are no validation samples"),
    (lambda: (ClientData(Samples(X * np.inf, Y), np.array([0, 5, 20])), HELD), "clients' samples: 80 inputs are not"),
    (lambda: (ClientData(POOL, np.array([0, 5, 21])), HELD), "offsets run from 0 to 21, not from 0 to 20"),
    (lambda: (ClientData(POOL, np.array([0, 5, 5, 20])), HELD), "client 1 holds no samples"),
    (lambda: (ClientData(POOL, np.array([0, 1, 2]), np.array([3, 20])), HELD), "rows lie outside the pool of 20"),
]


@pytest.mark.parametrize(("given", "message"), MISTAKES, ids=[message for _, message in MISTAKES])
def test_what_a_function_gives_wrong_is_named(monkeypatch, given, message):
    monkeypatch.setitem(globals(), "mistaken", given)
    with pytest.raises((SettingsError, DataError), match=f"{__name__}:mistaken.*{message}"):
        prepare(settings(f"source={__name__}:mistaken", "clients=2", "partition.kind=iid", *CLEAN), 0)


@pytest.fixture
def gas(tmp_path, monkeypatch):
    """A public source with files, of which loading is counted."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    loaded = []
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(800, 9)).astype(np.float32), rng.normal(30, 9, (800, 2)).astype(np.float32)

    def load(source, data_dir):
        loaded.append(source)
        return Raw(x, y, x[:0], y[:0], 0)

    monkeypatch.setattr(task_data, "load", load)
    chosen = plan(
        "gasturbine", overrides=["clients=10", "validation=100", "partition.mean=60", "partition.std=9"]
    ).settings
    return chosen, loaded, tmp_path


def test_a_public_source_is_prepared_once_and_then_mapped(gas):
    chosen, loaded, home = gas
    first, again = (prepare(chosen, 0, home)[0] for _ in range(2))
    assert loaded == ["gasturbine"]
    for prepared in (first, again):
        assert isinstance(prepared.clients.pool.x, np.memmap)
        assert isinstance(prepared.metric, Regression)
    np.testing.assert_array_equal(first.clients.pool.x, again.clients.pool.x)
    np.testing.assert_array_equal(first.validation.y, again.validation.y)


def test_what_was_prepared_is_what_is_opened(gas, monkeypatch):
    chosen, _, home = gas
    opened, _ = prepare(chosen, 0, home)
    made = task_data._dealt(chosen, task_data.load("gasturbine", home), 0)
    for ours, theirs in ((opened.clients.pool, made.clients.pool), (opened.validation, made.validation)):
        for name in ("x", "y", "shift", "scale"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    np.testing.assert_array_equal(opened.clients.offsets, made.clients.offsets)
    assert [opened.clients.kind_of(k) for k in range(10)] == [made.clients.kind_of(k) for k in range(10)]
    np.testing.assert_array_equal(opened.targets, made.targets)


@pytest.mark.parametrize("change", ["seed", "damage", "data", "files", "code"])
def test_whatever_could_change_the_data_prepares_them_anew(gas, monkeypatch, change):
    chosen, loaded, home = gas
    prepare(chosen, 0, home)
    if change in {"damage", "data"}:
        override = {"damage": "damage.noise.share=0.3", "data": "partition.std=12"}[change]
        chosen = plan(
            "gasturbine", overrides=["clients=10", "validation=100", "partition.mean=60", "partition.std=9", override]
        ).settings
    if change == "files":
        (home / "gas_turbine").mkdir()
        (home / "gas_turbine" / "gt_2011.csv").write_text("other")
    if change == "code":
        monkeypatch.setattr(task_data, "_code", lambda: "new")
    prepare(chosen, int(change == "seed"), home)
    assert len(loaded) == 2


def test_what_only_training_needs_prepares_nothing_anew(gas):
    chosen, loaded, home = gas
    prepare(chosen, 0, home)
    faster = chosen.training.model_copy(update={"rate": 0.5})
    prepare(chosen.model_copy(update={"training": faster}), 0, home)
    assert len(loaded) == 1
