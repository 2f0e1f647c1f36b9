"""Prepared data: built once, opened instantly, safe with two processes, no pickle."""

import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from fedprof.data import cache
from fedprof.data import partition as deal
from fedprof.data.build import client_data, standardisation
from fedprof.data.cache import cache_key, cached, cached_arrays
from fedprof.randomness import stream


def built(real, damage):
    x, y = real("digits").train_x, real("digits").train_y
    parts = deal.dominant_class(y, 20, 0.4, stream(0, "partition"))
    shift, scale = standardisation(x)
    return client_data(x, y, parts, damage, 0, shift=shift, scale=scale)


def never():
    pytest.fail("built again")


@pytest.mark.parametrize("damage", [{}, {"pixel": {"share": 0.5}}], ids=["shared rows", "own copies"])
def test_what_comes_out_is_what_went_in(damage, real, tmp_path):
    original = built(real, damage)
    for opened in (cached("k", lambda: original, tmp_path), cached("k", never, tmp_path)):
        assert opened.kinds == original.kinds
        assert np.array_equal(opened.kind, original.kind)
        assert np.array_equal(opened.offsets, original.offsets)
        assert (opened.rows is None) == (original.rows is None)
        for client in range(20):
            for ours, theirs in zip(opened.samples(client), original.samples(client), strict=True):
                assert np.array_equal(ours, theirs)
                assert ours.dtype == theirs.dtype


def test_the_pool_stays_on_disk_and_cannot_be_changed(real, tmp_path):
    opened = cached("k", lambda: built(real, {}), tmp_path)
    assert isinstance(opened.pool.x, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        opened.pool.x[0] = 0


def test_no_file_is_a_pickle(real, tmp_path):
    cached("k", lambda: built(real, {}), tmp_path)
    files = sorted((tmp_path / "k").iterdir())
    assert {file.suffix for file in files} == {".npy", ".json"}
    for file in files:
        if file.suffix == ".npy":
            np.load(file, allow_pickle=False)


def test_equal_settings_have_equal_keys_and_others_have_not():
    key = cache_key(seed=1, data={"source": "digits", "clients": 40})
    assert key == cache_key(data={"clients": 40, "source": "digits"}, seed=1)
    others = {cache_key(seed=2, data={"source": "digits", "clients": 40}), cache_key(seed=1, data={"clients": 40})}
    assert len({key, *others}) == 3


def test_a_new_format_does_not_open_old_data(monkeypatch):
    old = cache_key(seed=1)
    monkeypatch.setattr(cache, "FORMAT", cache.FORMAT + 1)
    assert cache_key(seed=1) != old


@pytest.mark.parametrize("break_it", ["truncate", "remove", "garble"])
def test_a_broken_folder_is_made_again(break_it, tmp_path):
    arrays = {"a": np.arange(1000), "b": np.zeros(3)}
    cached_arrays("k", lambda: arrays, tmp_path)
    file = tmp_path / "k" / "a.npy"
    if break_it == "truncate":
        file.write_bytes(file.read_bytes()[:200])
    elif break_it == "remove":
        file.unlink()
    else:
        (tmp_path / "k" / "contents.json").write_text("{")
    again = cached_arrays("k", lambda: arrays, tmp_path)
    assert np.array_equal(again["a"], arrays["a"])
    assert np.array_equal(cached_arrays("k", never, tmp_path)["a"], arrays["a"])


def test_a_build_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError):
        cached_arrays("k", lambda: {"a": np.array(1 / 0)}, tmp_path)
    assert not list(tmp_path.iterdir())


def test_objects_are_refused_and_leave_nothing(tmp_path):
    with pytest.raises(ValueError, match="pickle"):
        cached_arrays("k", lambda: {"a": np.array([{}], dtype=object)}, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_cache_that_cannot_be_written_is_no_obstacle(tmp_path):
    (tmp_path / "root").write_text("a file where a folder should be")
    arrays = cached_arrays("k", lambda: {"a": np.arange(3)}, tmp_path / "root")
    assert arrays["a"].tolist() == [0, 1, 2]


def test_a_disk_that_fills_up_is_no_obstacle_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    assert cached_arrays("k", lambda: {"a": np.arange(3)}, tmp_path)["a"].tolist() == [0, 1, 2]
    assert not list(tmp_path.iterdir())


def test_whoever_comes_second_uses_what_is_there(tmp_path):
    def slow():
        cached_arrays("k", lambda: {"a": np.array([1])}, tmp_path)  # another process finishes in the meantime
        return {"a": np.array([2])}

    assert cached_arrays("k", slow, tmp_path)["a"].tolist() == [1]
    assert [path.name for path in tmp_path.iterdir()] == ["k"]


def test_many_processes_at_once_agree(tmp_path):
    program = textwrap.dedent("""
        import sys, time, numpy as np
        from pathlib import Path
        from fedprof.data.cache import cached_arrays
        arrays = cached_arrays("k", lambda: {"a": np.arange(200_000)}, Path(sys.argv[1]))
        assert arrays["a"].sum() == 19999900000
    """)
    runs = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path)]) for _ in range(4)]
    assert [run.wait() for run in runs] == [0] * 4
    assert [path.name for path in tmp_path.iterdir()] == ["k"]


def test_data_in_use_survive_that_the_cache_is_emptied(real, tmp_path):
    opened = cached("k", lambda: built(real, {}), tmp_path)
    shutil.rmtree(tmp_path / "k")
    assert np.array_equal(opened.pool.x, real("digits").train_x)
