"""Flower's ``ArrayRecord`` and what the rest of the package knows: a flat float32 vector, a PyTorch module, a store."""

from __future__ import annotations

from collections.abc import Mapping
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


def flatten_like(arrays: ArrayRecord, wanted: ArrayRecord) -> Vector:
    """Flatten a client's record; an ``UnusableError`` if it has not the names, types and shapes of the global one."""
    if arrays.keys() != wanted.keys():
        missing, unknown = sorted(wanted.keys() - arrays.keys()), sorted(arrays.keys() - wanted.keys())
        raise UnusableError(f"wrong arrays: missing {missing[:3]}, unknown {unknown[:3]}")
    pieces = []
    for name, array in wanted.items():
        values = _values(name, arrays[name], np.dtype(array.dtype), tuple(array.shape))
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and the gate drops it
            pieces.append(values.astype(np.float32).reshape(-1))
    return np.concatenate(pieces)


def _values(name: str, sent: Array, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """What a client sent as this array; nothing is allocated for one of another type, shape or size."""
    found_dtype, found_shape, fortran, start = _header(name, sent)
    if (found_dtype, found_shape) != (dtype, shape):
        raise UnusableError(f"wrong array: {name} is {found_dtype} {found_shape}, expected {dtype} {shape}")
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
