"""Loading a source: from checked files to arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedprof.data.catalogue import SOURCES, File, Source, data_home
from fedprof.data.formats import idx_count, read_cifar, read_gas, read_idx
from fedprof.errors import DataError, unknown

__all__ = ["SOURCES", "Finding", "Raw", "Source", "checksum", "data_home", "find_source", "load", "verify"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Raw:
    """A data set as its source gives it; a source without a test split has an empty one."""

    train_x: Array
    train_y: Array
    test_x: Array
    test_y: Array
    classes: int
    """Number of classes; 0 for regression."""


@dataclass(frozen=True)
class Finding:
    """What `verify` found out about one file."""

    file: File
    path: Path
    state: str
    """``"official"``, ``"listed"`` (not official, but as a ``SHA256SUMS`` in the data folder says), ``"wrong"`` or
    ``"missing"``."""
    note: str

    @property
    def usable(self) -> bool:
        """Whether `load` reads the file."""
        return self.state in ("official", "listed")


def load(name: str, data_dir: Path | str | None = None) -> Raw:
    """Load a source by name from the data folder; every file is checked before it is read.

    ``digits`` comes with the package. The sources without a test split of their own (``digits``, ``gasturbine``) give
    all samples as training samples.
    """
    source = find_source(name)
    paths = {finding.file.name: _usable(finding, source).path for finding in verify(source, data_dir)}
    return _LOADERS[name](paths)


def verify(source: Source, data_dir: Path | str | None = None) -> list[Finding]:
    """Compare every file of a source with its published checksum.

    A file that is not the official one is still usable when a ``SHA256SUMS`` file in the data folder lists its path
    with the right digest: so a sample of a data set can stand in for the whole, by somebody's decision and not by
    accident. Pickles (CIFAR-10) must be official.
    """
    home = data_home(data_dir)
    listed = _listed_checksums(home)
    return [_inspect(file, home / file.path, listed.get(file.path)) for file in source.files]


def find_source(name: str) -> Source:
    """Look a source up by name."""
    if name not in SOURCES:
        raise unknown("data set", name, SOURCES)
    return SOURCES[name]


def checksum(path: Path, algorithm: str) -> str:
    """A file's digest, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


def _inspect(file: File, path: Path, listed: str | None) -> Finding:
    if not path.is_file():
        return Finding(file, path, "missing", "not there")
    algorithm, official = file.checksum.split(":")
    if checksum(path, algorithm) == official:
        return Finding(file, path, "official", "the official file")
    pickled = file.path.startswith("cifar10/")
    if listed and not pickled and checksum(path, "sha256") == listed:
        return Finding(file, path, "listed", f"not the official file{_count(path)}; as listed in SHA256SUMS")
    return Finding(file, path, "wrong", f"not the official file{_count(path)}: its checksum is wrong")


def _count(path: Path) -> str:
    """How much an idx file holds, for a person to recognise a sample by."""
    if not path.name.endswith("ubyte.gz"):
        return ""
    try:
        return f" ({idx_count(path):,} entries)"
    except (DataError, OSError, EOFError):
        return " (unreadable)"


def _usable(finding: Finding, source: Source) -> Finding:
    if finding.usable:
        return finding
    raise DataError(
        f"{finding.path}: {finding.note}. Run 'fedprof data fetch {source.name}', or name a folder that has "
        f"{finding.file.path} with --data or FEDPROF_DATA"
    )


def _listed_checksums(home: Path) -> dict[str, str]:
    """Digests by path from a ``SHA256SUMS`` file as ``sha256sum`` writes it."""
    sums = home / "SHA256SUMS"
    lines = sums.read_text(encoding="utf-8", errors="replace").splitlines() if sums.is_file() else []
    pairs = (line.split(maxsplit=1) for line in lines if len(line.split(maxsplit=1)) == 2)
    return {path.lstrip("*").removeprefix("./"): digest for digest, path in pairs}


def _digits(_paths: dict[str, Path]) -> Raw:
    """scikit-learn's handwritten digits: pixels in 0..16."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    x, y = images.astype(np.uint8).reshape(-1, 1, 8, 8), labels.astype(np.int64)
    return Raw(x, y, x[:0], y[:0], classes=10)


def _mnist(paths: dict[str, Path]) -> Raw:
    train = _idx_pair(paths, "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz")
    test = _idx_pair(paths, "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")
    return Raw(*train, *test, classes=10)


def _emnist(paths: dict[str, Path]) -> Raw:
    """The files hold every image transposed; here they stand upright."""
    train = _idx_pair(paths, "emnist-digits-train-images-idx3-ubyte.gz", "emnist-digits-train-labels-idx1-ubyte.gz")
    test = _idx_pair(paths, "emnist-digits-test-images-idx3-ubyte.gz", "emnist-digits-test-labels-idx1-ubyte.gz")
    return Raw(_upright(train[0]), train[1], _upright(test[0]), test[1], classes=10)


def _gas_turbine(paths: dict[str, Path]) -> Raw:
    """All five years: nine process variables to predict CO and NOx from (the paper's record of 11 values has both)."""
    years = [read_gas(paths[name]) for name in sorted(paths)]
    x, y = (np.concatenate(part) for part in zip(*years, strict=True))
    return Raw(x, y, x[:0], y[:0], classes=0)


def _cifar10(paths: dict[str, Path]) -> Raw:
    batches = [read_cifar(paths[f"data_batch_{i}"]) for i in range(1, 6)]
    x, y = (np.concatenate(part) for part in zip(*batches, strict=True))
    return Raw(x, y, *read_cifar(paths["test_batch"]), classes=10)


def _upright(images: Array) -> Array:
    return np.ascontiguousarray(images.swapaxes(2, 3))


def _idx_pair(paths: dict[str, Path], images: str, labels: str) -> tuple[Array, Array]:
    x, y = read_idx(paths[images]), read_idx(paths[labels])
    if x.ndim != 3 or y.ndim != 1 or len(x) != len(y):
        raise DataError(f"{paths[images]} and {paths[labels]} do not match: shapes {x.shape} and {y.shape}")
    return x[:, None], y.astype(np.int64)


_LOADERS: dict[str, Callable[[dict[str, Path]], Raw]] = {
    "digits": _digits,
    "mnist": _mnist,
    "emnist": _emnist,
    "gasturbine": _gas_turbine,
    "cifar10": _cifar10,
}
