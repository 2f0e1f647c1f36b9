"""Flower's arrays as a flat vector and in the store."""

import pytest

pytest.importorskip("flwr", reason="needs the flower extra: pip install 'fedprof[flower]'")

import numpy as np
from flwr.app import Array, ArrayRecord

from fedprof.errors import SettingsError, StoreError
from fedprof.flower.arrays import UnusableError, flatten, flatten_like, pack, unpack

pytestmark = pytest.mark.flower

ARRAYS = {
    "weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "steps": np.array(2**40 + 1, np.int64),
    "mean": np.array([1 / 3, 2 / 3]),
}


def record(**changes):
    return ArrayRecord({name: Array(np.asarray(values)) for name, values in {**ARRAYS, **changes}.items()})


def test_the_flat_vector_holds_all_arrays_in_order():
    assert flatten(record()).tolist() == pytest.approx([0, 1, 2, 3, 4, 5, 2**40, 1 / 3, 2 / 3])
    assert flatten(record()).dtype == np.float32


def test_an_empty_record_is_refused():
    with pytest.raises(SettingsError, match="empty"):
        flatten(ArrayRecord())


def test_the_store_gives_back_every_array_exactly():
    like = record(weight=np.zeros((2, 3), np.float32), steps=np.array(0), mean=np.zeros(2))
    found = unpack(pack(record()), like)
    for name, values in ARRAYS.items():
        assert found[name].numpy().dtype == values.dtype
        assert np.array_equal(found[name].numpy(), values)


def test_a_stored_model_does_not_fit_another():
    with pytest.raises(StoreError, match="9 weights"):
        unpack(pack(record()), record(weight=np.zeros((3, 3), np.float32)))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"weight": np.zeros((3, 2), np.float32)}, r"wrong shape: weight is float32 \(3, 2\), expected \(2, 3\)"),
        ({"weight": np.array([["a", "b", "c"]] * 2)}, "wrong shape: weight is <U1"),
        ({"weight": np.zeros((2, 3), complex)}, "complex"),
        ({"bias": np.zeros(2)}, r"wrong arrays: missing \[\], unknown \['bias'\]"),
    ],
)
def test_arrays_unlike_the_global_ones_are_refused_with_the_reason(changes, said):
    with pytest.raises(UnusableError, match=said):
        flatten_like(record(**changes), record())


def test_a_missing_array_is_named():
    short = record()
    del short["mean"]
    with pytest.raises(UnusableError, match=r"missing \['mean'\]"):
        flatten_like(short, record())


@pytest.mark.parametrize("data", [b"", b"not numpy", b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran"])
def test_bytes_that_are_no_array_are_refused(data):
    broken = record()
    broken["weight"] = Array("float32", (2, 3), "numpy.ndarray", data)
    with pytest.raises(UnusableError, match="unreadable array weight"):
        flatten_like(broken, record())


def test_what_float32_cannot_hold_becomes_infinite_so_that_the_gate_drops_it():
    assert np.isinf(flatten_like(record(mean=np.array([1e300, 0.0])), record())).any()
