"""Many runs at once are the same runs."""

from pathlib import Path

import pytest

from fedprof.errors import SettingsError, WorkerError
from fedprof.report.stored import read
from fedprof.simulation.batch import Assignment, Means, play, recorded_rounds
from fedprof.simulation.start import simulate
from fedprof.tasks.load import plan

TORCH = Means(engine="torch")


class Notes:
    def __init__(self):
        self.rounds, self.complete = [], []

    def round(self, number, row):
        self.rounds.append((number, row.round))

    def done(self, number):
        self.complete.append(number)


def assignment(folder, name="a", **options):
    return Assignment(plan("digits", rounds=2, **options), Path(folder) / f"{name}.sqlite")


def test_runs_side_by_side_are_those_of_one_after_the_other(tmp_path):
    made = [assignment(tmp_path, f"batch{seed}", seed=seed, algorithm="fedavg") for seed in range(3)]
    notes = Notes()
    play(made, 2, TORCH, notes)
    assert sorted(notes.complete) == [0, 1, 2]
    assert sorted(notes.rounds) == [(n, r) for n in range(3) for r in range(3)]
    for one in made:
        alone = one.path.with_name(f"alone-{one.path.name}")
        simulate(one.plan, alone, engine="torch", workers=1).close()
        assert read(alone).history == read(one.path).history
        assert recorded_rounds(one) == 2


def test_a_run_that_is_not_there_has_no_rounds(tmp_path):
    assert recorded_rounds(assignment(tmp_path)) == 0


def test_wrong_settings_come_back_as_such(tmp_path):
    wrong = assignment(tmp_path, overrides=["model.layer=nowhere"])
    with pytest.raises(SettingsError, match="nowhere"):
        play([wrong], 1, TORCH, Notes())


def test_an_error_in_a_users_own_code_names_the_run_and_shows_the_place(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("def data():\n    raise RuntimeError('the disk is full of cats')\n")
    monkeypatch.syspath_prepend(tmp_path)
    broken = assignment(tmp_path, overrides=["data.source=mine:data"])
    with pytest.raises(WorkerError, match=r"(?s)a\.sqlite failed.*full of cats"):
        play([broken], 1, TORCH, Notes())
