"""All clients' data as one pool of samples and, for every client, the rows of it that client holds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedprof.errors import DataError


@dataclass(frozen=True)
class Samples:
    """Inputs and targets, row by row; ``shift`` and ``scale`` standardise the inputs when a batch is made."""

    x: NDArray[np.generic]
    """Inputs, ``(n, *shape)``: ``uint8`` images or ``float32`` features; may be memory-mapped."""
    y: NDArray[np.generic]
    """``int64`` labels ``(n,)`` or ``float32`` targets ``(n, outputs)``."""
    shift: NDArray[np.float32] = field(default_factory=lambda: np.zeros((), np.float32))
    scale: NDArray[np.float32] = field(default_factory=lambda: np.ones((), np.float32))

    def __post_init__(self) -> None:
        """Reject arrays that do not belong together."""
        if len(self.x) != len(self.y):
            raise DataError(f"{len(self.x)} inputs but {len(self.y)} targets")

    def __len__(self) -> int:
        return len(self.y)

    @property
    def form(self) -> str:
        """What one of them looks like, in words."""
        return f"{self.x.dtype} inputs {self.x.shape[1:]} with {self.y.dtype} targets {self.y.shape[1:]}"

    def standardised(self, rows: slice | NDArray[np.integer] = slice(None)) -> NDArray[np.float32]:
        """Inputs of some rows as ``(x - shift) / scale``, in float32, contiguous."""
        x = self.x[rows]
        if not self.shift.any() and (self.scale == 1).all():
            return np.ascontiguousarray(x, dtype=np.float32)
        shifted = np.subtract(x, self.shift, dtype=np.float32)
        shifted /= self.scale
        return np.ascontiguousarray(shifted)

    def targets(self, rows: slice | NDArray[np.integer] = slice(None)) -> NDArray[np.generic]:
        """Targets of some rows, contiguous."""
        return np.ascontiguousarray(self.y[rows])


@dataclass(frozen=True)
class ClientData:
    """Who holds what: a pool, and each client's rows of it (shared, never copied)."""

    pool: Samples
    offsets: NDArray[np.int64]
    """Client k holds positions ``offsets[k]:offsets[k+1]`` of ``rows`` (or of the pool itself)."""
    rows: NDArray[np.integer] | None = None
    """Rows of the pool, client after client; ``None`` when the pool is already in client order."""
    kind: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    """Index into ``kinds`` for every client."""
    kinds: tuple[str, ...] = ("normal",)
    """What can be wrong with a client's data, best quality first."""

    def __post_init__(self) -> None:
        """Give every client the first kind unless told otherwise."""
        if not len(self.kind):
            object.__setattr__(self, "kind", np.zeros(len(self), np.uint8))
        if len(self.kind) != len(self):
            raise DataError(f"{len(self)} clients but {len(self.kind)} kinds of data")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Samples held by each client."""
        return np.diff(self.offsets)

    def kind_of(self, client: int) -> str:
        """Name what one client's data suffer from."""
        return self.kinds[int(self.kind[client])]

    def rows_of(self, client: int) -> slice | NDArray[np.integer]:
        """Rows of the pool that one client holds."""
        start, stop = int(self.offsets[client]), int(self.offsets[client + 1])
        return slice(start, stop) if self.rows is None else self.rows[start:stop]

    def samples(self, client: int) -> tuple[NDArray[np.float32], NDArray[np.generic]]:
        """Inputs (standardised) and targets of one client."""
        rows = self.rows_of(client)
        return self.pool.standardised(rows), self.pool.targets(rows)
