"""Flower's arrays as a flat vector and in the store."""

import pytest

pytest.importorskip("flwr", reason="needs the flower extra: pip install 'fedprof[flower]'")

import numpy as np
from flwr.app import Array, ArrayRecord

from fedprof.errors import SettingsError, StoreError
from fedprof.flower.arrays import UnusableError, flatten, flatten_like, pack, types_of, unpack

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
        ({"weight": np.zeros((3, 2), np.float32)}, r"weight is float32 \(3, 2\), expected float32 \(2, 3\)"),
        ({"weight": np.zeros((2, 3), np.float16)}, r"weight is float16 \(2, 3\), expected float32"),
        ({"weight": np.zeros((2, 3), ">f4")}, r"weight is >f4"),
        ({"steps": np.array(3.0)}, r"steps is float64 \(\), expected int64 \(\)"),
        ({"weight": np.array([["a", "b", "c"]] * 2)}, "weight is <U1"),
        ({"weight": np.zeros((2, 3), complex)}, "complex"),
        ({"bias": np.zeros(2)}, r"wrong arrays: missing \[\], unknown \['bias'\]"),
    ],
)
def test_arrays_unlike_the_global_ones_are_refused_with_the_reason(changes, said):
    with pytest.raises(UnusableError, match=said):
        flatten_like(record(**changes), record())


def test_a_client_may_keep_the_types_that_the_run_began_with():
    widened = record(steps=np.array(2.5), weight=np.zeros((2, 3)))
    assert len(flatten_like(record(), widened, types_of(record()))) == 9
    assert len(flatten_like(widened, widened, types_of(record()))) == 9
    with pytest.raises(UnusableError, match=r"weight is float16 \(2, 3\), expected float32"):
        flatten_like(record(weight=np.zeros((2, 3), np.float16)), widened, types_of(record()))


def test_a_missing_array_is_named():
    short = record()
    del short["mean"]
    with pytest.raises(UnusableError, match=r"missing \['mean'\]"):
        flatten_like(short, record())


def npy(header, values=bytes(24), version=1):
    """A file as NumPy writes one, but with a header of the sender's own."""
    return b"\x93NUMPY" + bytes([version, 0]) + len(header).to_bytes(2, "little") + header.encode() + values


def header(shape="(2, 3)", descr="'<f4'"):
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n"


UNREADABLE = {
    "nothing": b"",
    "no file of NumPy's": b"not numpy",
    "a file cut short": b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran",
    "a broken archive": b"PK\x03\x04abc",
    "another version": npy(header(), version=9),
    "a type that indexes nothing": npy(header(descr="()")),
    "a field without a type": npy(header(descr="[('a',)]")),
    "a header that does not end": npy("{'descr': '<f4', 'shape': (\n"),
    "a header as deep as the stack": npy("-" * 5000 + "1\n"),
    "a header that is no literal": npy("[].x\n"),
    "a header with a key that cannot be one": npy("{[]:1}\n"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_bytes_that_are_no_array_are_refused(case):
    broken = record()
    broken["weight"] = Array("float32", (2, 3), "numpy.ndarray", UNREADABLE[case])
    with pytest.raises(UnusableError, match="unreadable array weight"):
        flatten_like(broken, record())


@pytest.mark.parametrize("shape", [f"(2, {2**70})", f"({2**30}, {2**10})", "(2, -3)"])
def test_a_shape_that_nothing_could_hold_is_refused_before_anything_is_allocated(shape):
    broken = record()
    broken["weight"] = Array("float32", (2, 3), "numpy.ndarray", npy(header(shape)))
    with pytest.raises(UnusableError, match=r"wrong array: weight is float32 .*, expected float32 \(2, 3\)"):
        flatten_like(broken, record())


@pytest.mark.parametrize("values", [bytes(23), bytes(25), b""])
def test_an_array_must_hold_as_many_bytes_as_its_shape_says(values):
    broken = record()
    broken["weight"] = Array("float32", (2, 3), "numpy.ndarray", npy(header(), values))
    with pytest.raises(UnusableError, match=f"weight holds {len(values)} bytes, expected 24"):
        flatten_like(broken, record())


def test_objects_are_refused_and_not_unpickled():
    broken = record()
    broken["weight"] = Array("float32", (2, 3), "numpy.ndarray", npy(header(descr="'|O'")))
    with pytest.raises(UnusableError, match="weight is object"):
        flatten_like(broken, record())


def test_an_array_of_another_kind_than_numpys_is_refused():
    broken = record()
    broken["weight"] = Array("float32", (2, 3), "torch", npy(header()))
    with pytest.raises(UnusableError, match="unreadable array weight"):
        flatten_like(broken, record())


def test_an_array_that_lies_column_by_column_is_read_as_what_it_is():
    columns = record(weight=np.asfortranarray(ARRAYS["weight"]))
    assert flatten_like(columns, record()).tolist() == flatten(record()).tolist()


def test_what_float32_cannot_hold_becomes_infinite_so_that_the_gate_drops_it():
    assert np.isinf(flatten_like(record(mean=np.array([1e300, 0.0])), record())).any()
