"""One arena and one job record a worker, and the calls of the compiled kernels."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedprof.core.profile import Moments
from fedprof.training.engine import Recipe, Vector
from fedprof.training.native import records
from fedprof.training.native.layout import Layout, Packing
from fedprof.training.native.machine import Width, widest
from fedprof.training.native.plan import Network
from fedprof.training.native.source import Source

_compiling = Lock()


class _Seat:
    """What one worker needs for itself."""

    def __init__(self, layout: Layout, constants: dict[str, int]) -> None:
        self.arena = layout.arena()
        q = layout.network.layers[layout.network.profiled].shape[0]
        self.moments = np.zeros(q * (3 + layout.width))
        self.sources = np.zeros(layout.width, np.int64)
        self.job = np.zeros((), records.JOB)
        self.address = self.job.ctypes.data
        addresses = {name: getattr(self, name).ctypes.data for name in ("arena", "moments", "sources")}
        self.set(constants | addresses)

    def set(self, fields: dict[str, Any]) -> None:
        for name, value in fields.items():
            self.job[name] = value


class Workbench:
    """Everything needed to run a network on so many samples side by side, for every worker."""

    def __init__(
        self, network: Network, packing: Packing, lanes: int, width: int, workers: int,
        on_compile: Callable[[str], None] | None,
    ) -> None:  # fmt: skip
        self._layout = Layout(network, packing, lanes, width)
        self._width, self._wide = Width(lanes), Width(widest())
        constants = self._constants()
        self._seats = [_Seat(self._layout, constants) for _ in range(workers)]
        self._on_compile = on_compile
        self._compiled: set[Any] = set()

    def begin_training(self, packed: Vector, source: Source, recipe: Recipe) -> None:
        """Tell every worker what its next clients have in common."""
        from fedprof.training.native.kernels import train

        self._kernel = self._ready(train, self._width, self._wide)
        common = source.fields() | {
            "epochs": recipe.epochs, "batch": recipe.batch, "received": packed.ctypes.data, "profiled": -1,
            "step_count": len(self._layout.network.layers),
            "rate": recipe.rate, "momentum": recipe.momentum, "decay": recipe.weight_decay, "proximal": recipe.proximal,
        }  # fmt: skip
        for seat in self._seats:
            seat.set(common)

    def train(self, worker: int, order: NDArray[np.int64], samples: int) -> tuple[Vector, float]:
        """Train on the rows in ``order``; the packed weights returned are valid until the worker's next task."""
        seat = self._seats[worker]
        seat.set({"order": order.ctypes.data, "samples": samples})
        self._kernel(self._width, self._wide, seat.address)
        return seat.arena[: self._layout.packing.size], float(seat.job["loss"])

    def begin_looking(self, packed: Vector, source: Source, *, profile: bool, outputs: bool) -> None:
        """Tell every worker what its next samples have in common; without outputs, layers behind the profiled rest."""
        from fedprof.training.native.kernels import look

        self._kernel = self._ready(look, self._width)
        network = self._layout.network
        common = source.fields() | {
            "step_count": len(network.layers) if outputs else network.profiled + 1,
            "profiled": network.profiled if profile else -1, "result": 0, "result_row": network.outputs,
        }  # fmt: skip
        for seat in self._seats:
            seat.set(common)
            seat.arena[: len(packed)] = packed

    def look(
        self, worker: int, rows: NDArray[np.int64], outputs: NDArray[np.float32] | None = None
    ) -> tuple[float, Moments]:
        """Run rows through the network: write ``outputs`` and sum the loss if given; the moments are of the profile."""
        seat = self._seats[worker]
        seat.set({"order": rows.ctypes.data, "samples": len(rows)})
        if outputs is not None:
            seat.set({"result": outputs.ctypes.data})
        self._kernel(self._width, seat.address)
        return float(seat.job["loss"]), self._moments(seat, len(rows))

    def gradient(self, worker: int) -> Vector:
        """The packed gradient a worker's last batch left behind."""
        size = self._layout.packing.size
        return self._seats[worker].arena[size : 2 * size]

    def _moments(self, seat: _Seat, count: int) -> Moments:
        q = self._layout.network.layers[self._layout.network.profiled].shape[0]
        moments = Moments(q)
        if seat.job["profiled"] >= 0 and count:
            shift, total, square = seat.moments[: 3 * q].reshape(3, q)
            moments.count = count
            moments.mean = shift + total / count
            moments.m2 = np.maximum(square - total**2 / count, 0)
        return moments

    def _constants(self) -> dict[str, int]:
        layout, network = self._layout, self._layout.network
        channels, rows, columns = network.source
        if layout.x.row == columns * layout.width:  # without borders a plane is one run
            rows, columns = 1, rows * columns
        if layout.x.plane == columns * layout.width and rows == 1:
            channels, columns = 1, channels * columns
        return {
            "steps": layout.steps.ctypes.data, "step_count": len(network.layers), "tables": layout.tables.ctypes.data,
            "width": layout.width, "scratch": layout.scratch, "zeros": layout.zeros,
            "parameters": layout.packing.size, "velocity": 2 * layout.packing.size,
            "x": layout.x.at, "x_plane": layout.x.plane, "x_row": layout.x.row,
            "channels": channels, "rows": rows, "columns": columns,
            "outputs": network.outputs, "loss_kind": network.loss, "log_softmax": network.log_softmax,
        }  # fmt: skip

    def _ready(self, kernel: Any, *widths: Width) -> Callable[..., None]:
        """Compile a kernel for these widths if it is not yet; one thread does, the others wait."""
        if kernel not in self._compiled:
            with _compiling:
                signature = _signature(*widths)
                if signature not in kernel.overloads:
                    if self._on_compile is not None:
                        self._on_compile("preparing the native kernels (compiled once a machine, some ten seconds)")
                    kernel.compile(signature)
            self._compiled.add(kernel)
        return kernel  # type: ignore[no-any-return]


def _signature(*widths: Width) -> tuple[Any, ...]:
    from numba import int64

    return (*(width.type for width in widths), int64)
