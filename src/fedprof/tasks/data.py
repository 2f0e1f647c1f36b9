"""A task's data: samples from a public source, a folder or a user's function, dealt out, damaged, and standardised.

What a public source gives is prepared once for each of its settings and seeds, and then opened from the cache on disk.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import fedprof.data
from fedprof import __version__
from fedprof.data import partition
from fedprof.data.build import client_data, standardisation
from fedprof.data.cache import cache_key, cached, cached_arrays
from fedprof.data.catalogue import SOURCES, data_home
from fedprof.data.clients import ClientData, Samples
from fedprof.data.folders import client_names, from_folder
from fedprof.data.given import from_function
from fedprof.data.sources import Raw, find_source, load
from fedprof.errors import DataError, SettingsError
from fedprof.randomness import stream
from fedprof.tasks.settings import Data, Settings
from fedprof.training.engine import Metric
from fedprof.training.metrics import Regression, classification

Array = NDArray[Any]


class Prepared(NamedTuple):
    """Who holds what, and what the server measures with."""

    clients: ClientData
    validation: Samples
    targets: Array
    """Mean and standard deviation that regression targets were standardised with; empty where there are classes."""

    @property
    def regression(self) -> bool:
        """Whether the targets are numbers, not classes."""
        return len(self.targets) > 0

    @property
    def metric(self) -> Metric:
        """Accuracy; of regression, on the raw scale."""
        return Regression(*self.targets) if self.regression else classification


def prepare(settings: Settings, seed: int, data_dir: Path | None = None) -> tuple[Prepared, list[str]]:
    """Data and the clients' names."""
    data = settings.data
    if data.source == "folder":
        assert data.path is not None
        return _own(settings, *from_folder(data.path)), client_names(data.path)
    names = [f"client-{k}" for k in range(data.clients)]
    if ":" not in data.source:
        return _public(settings, seed, data_dir), names
    given = from_function(data.source)
    return (_dealt(settings, given, seed) if isinstance(given, Raw) else _own(settings, *given)), names


def _public(settings: Settings, seed: int, data_dir: Path | None) -> Prepared:
    """A public source, through the cache unless it comes with the package."""

    @cache
    def made() -> Prepared:
        return _dealt(settings, load(settings.data.source, data_dir), seed)

    if not find_source(settings.data.source).downloads:
        return made()
    chosen = settings.model_dump(mode="json", include={"data", "damage"})
    key = cache_key(**chosen, seed=seed, files=_files(settings.data.source, data_dir), code=_code())
    clients = cached(key, lambda: made().clients)
    server = cached_arrays(f"{key}-server", lambda: _server_arrays(made()))
    validation = Samples(server["x"], server["y"], clients.pool.shift, clients.pool.scale)
    return Prepared(clients, validation, np.array(server["targets"]))


def _server_arrays(prepared: Prepared) -> Mapping[str, Array]:
    return {"x": prepared.validation.x, "y": prepared.validation.y, "targets": prepared.targets}


def _files(source: str, data_dir: Path | None) -> list[tuple[str, int, int]]:
    """What tells one copy of a source from another: a file that is replaced changes its size or its time."""
    paths = [data_home(data_dir) / file.path for file in SOURCES[source].files]
    there = [(path, path.stat()) for path in paths if path.is_file()]
    return [(str(path.resolve()), stat.st_size, stat.st_mtime_ns) for path, stat in there]


def _code() -> str:
    """Digest of the code that prepares data: when it changes, so may they."""
    folder = Path(fedprof.data.__file__).parent
    digest = hashlib.blake2b(__version__.encode(), digest_size=16)
    for path in (*sorted(folder.glob("*.py")), Path(__file__)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _own(settings: Settings, clients: ClientData, validation: Samples) -> Prepared:
    """Data that somebody has dealt out already."""
    data = settings.data
    if len(clients) != data.clients:
        raise SettingsError(f"data.clients = {data.clients}: '{data.path or data.source}' holds {len(clients)} clients")
    if any(damage.share for damage in settings.damage.values()):
        raise SettingsError("damage is for data that are dealt out here, not for clients' own: set damage = {}")
    pool = clients.pool
    shift, scale = (pool.shift, pool.scale) if data.standardise == "none" else standardisation(pool.x)
    y, held, targets = _targets(data, pool.y, validation.y)
    ours = ClientData(Samples(pool.x, y, shift, scale), clients.offsets, clients.rows, clients.kind, clients.kinds)
    return Prepared(ours, Samples(validation.x, held, shift, scale), targets)


def _dealt(settings: Settings, raw: Raw, seed: int) -> Prepared:
    """Samples dealt out to clients here, some of them damaged."""
    data = settings.data
    train, validation = _split(raw, data.validation, seed)
    y, held, targets = _targets(data, train[1], validation[1])
    none = np.zeros((), np.float32), np.ones((), np.float32)
    shift, scale = none if data.standardise == "none" else standardisation(train[0])
    damage = {kind: given.model_dump() for kind, given in settings.damage.items()}
    clients = client_data(train[0], y, deal(data, train[1], raw.classes, seed), damage, seed, shift=shift, scale=scale)
    return Prepared(clients, Samples(validation[0], held, shift, scale), targets)


def _split(raw: Raw, validation: int | None, seed: int) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """The server's validation set: from the source's test set, or cut off the training set where there is none."""
    if len(raw.test_y):
        rows = _some(len(raw.test_y), validation, seed)
        return (raw.train_x, raw.train_y), (raw.test_x[rows], raw.test_y[rows])
    if validation is None:
        raise SettingsError("data.validation is missing: this source has no test set to take it from")
    rows = _some(len(raw.train_y), validation, seed)
    rest = np.setdiff1d(np.arange(len(raw.train_y)), rows)
    return (raw.train_x[rest], raw.train_y[rest]), (raw.train_x[rows], raw.train_y[rows])


def _some(there: int, wanted: int | None, seed: int) -> NDArray[np.int64]:
    if wanted is not None and wanted > there:
        raise SettingsError(
            f"data.validation = {wanted}: the source has {there} samples for it; ask for {there} or fewer"
        )
    if wanted is None or wanted == there:
        return np.arange(there)
    return np.sort(stream(seed, "validation").permutation(there)[:wanted])


def _targets(data: Data, train: Array, held: Array) -> tuple[Array, Array, Array]:
    """Labels as they are; regression targets standardised where asked for, with their mean and deviation."""
    if np.issubdtype(train.dtype, np.integer):
        return train, held, np.zeros((0,))
    mean, std = train.mean(axis=0, dtype=np.float64), train.std(axis=0, dtype=np.float64)
    if data.standardise != "all":
        mean, std = np.zeros_like(mean), np.ones_like(std)
    std[std == 0] = 1
    y, ours = (((part - mean) / std).astype(np.float32) for part in (train, held))
    return y, ours, np.stack([mean, std])


def deal(data: Data, labels: Array, classes: int, seed: int) -> partition.Partition:
    """Deal the training samples out as the settings say."""
    rng, how = stream(seed, "partition"), data.partition
    if how.kind == "given":
        raise SettingsError(f"data.partition.kind = 'given': '{data.source}' gives samples, not clients")
    if how.kind in ("dominant", "dirichlet", "shards") and not classes:
        raise SettingsError(f"data.partition.kind = '{how.kind}' needs classes; this source has none")
    sizes = _sizes(data, len(labels))
    if how.kind == "dominant":
        return partition.dominant_class(labels, data.clients, how.share or 0.0, rng, sizes)
    if how.kind == "dirichlet":
        return partition.dirichlet(labels, data.clients, how.concentration or 1.0, rng)
    if how.kind == "shards":
        return partition.shards(labels, data.clients, how.shards or 1, rng)
    if how.kind == "sizes":
        there = None if data.recycle else len(labels)
        sizes = partition.normal_sizes(there, data.clients, how.mean or 1.0, how.std or 0.0, rng)
    return partition.iid(len(labels), data.clients, rng, sizes)


def _sizes(data: Data, there: int) -> NDArray[np.int64] | None:
    if data.samples is None:
        return None
    if data.samples * data.clients > there and not data.recycle:
        raise DataError(
            f"{data.clients} clients with {data.samples} samples each need {data.clients * data.samples:,} training "
            f"samples, and '{data.source}' has {there:,} here: set data.clients={there // data.samples} "
            f"or data.samples={there // data.clients}, or let clients share samples with data.recycle=true"
        )
    return np.full(data.clients, data.samples)
