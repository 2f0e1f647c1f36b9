"""A pickle can run any code when it is read. Ours cannot."""

import collections
import os
import pickle
import shutil
import subprocess

import numpy as np
import pytest

from fedprof.data.restricted import read_pickle
from fedprof.data.sources import SOURCES, checksum, load, verify
from fedprof.errors import DataError


class Malicious:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [3, 4])
def test_arrays_and_plain_containers_are_read(protocol):
    batch = {b"data": np.arange(6, dtype=np.uint8).reshape(2, 3), b"labels": [1, 2], b"name": b"x", "more": (1.5, None)}
    read = read_pickle(pickle.dumps(batch, protocol=protocol), "here")
    assert np.array_equal(read.pop(b"data"), batch.pop(b"data"))
    assert read == batch


def test_a_batch_as_python_2_wrote_it_is_read():
    """CIFAR's own form: protocol 2, byte strings, and NumPy's old module names."""
    old = (
        b"\x80\x02}q\x01(U\x06labelsq\x02]q\x03(K\x06K\x09eU\x04dataq\x04cnumpy.core.multiarray\n_reconstruct\nq\x05"
        b"cnumpy\nndarray\nq\x06K\x00\x85U\x01b\x87Rq\x07(K\x01K\x02K\x02\x86cnumpy\ndtype\nq\x08U\x02u1K\x00K\x01\x87R"
        b"q\x09(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x04\x01\x02\x03\x04tbu."
    )
    read = read_pickle(old, "here")
    assert read[b"labels"] == [6, 9]
    assert read[b"data"].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("protocol", [0, 2, pickle.HIGHEST_PROTOCOL])
@pytest.mark.parametrize(
    "attack",
    [
        lambda mark: Malicious(os.system, f"touch {mark}"),
        lambda mark: Malicious(eval, f"open({str(mark)!r}, 'w')"),
        lambda mark: Malicious(subprocess.call, ["touch", str(mark)]),
        lambda mark: Malicious(open, str(mark), "w"),
        lambda mark: {b"data": Malicious(os.mkdir, str(mark))},
        lambda mark: Malicious(np.save, str(mark), 0),
        lambda mark: Malicious(getattr, "text", "join"),
    ],
    ids=["system", "eval", "subprocess", "open", "nested", "numpy-function", "getattr"],
)
def test_a_malicious_pickle_is_refused_before_it_runs(attack, protocol, tmp_path):
    mark = tmp_path / "was-here"
    content = pickle.dumps(attack(mark), protocol=protocol)
    with pytest.raises(DataError, match=r"not a pickle of plain arrays \(it asks for"):
        read_pickle(content, "the batch")
    assert not list(tmp_path.iterdir())


def test_even_harmless_classes_are_refused():
    with pytest.raises(DataError, match=r"collections\.OrderedDict"):
        read_pickle(pickle.dumps(collections.OrderedDict(a=1)), "here")


@pytest.mark.parametrize("content", [b"", b"\x80\x02", b"hello", b"\x80\x02}q\x00(", b"Pid\n.", b"\x80\x05\x95\xff"])
def test_broken_pickles_are_an_error_that_names_the_file(content):
    with pytest.raises(DataError, match="data_batch_1 is not a pickle"):
        read_pickle(content, "data_batch_1")


def test_cifar_with_a_wrong_checksum_is_not_even_opened(tmp_path, monkeypatch):
    """Nor does SHA256SUMS help: a pickle must be the official one."""
    folder = tmp_path / "cifar10" / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for file in SOURCES["cifar10"].files:
        (tmp_path / file.path).write_bytes(pickle.dumps({b"data": np.zeros((0, 3072), np.uint8), b"labels": []}))
    lines = [f"{checksum(tmp_path / file.path, 'sha256')}  {file.path}\n" for file in SOURCES["cifar10"].files]
    (tmp_path / "SHA256SUMS").write_text("".join(lines))
    assert {finding.state for finding in verify(SOURCES["cifar10"], tmp_path)} == {"wrong"}
    monkeypatch.setattr("fedprof.data.formats.read_pickle", lambda *_: pytest.fail("the pickle was read"))
    with pytest.raises(DataError, match="its checksum is wrong"):
        load("cifar10", tmp_path)


def test_one_changed_byte_in_the_real_cifar_is_found(real, tmp_path):
    real("cifar10")
    findings = verify(SOURCES["cifar10"])
    (tmp_path / "cifar10" / "cifar-10-batches-py").mkdir(parents=True)
    for finding in findings[1:]:
        (tmp_path / finding.file.path).symlink_to(finding.path)
    copy = tmp_path / findings[0].file.path
    shutil.copyfile(findings[0].path, copy)
    with copy.open("r+b") as file:
        file.seek(1_000_000)
        byte = file.read(1)[0]
        file.seek(1_000_000)
        file.write(bytes([byte ^ 1]))
    with pytest.raises(DataError, match="data_batch_1: not the official file: its checksum is wrong"):
        load("cifar10", tmp_path)
