"""Prepared data on disk, opened instantly: one folder a key, one memory-mapped ``.npy`` file an array.

A folder appears all at once, under its final name, when everything in it has been written. Two processes may prepare
the same data at the same time: the first to finish wins, the other uses what is there. No pickle is written or read.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from numpy.typing import NDArray

from fedprof.data.clients import ClientData, Samples

Arrays = Mapping[str, NDArray[Any]]

FORMAT = 1
"""Raised whenever preparing the same settings would give other data."""


def cache_key(**settings: Any) -> str:
    """A folder name for settings (anything JSON can write); equal settings give equal keys."""
    canonical = json.dumps({"format": FORMAT, **settings}, sort_keys=True, default=str)
    return hashlib.blake2b(canonical.encode(), digest_size=16).hexdigest()


def cached(key: str, build: Callable[[], ClientData], root: Path | None = None) -> ClientData:
    """Open the clients' data stored under a key, or build and store them first."""
    return _from_arrays(cached_arrays(key, lambda: _to_arrays(build()), root))


def cached_arrays(key: str, build: Callable[[], Arrays], root: Path | None = None) -> Arrays:
    """Open the arrays stored under a key (memory-mapped, read-only), or build and store them first.

    A folder that cannot be read is thrown away and made again. A cache that cannot be written is no obstacle: the
    arrays are then used as they were built.
    """
    folder = (root or platformdirs.user_cache_path("fedprof") / "prepared") / key
    if folder.is_dir():
        try:
            return _open(folder)
        except (OSError, ValueError, KeyError):
            shutil.rmtree(folder, ignore_errors=True)
    arrays = build()
    try:
        _store(folder, arrays)
        return _open(folder)
    except OSError:
        return arrays


def _store(folder: Path, arrays: Arrays) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for name, array in arrays.items():
            np.save(unfinished / f"{name}.npy", array, allow_pickle=False)
        (unfinished / "contents.json").write_text(json.dumps(sorted(arrays)), encoding="utf-8")
        unfinished.rename(folder)
    except OSError:
        if not folder.is_dir():  # otherwise another process was faster, and its data are the same
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _open(folder: Path) -> Arrays:
    names = json.loads((folder / "contents.json").read_text(encoding="utf-8"))
    return {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in names}


def _to_arrays(data: ClientData) -> Arrays:
    arrays = {
        "x": data.pool.x,
        "y": data.pool.y,
        "shift": data.pool.shift,
        "scale": data.pool.scale,
        "offsets": data.offsets,
        "kind": data.kind,
        "kinds": np.array(data.kinds),
    }
    return arrays if data.rows is None else {**arrays, "rows": data.rows}


def _from_arrays(arrays: Arrays) -> ClientData:
    """The pool stays on disk until it is read; what says who holds what is small and is read at once."""
    shift, scale, offsets, kind = (np.array(arrays[name]) for name in ("shift", "scale", "offsets", "kind"))
    pool = Samples(arrays["x"], arrays["y"], shift, scale)
    return ClientData(pool, offsets, arrays.get("rows"), kind, tuple(str(name) for name in arrays["kinds"]))
