import gzip
import json

import numpy as np
import pytest
from toy_histories import KINDS, make_run, make_table, reaching

from fedprof.errors import StoreError
from fedprof.report.gather import counts, field
from fedprof.report.stored import read
from fedprof.reproduction.archive import pack, unpack
from fedprof.reproduction.experiments import find
from fedprof.reproduction.write import complete_runs


@pytest.fixture
def plan():
    (experiment,) = find("gasturbine")
    return experiment.plan


def test_an_archive_keeps_accuracy_clock_energy_settings_and_versions(tmp_path, plan):
    path = make_run(plan("fedavg", "full", 1), tmp_path, [0.1, 0.75, 0.85])
    (found,) = unpack(pack([path], tmp_path / "a.json.gz"), tmp_path)
    original = read(path)
    assert found.run.plan == original.plan
    assert found.run.facts["versions"] == original.facts["versions"]
    for kept, row in zip(found.run.history, original.history, strict=True):
        assert (kept.round, kept.accuracy, kept.clock, kept.total_joules, kept.best_accuracy) == (
            row.round,
            row.accuracy,
            row.clock,
            row.total_joules,
            row.best_accuracy,
        )
    assert found.run.reached == original.reached == (2, 2.0, 2.0)


def test_equal_runs_give_equal_bytes(tmp_path, plan):
    path = make_run(plan("fedavg", "full", 0), tmp_path, [0.1, 0.9])
    assert pack([path], tmp_path / "a.json.gz").read_bytes() == pack([path], tmp_path / "b.json.gz").read_bytes()


def test_who_took_part_is_kept_by_kind(tmp_path, plan):
    path = make_run(plan("afl", "partial", 2), tmp_path, [0.1, 0.5, 0.9], selected=(0, 3))
    (found,) = unpack(pack([path], tmp_path / "a.json.gz"), tmp_path)
    assert found.parts == {
        "normal": (2, 2),
        "noise": (1, 0),
        "polluted": (1, 2),
        "irrelevant": (1, 0),
        "blur": (1, 0),
        "pixel": (1, 0),
    }
    assert found.share_of_bad == pytest.approx(0.5)


def test_of_fedprofs_first_seed_figures_can_ask_who_was_selected_and_every_score(tmp_path, plan):
    path = make_run(plan("fedprof", "partial", 0), tmp_path, [0.1, 0.5, 0.9])
    (found,) = unpack(pack([path], tmp_path / "a.json.gz"), tmp_path)
    assert counts(found.run) == counts(read(path)) == {0: 2, 2: 2}
    np.testing.assert_array_equal(field(found.run, "score").values, field(read(path), "score").values)
    assert [row.kind for row in found.run.clients] == list(KINDS)


def test_the_digest_of_the_final_model_is_kept(tmp_path, plan):
    one = make_run(plan("fedavg", "full", 0), tmp_path, [0.1, 0.5])
    two = make_run(plan("fedavg", "full", 1), tmp_path, [0.1, 0.5, 0.6])
    digests = {found.run.facts["final_weights"] for found in unpack(pack([one, two], tmp_path / "a.json.gz"), tmp_path)}
    assert len(digests) == 2


@pytest.mark.parametrize(
    "content",
    [b"no gzip", gzip.compress(b"no json"), gzip.compress(json.dumps({}).encode())],
    ids=["no gzip", "no JSON", "no runs"],
)
def test_a_file_that_is_no_archive_is_named(tmp_path, content):
    path = tmp_path / "broken.json.gz"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"broken\.json\.gz"):
        unpack(path, tmp_path)


def test_runs_are_known_by_their_settings_whatever_their_files_are_called(tmp_path, plan):
    paths = [make_run(plan("fedavg", "full", seed), tmp_path, [0.1, 0.5]) for seed in range(2)]
    renamed = paths[0].rename(paths[0].with_name("anything.sqlite"))
    (experiment,) = find("gasturbine")
    assert complete_runs(experiment, tmp_path) == [renamed, paths[1]]


def test_a_lone_run_that_lacks_rounds_is_taken_to_be_under_way(tmp_path, plan):
    make_run(plan("fedavg", "full", 0), tmp_path, [0.1, 0.5])
    (experiment,) = find("gasturbine")
    assert complete_runs(experiment, tmp_path) == []


def test_a_run_that_is_still_under_way_is_left_out(tmp_path):
    experiment = make_table(tmp_path, lambda *_: reaching(0.8, 3, rounds=4), seeds=1)
    make_run(experiment.plan("fedavg", "full", 1), tmp_path, [0.1, 0.5])
    names = [path.name for path in complete_runs(experiment, tmp_path)]
    assert len(names) == 8
    assert "gasturbine-fedavg-full-s1.sqlite" not in names
