"""Data that are already shared out: a folder with one data set a client.

    my-federation/
        validation.npz        the server's validation set
        hospital-a.npz        one data set a client: .npz, .csv, or a folder of images with one sub-folder a class
        hospital-b.npz

Clients are numbered in the order of their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedprof.data.clients import ClientData, Samples
from fedprof.data.own import class_names, csv_features, from_csv, from_image_folders, from_npz
from fedprof.errors import DataError

VALIDATION = "validation"


def from_folder(path: Path | str, **columns: Any) -> tuple[ClientData, Samples]:
    """Read all clients' data and the validation set; ``columns`` goes to `from_csv`.

    Of a client's table, the features are the columns that the validation set's table has, in its order. A client
    without samples is an error. One with a single sample is accepted: it can be trained on, and a profile's variance
    has a floor.
    """
    path = Path(path)
    entries = _entries(path)
    if VALIDATION not in entries or len(entries) < 2:
        raise DataError(
            f"{path} needs one data set a client (.npz, .csv or a folder of images) and one called '{VALIDATION}' "
            f"for the server; it has {', '.join(entries) or 'none'}"
        )
    names = _all_class_names(list(entries.values()))
    if entries[VALIDATION].suffix == ".csv":
        columns |= {"features": csv_features(entries[VALIDATION], columns)}
    held = {name: _read(entry, names, columns) for name, entry in entries.items()}
    validation = held.pop(VALIDATION)
    _require_alike(held, validation, path)
    return _joined(list(held.values())), validation


def client_names(path: Path | str) -> list[str]:
    """The clients of a folder in the order of their numbers."""
    return [name for name in _entries(Path(path)) if name != VALIDATION]


def _entries(path: Path) -> dict[str, Path]:
    """Data sets by name, sorted; other files are left alone."""
    if not path.is_dir():
        raise DataError(f"{path.absolute()} is not a folder")
    found: dict[str, Path] = {}
    for entry in sorted(path.iterdir()):
        if entry.name.startswith(".") or not (entry.is_dir() or entry.suffix in (".npz", ".csv")):
            continue
        name = entry.name if entry.is_dir() else entry.stem
        if name in found:
            raise DataError(f"{path} has two data sets called '{name}': {found[name].name} and {entry.name}")
        found[name] = entry
    return found


def _all_class_names(entries: Sequence[Path]) -> list[str]:
    """Classes of all image folders together, so that a number means the same class everywhere."""
    return sorted({name for entry in entries if entry.is_dir() for name in class_names(entry)})


def _read(entry: Path, names: Sequence[str], columns: dict[str, Any]) -> Samples:
    if entry.is_dir():
        return from_image_folders(entry, names=names)
    samples = from_npz(entry) if entry.suffix == ".npz" else from_csv(entry, **columns)
    if not len(samples):
        raise DataError(f"{entry} holds no samples: remove it, or give the client some")
    return samples


def _require_alike(held: dict[str, Samples], validation: Samples, path: Path) -> None:
    """Every client's samples must look like the server's."""
    for name, samples in held.items():
        if samples.form != validation.form:
            raise DataError(f"{path}: client '{name}' holds {samples.form}, the validation set {validation.form}")
        if np.issubdtype(samples.y.dtype, np.integer) and samples.y.max() > validation.y.max():
            raise DataError(
                f"{path}: client '{name}' has the label {samples.y.max()}, but the validation set's labels end at "
                f"{validation.y.max()}: a model could not be checked on that class"
            )


def _joined(held: list[Samples]) -> ClientData:
    pool = Samples(np.concatenate([s.x for s in held]), np.concatenate([s.y for s in held]))
    return ClientData(pool, np.concatenate([[0], np.cumsum([len(s) for s in held])]).astype(np.int64))
