"""Register tiles: the two inner loops in which nearly all of a training's time goes, emitted as LLVM vector code.

``product`` serves a convolution's forward pass and input gradient and all three products of a dense layer. Its tile
keeps up to 6 outputs x 2 vectors (12 x 1 for a narrow batch) in registers over the whole reduction: twelve sums in
flight hide the latency of a fused multiply-add, two vectors a broadcast keep the load ports under their limit, and it all
fits the 16 registers of AVX2. ``correlate`` serves a convolution's weight gradient, whose reduction runs over the image.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from fedprof.training.native.machine import WidthType, registers
from fedprof.training.native.vectors import FLOAT, LONG, across_value, fma_value, lanes_of, pointer, splat_value

OUTPUTS = 6
"""Outputs in a tile of two vectors; twice as many in a tile of one."""
TAPS = 5
"""Weights a channel in a tile of the weight gradient."""


def _channels() -> int:
    return 4 if registers() == 32 else 2


def _switch(builder: Any, key: Any, cases: dict[int, Any]) -> None:
    """Emit ``cases[key](builder)``; a key outside is a defect and does nothing."""
    end = builder.append_basic_block("end")
    jump = builder.switch(key, end)
    for value, emit in cases.items():
        block = builder.append_basic_block(f"case{value}")
        jump.add_case(LONG(value), block)
        builder.position_at_end(block)
        emit(builder)
        builder.branch(end)
    builder.position_at_end(end)


class _Sums:
    """Sums of a tile, rows x columns of vectors; LLVM keeps them in registers."""

    def __init__(self, builder: Any, rows: int, columns: int, lanes: int) -> None:
        self.builder, self.kind = builder, ir.VectorType(FLOAT, lanes)
        self.places = [[cgutils.alloca_once(builder, self.kind) for _ in range(columns)] for _ in range(rows)]

    def set(self, row: int, column: int, value: Any) -> None:
        self.builder.store(value, self.places[row][column])

    def get(self, row: int, column: int) -> Any:
        return self.builder.load(self.places[row][column])

    def add(self, row: int, column: int, a: Any, b: Any) -> None:
        self.set(row, column, fma_value(self.builder, a, b, self.get(row, column)))


# -- outputs x vectors --------------------------------------------------------------------------------------------------

_TILE_ARGS = (
    "arena", "out", "out_step", "x", "second", "w", "w_out", "bias", "bias_step",
    "taps", "tap_count", "n", "x_step", "w_step", "add", "floor",
)  # fmt: skip


def _emit_tile(builder: Any, a: dict[str, Any], lanes: int, rows: int, columns: int) -> None:
    arena, kind = a["arena"], ir.VectorType(FLOAT, lanes)
    sums = _Sums(builder, rows, columns, lanes)
    for row in range(rows):
        at = builder.add(a["bias"], builder.mul(a["bias_step"], LONG(row)))
        first = splat_value(builder, builder.load(pointer(builder, arena, at, FLOAT)), lanes)
        for column in range(columns):
            sums.set(row, column, first)
    with cgutils.for_range(builder, a["tap_count"]) as tap:
        entry = builder.mul(tap.index, LONG(2))
        x = builder.add(a["x"], builder.load(pointer(builder, a["taps"], entry, LONG, 8)))
        w = builder.add(a["w"], builder.load(pointer(builder, a["taps"], builder.add(entry, LONG(1)), LONG, 8)))
        with cgutils.for_range(builder, a["n"]) as step:
            here = builder.add(x, builder.mul(step.index, a["x_step"]))
            weights = builder.add(w, builder.mul(step.index, a["w_step"]))
            places = (here, builder.add(here, a["second"]))[:columns]
            inputs = [builder.load(pointer(builder, arena, place, kind), align=4) for place in places]
            for row in range(rows):
                at = builder.add(weights, builder.mul(a["w_out"], LONG(row)))
                weight = splat_value(builder, builder.load(pointer(builder, arena, at, FLOAT)), lanes)
                for column in range(columns):
                    sums.add(row, column, weight, inputs[column])
    _store_tile(builder, a, sums, rows, columns)


def _store_tile(builder: Any, a: dict[str, Any], sums: _Sums, rows: int, columns: int) -> None:
    lanes = sums.kind.count
    places = [
        [
            pointer(
                builder, a["arena"],
                builder.add(builder.add(a["out"], builder.mul(a["out_step"], LONG(row))), LONG(column * lanes)), sums.kind,
            )
            for column in range(columns)
        ]
        for row in range(rows)
    ]  # fmt: skip
    with builder.if_then(builder.icmp_signed("!=", a["add"], LONG(0))):
        for row in range(rows):
            for column in range(columns):
                old = builder.load(places[row][column], align=4)
                sums.set(row, column, builder.fadd(sums.get(row, column), old))
    floor = splat_value(builder, a["floor"], lanes)
    for row in range(rows):
        for column in range(columns):
            value = sums.get(row, column)
            value = builder.select(builder.fcmp_ordered("<", value, floor), floor, value)  # NaN stays NaN
            builder.store(value, places[row][column], align=4)


@intrinsic
def _tile(_context, width: WidthType, rows, columns, arguments):  # type: ignore[no-untyped-def]
    lanes = width.lanes

    def generate(_context, builder, _signature, args):  # type: ignore[no-untyped-def]
        values = dict(zip(_TILE_ARGS, cgutils.unpack_tuple(builder, args[3]), strict=True))

        def case(rows: int, columns: int) -> Any:
            return lambda builder: _emit_tile(builder, values, lanes, rows, columns)

        cases = {2 * rows + 1: case(rows, 2) for rows in range(1, OUTPUTS + 1)}
        cases |= {2 * rows: case(rows, 1) for rows in range(1, 2 * OUTPUTS + 1)}
        key = builder.add(builder.mul(args[1], LONG(2)), builder.sub(args[2], LONG(1)))
        _switch(builder, key, cases)
        return _context.get_dummy_value()

    kinds = types.Tuple([types.int64] * (len(_TILE_ARGS) - 1) + [types.float32])
    return types.void(width, types.int64, types.int64, kinds), generate


@njit
def product(
    width, arena, out, out_step, outputs, lanes, x, x_step, second, w, w_out, w_step, bias, bias_step, taps, tap_count, n,
    add, floor,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """``out[o, v] = max(floor, bias[o] + sum over taps and n of w[o] * x[v])`` (plus the old ``out`` if ``add``).

    ``lanes`` floats of every output are computed, a multiple of the vector width; ``second`` is the distance from one
    vector of x to the next. ``taps`` is the address of ``tap_count`` pairs of offsets into x and w.
    """
    vector = lanes_of(width)
    lane = 0
    while lane < lanes:
        columns = 2 if lane + 2 * vector <= lanes else 1
        most = OUTPUTS * 2 // columns
        blocks = (outputs + most - 1) // most
        first = 0
        while blocks > 0:
            rows = (outputs - first + blocks - 1) // blocks
            _tile(
                width, rows, columns,
                (arena, out + first * out_step + lane, out_step, x + lane // vector * second, second, w + first * w_out,
                 w_out, bias + first * bias_step, bias_step, taps, tap_count, n, x_step, w_step, add, floor),
            )  # fmt: skip
            first += rows
            blocks -= 1
        lane += columns * vector


# -- channels x taps, summed over an image ------------------------------------------------------------------------------

_CORRELATE_ARGS = (
    "arena", "grad", "grad_step", "dy", "dy_plane", "dy_row", "dy_pixel", "x", "x_row", "x_pixel",
    "taps", "rows", "pixels", "vectors",
)  # fmt: skip


def _emit_correlate(builder: Any, a: dict[str, Any], lanes: int, channels: int, taps: int) -> None:
    arena, kind = a["arena"], ir.VectorType(FLOAT, lanes)
    sums = _Sums(builder, channels, taps, lanes)
    zero = ir.Constant(kind, [0.0] * lanes)
    for channel in range(channels):
        for tap in range(taps):
            sums.set(channel, tap, zero)
    offsets = [builder.load(pointer(builder, a["taps"], LONG(tap), LONG, 8)) for tap in range(taps)]
    with cgutils.for_range(builder, a["rows"]) as row, cgutils.for_range(builder, a["pixels"]) as pixel:
        dy = builder.add(a["dy"], builder.add(builder.mul(row.index, a["dy_row"]), builder.mul(pixel.index, a["dy_pixel"])))
        x = builder.add(a["x"], builder.add(builder.mul(row.index, a["x_row"]), builder.mul(pixel.index, a["x_pixel"])))
        with cgutils.for_range(builder, a["vectors"]) as vector:
            lane = builder.mul(vector.index, LONG(lanes))
            gradients = []
            for channel in range(channels):
                at = builder.add(builder.add(dy, lane), builder.mul(a["dy_plane"], LONG(channel)))
                gradients.append(builder.load(pointer(builder, arena, at, kind), align=4))
            for tap in range(taps):
                at = builder.add(builder.add(x, lane), offsets[tap])
                value = builder.load(pointer(builder, arena, at, kind), align=4)
                for channel in range(channels):
                    sums.add(channel, tap, gradients[channel], value)
    for tap in range(taps):
        for channel in range(channels):
            at = builder.add(builder.add(a["grad"], builder.mul(a["grad_step"], LONG(tap))), LONG(channel))
            place = pointer(builder, arena, at, FLOAT)
            builder.store(builder.fadd(builder.load(place), across_value(builder, sums.get(channel, tap))), place)


@intrinsic
def _correlate_tile(_context, width: WidthType, channels, taps, arguments):  # type: ignore[no-untyped-def]
    lanes = width.lanes

    def generate(_context, builder, _signature, args):  # type: ignore[no-untyped-def]
        values = dict(zip(_CORRELATE_ARGS, cgutils.unpack_tuple(builder, args[3]), strict=True))

        def case(channels: int, taps: int) -> Any:
            return lambda builder: _emit_correlate(builder, values, lanes, channels, taps)

        cases = {8 * m + n: case(m, n) for m in range(1, _channels() + 1) for n in range(1, TAPS + 1)}
        _switch(builder, builder.add(builder.mul(args[1], LONG(8)), args[2]), cases)
        return _context.get_dummy_value()

    kinds = types.UniTuple(types.int64, len(_CORRELATE_ARGS))
    return types.void(width, types.int64, types.int64, kinds), generate


@intrinsic
def _most_channels(_context, width: WidthType):  # type: ignore[no-untyped-def]
    def generate(_context, _builder, _signature, _args):  # type: ignore[no-untyped-def]
        return LONG(_channels())

    return types.int64(width), generate


@njit
def correlate(
    width, arena, grad, grad_step, channels, dy, dy_plane, dy_row, dy_pixel, x, x_row, x_pixel, taps, tap_count,
    rows, pixels, vectors,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Add to ``grad[tap, channel]`` the sum over rows, pixels and vectors of ``dy[channel] * x[tap]``.

    ``taps`` is the address of ``tap_count`` offsets into x. Weight gradients lie tap by tap, channels side by side.
    """
    most = _most_channels(width)
    tap, tap_blocks = 0, (tap_count + TAPS - 1) // TAPS
    while tap_blocks > 0:
        wide = (tap_count - tap + tap_blocks - 1) // tap_blocks
        channel, blocks = 0, (channels + most - 1) // most
        while blocks > 0:
            high = (channels - channel + blocks - 1) // blocks
            _correlate_tile(
                width, high, wide,
                (arena, grad + tap * grad_step + channel, grad_step, dy + channel * dy_plane, dy_plane, dy_row, dy_pixel, x,
                 x_row, x_pixel, taps + 8 * tap, rows, pixels, vectors),
            )  # fmt: skip
            channel += high
            blocks -= 1
        tap += wide
        tap_blocks -= 1
