"""From samples, a partition and damage to `ClientData`, reproducible from the seed alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedprof.data.clients import ClientData, Samples
from fedprof.data.damage import DAMAGES, NORMAL, Clean, Damage, assign
from fedprof.data.partition import Partition
from fedprof.data.statistics import mean_and_deviation
from fedprof.errors import unknown
from fedprof.randomness import stream

Array = NDArray[Any]
Strengths = Mapping[str, Mapping[str, Any]]


def client_data(
    x: Array,
    y: Array,
    partition: Partition,
    damage: Strengths,
    seed: int,
    *,
    shift: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
) -> ClientData:
    """Give clients their rows and damage those drawn for it.

    ``damage`` maps kinds to ``{"share": share of the clients, ...strengths}``. Without a damaged client, all share one
    pool through row numbers. Otherwise the pool is a copy in client order, where client k's damage draws from
    ``stream(seed, "damage", 0, k)``. When rows are recycled (more rows dealt than there are samples), the pool holds
    each sample once a kind instead, damaged with ``stream(seed, "damage", 0, index of the kind)``.
    """
    steps = [_step(kind, given) for kind, given in damage.items()]
    kind = assign({name: given["share"] for name, given in damage.items()}, len(partition), stream(seed, "kinds"))
    rows: NDArray[np.integer] | None = partition.rows
    if kind.any() and len(partition.rows) <= len(x):
        (x, y), rows = _damaged_by_client(Samples(x, y), partition, kind, steps, seed), None
    elif kind.any():
        rows = partition.rows + len(x) * np.repeat(kind.astype(np.int64), partition.sizes)
        x, y = _damaged_by_kind(x, y, steps, seed)
    pool = Samples(x, y, np.asarray(shift, np.float32), np.asarray(scale, np.float32))
    return ClientData(pool, partition.offsets, rows, kind, (NORMAL, *damage))


def standardisation(x: Array) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean and standard deviation for `Samples`: one a feature for tables, one a channel for images.

    A feature that never changes (as far as float32 can tell) keeps its scale, so it becomes 0 and not noise.
    """
    mean, std = mean_and_deviation(x)
    constant = std <= 1e-6 * np.abs(mean)
    return mean, np.where(constant, np.float32(1), std)


Step = tuple[Damage, dict[str, Any]]


def _step(kind: str, given: Mapping[str, Any]) -> Step:
    """A damage and its strengths, both checked."""
    if kind not in DAMAGES:
        raise unknown("damage", kind, DAMAGES)
    strengths = {name: value for name, value in given.items() if name != "share"}
    DAMAGES[kind].check(strengths)
    return DAMAGES[kind], strengths


def _damaged_by_client(
    pool: Samples, partition: Partition, kind: NDArray[np.uint8], steps: list[Step], seed: int
) -> tuple[Array, Array]:
    clean = Clean.of(pool.x, pool.y)
    x, y = pool.x[partition.rows], pool.y[partition.rows]
    for client in np.flatnonzero(kind):
        mine = slice(partition.offsets[client], partition.offsets[client + 1])
        damage, strength = steps[kind[client] - 1]
        x[mine], y[mine] = damage(x[mine], y[mine], stream(seed, "damage", 0, int(client)), clean, **strength)
    return x, y


def _damaged_by_kind(x: Array, y: Array, steps: list[Step], seed: int) -> tuple[Array, Array]:
    """All samples as they are, then all of them under each damage."""
    clean = Clean.of(x, y)
    pools = [(x, y)]
    for index, (damage, strength) in enumerate(steps, start=1):
        pools.append(damage(x, y, stream(seed, "damage", 0, index), clean, **strength))
    return np.concatenate([p[0] for p in pools]), np.concatenate([p[1] for p in pools])
