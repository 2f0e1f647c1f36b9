"""Flower's ``ArrayRecord`` and what the rest of the package knows: a flat float32 vector, a PyTorch module, a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.lib import format as npy
from numpy.typing import NDArray

from fedprof.errors import FedProfError, SettingsError, StoreError

if TYPE_CHECKING:
    from torch import nn

    from fedprof.algorithms.base import Vector

Types = Mapping[str, np.dtype[Any]]

WEIGHTS = "weights"
_NPY = "numpy.ndarray"
"""How Flower calls the only way in which it sends arrays."""
OTHER = "array/"
"""In a store: arrays that float32 does not hold exactly."""


class UnusableError(FedProfError):
    """Why a client's reply cannot be used."""


def flatten(arrays: ArrayRecord) -> Vector:
    """All arrays of a record, in its order, as one float32 vector."""
    pieces = [np.asarray(array.numpy(), np.float32).reshape(-1) for array in arrays.values()]
    if not pieces:
        raise SettingsError("the ArrayRecord is empty: start from a model's arrays")
    return np.concatenate(pieces)


def types_of(arrays: ArrayRecord) -> Types:
    """The type of each array."""
    return {name: np.dtype(array.dtype) for name, array in arrays.items()}


def flatten_like(arrays: ArrayRecord, wanted: ArrayRecord, first: Types | None = None) -> Vector:
    """Flatten a client's record; an ``UnusableError`` if it has not the names, types and shapes of the global one.

    ``first`` are the types the run began with, which a client's model may still have: averages of integers are floats,
    and Flower's adaptive strategies turn float32 into float64.
    """
    if arrays.keys() != wanted.keys():
        missing, unknown = sorted(wanted.keys() - arrays.keys()), sorted(arrays.keys() - wanted.keys())
        raise UnusableError(f"wrong arrays: missing {missing[:3]}, unknown {unknown[:3]}")
    pieces = []
    for name, array in wanted.items():
        now = np.dtype(array.dtype)
        values = _values(name, arrays[name], (now, (first or {}).get(name, now)), tuple(array.shape))
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and the gate drops it
            pieces.append(values.astype(np.float32).reshape(-1))
    return np.concatenate(pieces)


def finite(arrays: ArrayRecord) -> bool:
    """Whether no array of the server's own holds NaN or infinity."""
    return all(np.isfinite(array.numpy()).all() for array in arrays.values())


def _values(name: str, sent: Array, types: Sequence[np.dtype[Any]], shape: tuple[int, ...]) -> NDArray[Any]:
    """What a client sent as this array; nothing is allocated for one of another type, shape or size."""
    dtype, found, fortran, start = _header(name, sent)
    if dtype not in types or found != shape:
        raise UnusableError(f"wrong array: {name} is {dtype} {found}, expected {types[-1]} {shape}")
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if len(sent.data) - start != size:
        raise UnusableError(f"wrong array: {name} holds {len(sent.data) - start} bytes, expected {size}")
    return np.frombuffer(sent.data, dtype, offset=start).reshape(shape, order="F" if fortran else "C")


def _header(name: str, sent: Array) -> tuple[np.dtype[Any], tuple[int, ...], bool, int]:
    """Type, shape and order in the NPY file that Flower sends an array as, and where in it the values begin."""
    file = BytesIO(sent.data)
    if sent.stype != _NPY:
        raise UnusableError(f"unreadable array {name}: of another kind than {_NPY}")
    if sent.data[: npy.MAGIC_LEN] != npy.magic(1, 0):
        raise UnusableError(f"unreadable array {name}: not in NumPy's format 1.0")
    file.seek(npy.MAGIC_LEN)
    try:
        shape, fortran, dtype = npy.read_array_header_1_0(file)
    except Exception as error:
        # All exceptions: the header is a Python literal, and NumPy hands on whatever tokenising and evaluating one of a
        # stranger's raises (RecursionError, TokenError, OverflowError, ...). The bytes alone are to blame for any.
        raise UnusableError(f"unreadable array {name}: {type(error).__name__}") from error
    return dtype, shape, fortran, file.tell()


def load(model: nn.Module, arrays: ArrayRecord) -> None:
    """Write a record into a model, by name; one made from a list of arrays (names "0", "1", ...) by position."""
    state: dict[str, Any] = dict(arrays.to_torch_state_dict())
    names = list(model.state_dict())
    if list(state) == [str(position) for position in range(len(names))]:
        state = dict(zip(names, state.values(), strict=True))
    model.load_state_dict(state)


def pack(arrays: ArrayRecord) -> dict[str, NDArray[Any]]:
    """What a store keeps of a record: the flat vector, and exactly what float32 would round."""
    exact = {OTHER + name: array.numpy() for name, array in arrays.items() if array.dtype != "float32"}
    return {WEIGHTS: flatten(arrays), **exact}


def unpack(state: Mapping[str, NDArray[Any]], like: ArrayRecord) -> ArrayRecord:
    """The record that ``pack`` stored, given one of the same names and shapes."""
    flat, start, found = state[WEIGHTS], 0, {}
    for name, array in like.items():
        size = int(np.prod(array.shape, dtype=np.int64))
        values = flat[start : start + size].astype(np.float32)
        found[name] = state.get(OTHER + name, values).reshape(tuple(array.shape))
        start += size
    if start != len(flat):
        raise StoreError(f"the stored model has {len(flat)} weights, the one the ServerApp starts from {start}")
    return ArrayRecord({name: Array(np.array(values)) for name, values in found.items()})
