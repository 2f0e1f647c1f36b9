"""Readers of the sources' own file formats."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedprof.data.catalogue import GAS_INPUTS
from fedprof.data.restricted import read_pickle
from fedprof.errors import DataError

GAS_TARGETS = ("CO", "NOX")


def read_idx(path: Path) -> NDArray[np.uint8]:
    """A gzipped idx file of bytes: a header of big-endian sizes, then the values."""
    try:
        content = gzip.decompress(path.read_bytes())
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path} is not a complete gzip file ({error}); delete it and fetch it again") from error
    shape = _idx_shape(content, path)
    values = np.frombuffer(content, np.uint8, offset=4 + 4 * len(shape))
    if values.size != np.prod(shape, dtype=np.int64):
        raise DataError(f"{path} announces {shape} values but holds {values.size}; delete it and fetch it again")
    return values.reshape(shape)


def idx_count(path: Path) -> int:
    """How many entries an idx file announces, reading only its header."""
    with gzip.open(path) as file:
        return _idx_shape(file.read(16), path)[0]


def read_gas(path: Path) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """One year of the gas turbine: nine process variables, and CO and NOx."""
    with path.open(encoding="ascii") as file:
        header = file.readline().strip().split(",")
    if header != [*GAS_INPUTS, *GAS_TARGETS]:
        raise DataError(f"{path} has the columns {', '.join(header)}, not {', '.join(GAS_INPUTS + GAS_TARGETS)}")
    table = np.loadtxt(path, np.float32, delimiter=",", skiprows=1, ndmin=2)
    return table[:, : len(GAS_INPUTS)].copy(), table[:, len(GAS_INPUTS) :].copy()


def read_cifar(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """One CIFAR batch: colour images, channels first, and labels."""
    batch: dict[Any, Any] = read_pickle(path.read_bytes(), str(path))
    try:
        images, labels = np.asarray(batch[b"data"], np.uint8), np.asarray(batch[b"labels"], np.int64)
        return images.reshape(len(labels), 3, 32, 32), labels
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is not a CIFAR-10 batch ({error!r}); delete it and fetch it again") from error


def _idx_shape(content: bytes, path: Path) -> tuple[int, ...]:
    if len(content) < 4 or content[:3] != b"\x00\x00\x08" or len(content) < 4 + 4 * content[3]:
        raise DataError(f"{path} is not an idx file of bytes; delete it and fetch it again")
    return tuple(np.frombuffer(content, ">u4", count=content[3], offset=4).tolist())
