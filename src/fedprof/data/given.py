"""What a user's own function gives: samples to be dealt out, or clients that hold theirs already; all checked."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

from fedprof.data.clients import ClientData, Samples
from fedprof.data.own import as_raw, from_arrays
from fedprof.data.sources import Raw
from fedprof.errors import DataError, SettingsError

Federation = tuple[ClientData, Samples]


def from_function(source: str) -> Raw | Federation:
    """Call ``package.module:function`` and bring what it gives into the package's form (see `from_arrays`)."""
    given = _function(source)()
    match given:
        case Raw():
            return _raw(given, source)
        case ClientData() as clients, Samples() as validation:
            return _federation(clients, validation, source)
    wanted = "a Raw, nor a ClientData and the server's Samples"
    raise SettingsError(f"data.source = '{source}': it gave {type(given).__name__}, not {wanted}")


def _function(source: str) -> Any:
    module, _, attribute = source.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise SettingsError(f"data.source = '{source}' cannot be imported: {error}") from error
    if not callable(found):
        raise SettingsError(f"data.source = '{source}' is {type(found).__name__}, not a function")
    return found


def _raw(given: Raw, source: str) -> Raw:
    classes = given.classes or None
    train = from_arrays(given.train_x, given.train_y, classes=classes, where=f"{source}, training samples")
    if not len(train):
        raise DataError(f"{source}: there are no training samples")
    if not len(given.test_y):
        return as_raw(train)
    test = from_arrays(given.test_x, given.test_y, classes=classes, where=f"{source}, test samples")
    _require_alike(train, test, source)
    return as_raw(train, test)


def _federation(clients: ClientData, validation: Samples, source: str) -> Federation:
    pool = from_arrays(clients.pool.x, clients.pool.y, where=f"{source}, clients' samples")
    held = from_arrays(validation.x, validation.y, where=f"{source}, validation samples")
    if not len(held):
        raise DataError(f"{source}: there are no validation samples")
    _require_alike(pool, held, source)
    _require_rows(clients, len(pool), source)
    return replace(clients, pool=replace(clients.pool, x=pool.x, y=pool.y)), replace(validation, x=held.x, y=held.y)


def _require_alike(ours: Samples, held: Samples, source: str) -> None:
    if ours.form != held.form:
        raise DataError(f"{source}: clients hold {ours.form}, the server {held.form}")


def _require_rows(clients: ClientData, count: int, source: str) -> None:
    """Every client holds something, and only what there is."""
    end = count if clients.rows is None else len(clients.rows)
    if clients.offsets[0] != 0 or clients.offsets[-1] != end:
        raise DataError(
            f"{source}: offsets run from {clients.offsets[0]} to {clients.offsets[-1]}, not from 0 to {end}"
        )
    if clients.sizes.min(initial=1) < 1:
        raise DataError(f"{source}: client {int(clients.sizes.argmin())} holds no samples")
    if clients.rows is not None and not 0 <= clients.rows.min() <= clients.rows.max() < count:
        raise DataError(f"{source}: clients' rows lie outside the pool of {count} samples")
