"""Flower's ``ArrayRecord`` and what the rest of the package knows: a flat float32 vector, a PyTorch module, a store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray

from fedprof.errors import FedProfError, SettingsError, StoreError

if TYPE_CHECKING:
    from torch import nn

    from fedprof.algorithms.base import Vector

WEIGHTS = "weights"
OTHER = "array/"
"""In a store: arrays that float32 does not hold exactly."""
_UNREADABLE = (ValueError, TypeError, KeyError, EOFError, OSError, SyntaxError, MemoryError)


class UnusableError(FedProfError):
    """Why a client's reply cannot be used."""


def flatten(arrays: ArrayRecord) -> Vector:
    """All arrays of a record, in its order, as one float32 vector."""
    pieces = [np.asarray(array.numpy(), np.float32).reshape(-1) for array in arrays.values()]
    if not pieces:
        raise SettingsError("the ArrayRecord is empty: start from a model's arrays")
    return np.concatenate(pieces)


def flatten_like(arrays: ArrayRecord, wanted: ArrayRecord) -> Vector:
    """Flatten a client's record; an ``UnusableError`` if it has not the names and shapes of the global one."""
    if arrays.keys() != wanted.keys():
        missing, unknown = sorted(wanted.keys() - arrays.keys()), sorted(arrays.keys() - wanted.keys())
        raise UnusableError(f"wrong arrays: missing {missing[:3]}, unknown {unknown[:3]}")
    pieces = []
    for name, array in wanted.items():
        try:
            values = arrays[name].numpy()
        except _UNREADABLE as error:
            raise UnusableError(f"unreadable array {name}: {type(error).__name__}") from error
        if values.dtype.kind not in "fiub" or values.shape != tuple(array.shape):
            raise UnusableError(f"wrong shape: {name} is {values.dtype} {values.shape}, expected {tuple(array.shape)}")
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and the gate drops it
            pieces.append(values.astype(np.float32).reshape(-1))
    return np.concatenate(pieces)


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
