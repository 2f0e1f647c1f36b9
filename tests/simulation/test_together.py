"""Runs that share one device, their training stacked, are the runs they would be alone."""

import numpy as np
import pytest

from fedprof.errors import SettingsError
from fedprof.report.stored import read
from fedprof.simulation.batch import Assignment
from fedprof.simulation.start import simulate
from fedprof.simulation.together import play_together
from fedprof.tasks.load import plan

SETTINGS = (
    "model.name=lenet5", "model.options={}", "model.layer=fc1", "loss=nll", "epochs=1", "fraction=0.5",
    "data.source=fakes:images", "data.validation=60", "data.clients=4", "damage={}",
)  # fmt: skip
FAKES = """
import numpy as np
from fedprof.data.sources import Raw

def images():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 300)
    x = (rng.random((10, 1, 28, 28))[y] * 200 + rng.integers(0, 50, (300, 1, 28, 28))).astype(np.uint8)
    return Raw(x[:240], y[:240], x[240:], y[240:], classes=10)
"""


class Notes:
    def __init__(self):
        self.rounds, self.complete = [], []

    def round(self, number, row):
        self.rounds.append((number, row.round))

    def done(self, number):
        self.complete.append(number)


@pytest.fixture
def assigned(tmp_path, monkeypatch):
    (tmp_path / "fakes.py").write_text(FAKES, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    def assign(algorithm, seed, rounds):
        chosen = plan("digits", algorithm=algorithm, seed=seed, rounds=rounds, overrides=SETTINGS)
        return Assignment(chosen, tmp_path / f"{algorithm}-{seed}.sqlite")

    return assign


def test_each_run_is_what_it_would_be_alone(assigned, tmp_path):
    runs = [assigned("fedavg", 0, 2), assigned("fedprof", 0, 3), assigned("fedavg", 1, 2)]
    notes = Notes()
    play_together(runs, "cpu", None, notes)
    assert sorted(notes.complete) == [0, 1, 2]
    assert sorted(notes.rounds) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (2, 1), (2, 2)]
    for run in runs:
        alone = tmp_path / f"alone-{run.path.name}"
        simulate(run.plan, alone, engine="torch", workers=1).close()
        mine, theirs = read(run.path), read(alone)
        assert [row.clock for row in mine.history] == pytest.approx([row.clock for row in theirs.history])
        np.testing.assert_allclose([row.loss for row in mine.history], [row.loss for row in theirs.history], rtol=1e-4)


def test_runs_go_on_where_they_were_interrupted(assigned):
    play_together([assigned("fedavg", 0, 1)], "cpu", None, Notes())
    notes = Notes()
    play_together([assigned("fedavg", 0, 2)], "cpu", None, notes)
    assert notes.rounds == [(0, 1), (0, 2)]


def test_a_device_that_is_not_there_is_refused(assigned):
    with pytest.raises(SettingsError, match="device 'no-such-thing' cannot be used here"):
        play_together([assigned("fedavg", 0, 1)], "no-such-thing", None, Notes())
