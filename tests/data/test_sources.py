"""Real sources load as what they are; wrong files are never read."""

import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest

from fedprof.data.catalogue import GAS_INPUTS
from fedprof.data.formats import read_cifar, read_gas, read_idx
from fedprof.data.sources import SOURCES, checksum, data_home, find_source, load, verify
from fedprof.errors import DataError, SettingsError


def idx(values: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes()
    return gzip.compress(header + values.astype(np.uint8).tobytes())


@pytest.fixture
def mnist_sample(tmp_path):
    """Twelve made-up images in MNIST's form, listed in SHA256SUMS."""
    folder = tmp_path / "mnist"
    folder.mkdir()
    for name, count in (("train", 8), ("t10k", 4)):
        images = np.arange(count * 784).reshape(count, 28, 28) % 251
        (folder / f"{name}-images-idx3-ubyte.gz").write_bytes(idx(images))
        (folder / f"{name}-labels-idx1-ubyte.gz").write_bytes(idx(np.arange(count)))
    lines = [f"{checksum(file, 'sha256')}  ./mnist/{file.name}\n" for file in sorted(folder.iterdir())]
    (tmp_path / "SHA256SUMS").write_text("".join(lines))
    return tmp_path


def test_the_paper_s_tasks_and_two_more_have_sources():
    assert set(SOURCES) == {"digits", "gasturbine", "emnist", "cifar10", "mnist"}
    for source in SOURCES.values():
        assert source.citation
        assert source.licence


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_has_the_shapes_it_announces(name, real):
    source, raw = SOURCES[name], real(name)
    assert raw.train_x.shape[1:] == raw.test_x.shape[1:] == source.shape
    assert raw.classes == source.classes
    assert len(raw.train_x) == len(raw.train_y)
    assert len(raw.test_x) == len(raw.test_y)
    if raw.classes:
        assert raw.train_x.dtype == np.uint8
        assert raw.train_y.dtype == np.int64
        assert np.array_equal(np.unique(raw.train_y), np.arange(10))


@pytest.mark.parametrize(
    ("name", "train", "test"),
    [("digits", 1797, 0), ("gasturbine", 36_733, 0), ("mnist", 60_000, 10_000), ("cifar10", 50_000, 10_000)],
)
def test_a_source_has_its_published_number_of_samples(name, train, test, real):
    raw = real(name)
    assert (len(raw.train_y), len(raw.test_y)) == (train, test)
    assert train + test == SOURCES[name].samples


def test_digits_need_no_data_folder(tmp_path):
    raw = load("digits", tmp_path / "nowhere")
    assert raw.train_x.max() == 16


def test_emnist_stands_upright(real):
    """A one is a tall stroke; transposed, as the files have it, it would lie on its side."""
    raw = real("emnist")
    ones = raw.train_x[raw.train_y == 1][:500, 0].mean(axis=0)
    assert (ones.max(axis=1) > 60).sum() > 1.5 * (ones.max(axis=0) > 60).sum()
    sevens = raw.train_x[raw.train_y == 7][:500, 0].mean(axis=0)
    assert sevens[6:12].sum() > 1.3 * sevens[16:22].sum(), "a seven's bar is at its top"


def test_gas_turbine_inputs_do_not_contain_the_targets(real):
    raw = real("gasturbine")
    assert raw.train_x.shape == (36_733, len(GAS_INPUTS))
    assert raw.train_y.shape == (36_733, 2)
    for column in raw.train_x.T:
        assert not any(np.array_equal(column, target) for target in raw.train_y.T)
    assert np.allclose(raw.train_x[0, :2], [4.5878, 1018.7])
    assert np.allclose(raw.train_y[0], [0.32663, 81.952])


def test_mnist_begins_with_a_five(real):
    assert real("mnist").train_y[:5].tolist() == [5, 0, 4, 1, 9]


def test_cifar_begins_with_a_frog(real):
    raw = real("cifar10")
    assert raw.train_y[:3].tolist() == [6, 9, 9]
    assert raw.train_x[0, :, 0, 0].tolist() == [59, 62, 63]


def test_the_data_folder_is_the_one_given_else_the_environments_else_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDPROF_DATA", str(tmp_path / "environment"))
    assert data_home(tmp_path / "given") == tmp_path / "given"
    assert data_home() == tmp_path / "environment"
    monkeypatch.delenv("FEDPROF_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert "fedprof" in data_home().parts
    assert data_home("~/somewhere") == Path.home() / "somewhere"


def test_no_data_says_how_to_get_it(tmp_path):
    with pytest.raises(DataError, match="Run 'fedprof data fetch mnist', or name a folder"):
        load("mnist", tmp_path)


def test_a_file_that_cannot_be_read_at_all_is_said_to_be_so(mnist_sample):
    (mnist_sample / "mnist" / "t10k-labels-idx1-ubyte.gz").write_bytes(b"<html>moved</html>")
    with pytest.raises(DataError, match=r"t10k-labels-idx1-ubyte\.gz: not the official file \(unreadable\)"):
        load("mnist", mnist_sample)


def test_a_source_knows_how_much_there_is_to_download():
    assert SOURCES["mnist"].size == 9_912_422 + 28_881 + 1_648_877 + 4_542
    assert SOURCES["digits"].size == 0
    assert SOURCES["gasturbine"].size is None, "its archives differ; only the files inside are published"


def test_an_unknown_source_is_answered_with_the_nearest_and_all_there_are():
    with pytest.raises(SettingsError, match=r"no data set 'mnits'\. Did you mean 'mnist'\? Known: digits, gas"):
        find_source("mnits")


def test_a_sample_of_a_data_set_counts_only_if_sha256sums_lists_it(mnist_sample):
    findings = verify(SOURCES["mnist"], mnist_sample)
    assert {finding.state for finding in findings} == {"listed"}
    assert findings[0].note == "not the official file (8 entries); as listed in SHA256SUMS"
    assert load("mnist", mnist_sample).train_x.shape == (8, 1, 28, 28)
    (mnist_sample / "SHA256SUMS").unlink()
    with pytest.raises(DataError, match=r"not the official file \(8 entries\): its checksum is wrong"):
        load("mnist", mnist_sample)


def test_a_list_of_checksums_that_is_no_text_lists_nothing(mnist_sample):
    (mnist_sample / "SHA256SUMS").write_bytes(b"\xff\xfe\x00")
    assert {finding.state for finding in verify(SOURCES["mnist"], mnist_sample)} == {"wrong"}


def test_a_listed_file_that_changed_is_wrong(mnist_sample):
    labels = mnist_sample / "mnist" / "t10k-labels-idx1-ubyte.gz"
    labels.write_bytes(idx(np.zeros(4)))
    states = {finding.path: finding.state for finding in verify(SOURCES["mnist"], mnist_sample)}
    assert states[labels] == "wrong"


def test_images_and_labels_must_match_in_number(mnist_sample):
    folder = mnist_sample / "mnist"
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(idx(np.arange(3)))
    lines = [f"{checksum(file, 'sha256')} *mnist/{file.name}\n" for file in folder.iterdir()]
    (mnist_sample / "SHA256SUMS").write_text("".join(lines))
    with pytest.raises(DataError, match="do not match"):
        load("mnist", mnist_sample)


def test_verify_tells_official_from_damaged_and_missing(real, tmp_path):
    real("gasturbine")
    whole = verify(SOURCES["gasturbine"])
    assert {finding.state for finding in whole} == {"official"}
    (tmp_path / "gas_turbine").mkdir()
    for finding in whole[:-1]:
        shutil.copyfile(finding.path, tmp_path / finding.file.path)
    broken = tmp_path / whole[0].file.path
    broken.write_bytes(broken.read_bytes()[:-1])
    states = [finding.state for finding in verify(SOURCES["gasturbine"], tmp_path)]
    assert states == ["wrong", "official", "official", "official", "missing"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an idx file"),
        (b"<html>moved</html>", "not a complete gzip file"),
        (gzip.compress(b"hello"), "not an idx file"),
        (idx(np.zeros((3, 2)))[:-6], "not a complete gzip file"),
        (gzip.compress(gzip.decompress(idx(np.zeros((3, 2))))[:-1]), "announces .3, 2. values but holds 5"),
    ],
    ids=["empty", "a page", "other content", "cut off", "too short"],  # gzip writes the time: no part of a test's name
)
def test_a_broken_idx_file_is_an_error_and_not_a_traceback(content, message, tmp_path):
    path = tmp_path / "images.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_idx(path)


def test_a_gas_turbine_file_with_other_columns_is_an_error(tmp_path):
    path = tmp_path / "gt_2011.csv"
    path.write_text("AT,AP\n1,2\n")
    with pytest.raises(DataError, match="has the columns AT, AP, not AT, AP, AH"):
        read_gas(path)


def test_a_pickle_that_is_no_batch_is_an_error(tmp_path):
    import pickle

    path = tmp_path / "data_batch_1"
    path.write_bytes(pickle.dumps({b"data": [1, 2, 3], b"labels": [1]}))
    with pytest.raises(DataError, match="not a CIFAR-10 batch"):
        read_cifar(path)
