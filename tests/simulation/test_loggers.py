"""TensorBoard, MLflow and Weights & Biases, each with its real library, through one interface."""

import json
import struct
import sys

import pytest
from simulated import played, small_plan

from fedprof.errors import MissingExtraError, SettingsError
from fedprof.simulation.logging import NAMES, make
from fedprof.simulation.logging.base import flat, numbers
from fedprof.simulation.store import RoundRow

EXPECTED = {"accuracy", "best_accuracy", "loss", "virtual_minutes", "energy_wh", "accepted"}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "runs"


def interrupted_and_resumed(folder, name):
    """Two rounds, an interruption, two more rounds; the accuracies that are recorded."""
    path = folder / "run.sqlite"
    played(small_plan("fedavg", rounds=2), path, observers=[make(name, folder)]).close()
    store = played(small_plan("fedavg", rounds=4), path, observers=[make(name, folder)])
    accuracies = [row.accuracy for row in store.rounds()]
    store.close()
    return accuracies


def test_tensorboard_reads_every_round_once(folder):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accuracies = interrupted_and_resumed(folder, "tensorboard")
    events = EventAccumulator(str(folder / "tensorboard" / "run")).Reload()
    assert set(events.Tags()["scalars"]) >= EXPECTED
    scalars = events.Scalars("accuracy")
    assert [one.step for one in scalars] == [0, 1, 2, 3, 4]
    assert [one.value for one in scalars] == pytest.approx(accuracies)
    assert b"digits" in events.Tensors("settings/text_summary")[0].tensor_proto.string_val[0]


def test_mlflow_reads_every_round(folder, monkeypatch):
    pytest.importorskip("mlflow")
    pytest.importorskip("alembic")
    from mlflow.tracking import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    accuracies = interrupted_and_resumed(folder, "mlflow")
    client = MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("fedprof")
    runs = client.search_runs([experiment.experiment_id], order_by=["attributes.start_time DESC"])
    assert [run.info.run_name for run in runs] == ["run", "run"]
    assert {run.info.status for run in runs} == {"FINISHED"}
    history = client.get_metric_history(runs[0].info.run_id, "accuracy")
    assert [one.step for one in history] == [0, 1, 2, 3, 4]
    assert [one.value for one in history] == pytest.approx(accuracies)
    assert set(runs[0].data.metrics) >= EXPECTED
    assert runs[0].data.params["data.source"] == "digits"


def test_wandb_writes_every_round_offline(folder):
    pytest.importorskip("wandb")
    accuracies = interrupted_and_resumed(folder, "wandb")
    newest = max(folder.glob("wandb/offline-run-*/*.wandb"), key=lambda path: path.stat().st_mtime_ns)
    history = [record.history for record in records(newest) if record.WhichOneof("record_type") == "history"]
    found = [{item.key or item.nested_key[0]: json.loads(item.value_json) for item in one.item} for one in history]
    assert [one["_step"] for one in found] == [0, 1, 2, 3, 4]
    assert [one["accuracy"] for one in found] == pytest.approx(accuracies)


def records(path):
    """A W&B file: blocks of 32 KiB, in them chunks (checksum, length, type), of which one or more make a record."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, place, pending = path.read_bytes(), 7, b""
    while place + 7 <= len(content):
        if (left := 32768 - place % 32768) < 7:
            place += left
            continue
        length, kind = struct.unpack_from("<HB", content, place + 4)
        pending += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            record = Record()
            record.ParseFromString(pending)
            yield record
            pending = b""


@pytest.mark.parametrize(
    ("name", "package"), [("tensorboard", "torch.utils.tensorboard"), ("mlflow", "mlflow.entities"), ("wandb", "wandb")]
)
def test_a_logger_that_is_not_installed_says_how_to_install_it(folder, monkeypatch, name, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'fedprof\[logging\]'"):
        make(name, folder)


def test_an_unknown_logger_is_answered_with_the_known():
    with pytest.raises(SettingsError, match=", ".join(NAMES)):
        make("tensorbord", None)


def test_what_is_not_known_is_left_out():
    assert set(numbers(RoundRow(0, 0.5, None, 0.5))) == EXPECTED - {"loss"}


def test_settings_get_dotted_names():
    assert flat({"a": {"b": 1, "c": {"d": "x"}}, "e": [1, 2]}) == {"a.b": "1", "a.c.d": "x", "e": "[1, 2]"}
