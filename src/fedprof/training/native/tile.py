"""Register tiles: the two inner loops in which nearly all of a training's time goes, emitted as LLVM vector code.

``product`` serves a convolution's forward pass and input gradient and all three products of a dense layer. Its tile
keeps up to 6 outputs x 2 vectors (12 x 1 for a narrow batch) in registers over the whole reduction: twelve sums in
flight hide the latency of a fused multiply-add, two vectors a broadcast keep the load ports under their limit, and it
all fits the 16 registers of AVX2. ``correlate`` serves a convolution's weight gradient, whose reduction runs over the
image.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils

from fedprof.training.native.machine import WidthType, intrinsic, registers
from fedprof.training.native.vectors import FLOAT, LONG, across_value, fma_value, lanes_of, splat_value

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


@contextmanager
def _repeat(builder: Any, count: Any, *moving: tuple[Any, Any]) -> Iterator[list[Any]]:
    """Emit a loop over ``count`` (perhaps none) in which addresses move: pairs of the first and a step in bytes.

    LLVM may not see how they move. Left to itself it unrolls the loop and gives every access an induction variable of
    its own, more than there are registers; this way an access is one addressing mode.
    """
    before, body, end = builder.block, builder.append_basic_block("body"), builder.append_basic_block("end")
    builder.cbranch(builder.icmp_signed(">", count, LONG(0)), body, end)
    builder.position_at_end(body)
    variables = [builder.phi(LONG) for _ in range(len(moving) + 1)]
    steps = [LONG(-1), *(step for _, step in moving)]
    for variable, first in zip(variables, [count, *(first for first, _ in moving)], strict=True):
        variable.add_incoming(first, before)
    yield variables[1:]
    following = [_opaque(builder, builder.add(v, step)) for v, step in zip(variables, steps, strict=True)]
    for variable, value in zip(variables, following, strict=True):
        variable.add_incoming(value, builder.block)
    builder.cbranch(builder.icmp_signed("!=", following[0], LONG(0)), body, end)
    builder.position_at_end(end)


def _opaque(builder: Any, value: Any) -> Any:
    return builder.asm(ir.FunctionType(LONG, [LONG]), "", "=r,0", [value], False)


def _read(builder: Any, address: Any, kind: Any) -> Any:
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=8 if kind == LONG else 4)


def _write(builder: Any, value: Any, address: Any) -> None:
    builder.store(value, builder.inttoptr(address, value.type.as_pointer()), align=4)


def _bytes(builder: Any, floats: Any) -> Any:
    return builder.shl(floats, LONG(2))


def _multiples(builder: Any, step: Any, count: int) -> list[Any]:
    return [builder.mul(step, LONG(number)) for number in range(count)]


def _named(builder: Any, names: Sequence[str], arguments: Any) -> dict[str, Any]:
    """Arguments by name; offsets and steps in floats become addresses and steps in bytes."""
    values = dict(zip(names, cgutils.unpack_tuple(builder, arguments), strict=True))
    for name in values.keys() - _NOT_FLOATS:
        values[name] = _bytes(builder, values[name])
    for name in values.keys() & _OFFSETS:
        values[name] = builder.add(values[name], values["arena"])
    return values


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


# -- outputs x vectors -------------------------------------------------------------------------------------------------

_NOT_FLOATS = {"arena", "taps", "tap_count", "n", "add", "floor", "rows", "pixels", "vectors"}
_OFFSETS = {"out", "x", "w", "bias", "grad", "dy"}
_TILE_ARGS = (
    "arena", "out", "out_step", "x", "second", "w", "w_out", "bias", "bias_step",
    "taps", "tap_count", "n", "x_step", "w_step", "add", "floor",
)  # fmt: skip


def _emit_tile(builder: Any, a: dict[str, Any], lanes: int, rows: int, columns: int) -> None:
    sums = _Sums(builder, rows, columns, lanes)
    for row, offset in enumerate(_multiples(builder, a["bias_step"], rows)):
        first = splat_value(builder, _read(builder, builder.add(a["bias"], offset), FLOAT), lanes)
        for column in range(columns):
            sums.set(row, column, first)
    with _repeat(builder, a["tap_count"], (a["taps"], LONG(16))) as (tap,):
        x = builder.add(a["x"], _bytes(builder, _read(builder, tap, LONG)))
        w = builder.add(a["w"], _bytes(builder, _read(builder, builder.add(tap, LONG(8)), LONG)))
        _emit_reduction(builder, a, sums, x, w, rows, columns)
    _emit_end(builder, a, sums, rows, columns)


def _emit_reduction(builder: Any, a: dict[str, Any], sums: _Sums, x: Any, w: Any, rows: int, columns: int) -> None:
    offsets = _multiples(builder, a["w_out"], OUTPUTS)
    # A tile of one vector may have twice as many outputs: a second moving address serves the upper half.
    halves = [(builder.add(w, builder.mul(a["w_out"], LONG(row))), a["w_step"]) for row in range(0, rows, OUTPUTS)]
    with _repeat(builder, a["n"], (x, a["x_step"]), *halves) as (here, *weights):
        places = (here, builder.add(here, a["second"]))[:columns]
        inputs = [_read(builder, place, sums.kind) for place in places]
        for row in range(rows):
            address = builder.add(weights[row // OUTPUTS], offsets[row % OUTPUTS])
            weight = splat_value(builder, _read(builder, address, FLOAT), sums.kind.count)
            for column in range(columns):
                sums.add(row, column, weight, inputs[column])


def _emit_end(builder: Any, a: dict[str, Any], sums: _Sums, rows: int, columns: int) -> None:
    """Add what was there if asked to, put the floor under it, store."""
    lanes = sums.kind.count
    places = {
        (row, column): builder.add(builder.add(a["out"], offset), LONG(4 * lanes * column))
        for row, offset in enumerate(_multiples(builder, a["out_step"], rows))
        for column in range(columns)
    }
    with builder.if_then(builder.icmp_signed("!=", a["add"], LONG(0))):
        for place, address in places.items():
            sums.set(*place, builder.fadd(sums.get(*place), _read(builder, address, sums.kind)))
    floor = splat_value(builder, a["floor"], lanes)
    for place, address in places.items():
        value = sums.get(*place)
        value = builder.select(builder.fcmp_ordered("<", value, floor), floor, value)  # NaN stays NaN
        _write(builder, value, address)


@intrinsic
def _tile(_context, width: WidthType, rows, columns, arguments):
    lanes = width.lanes

    def generate(_context, builder, _signature, args):
        values = _named(builder, _TILE_ARGS, args[3])

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
    width, arena, out, out_step, outputs, lanes, x, x_step, second, w, w_out, w_step, bias, bias_step, taps, tap_count,
    n, add, floor,
):  # fmt: skip
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


# -- channels x taps, summed over an image -----------------------------------------------------------------------------

_CORRELATE_ARGS = (
    "arena", "grad", "grad_step", "dy", "dy_plane", "dy_row", "dy_pixel", "x", "x_row", "x_pixel",
    "taps", "rows", "pixels", "vectors",
)  # fmt: skip


def _emit_correlate(builder: Any, a: dict[str, Any], lanes: int, channels: int, taps: int) -> None:
    sums = _Sums(builder, channels, taps, lanes)
    zero = ir.Constant(sums.kind, [0.0] * lanes)
    for channel in range(channels):
        for tap in range(taps):
            sums.set(channel, tap, zero)
    planes = _multiples(builder, a["dy_plane"], channels)
    offsets = [_bytes(builder, _read(builder, builder.add(a["taps"], LONG(8 * tap)), LONG)) for tap in range(taps)]
    vector = LONG(4 * lanes)
    with (
        _repeat(builder, a["rows"], (a["dy"], a["dy_row"]), (a["x"], a["x_row"])) as (dy_row, x_row),
        _repeat(builder, a["pixels"], (dy_row, a["dy_pixel"]), (x_row, a["x_pixel"])) as (dy_pixel, x_pixel),
        _repeat(builder, a["vectors"], (dy_pixel, vector), (x_pixel, vector)) as (dy, x),
    ):
        gradients = [_read(builder, builder.add(dy, plane), sums.kind) for plane in planes]
        for tap in range(taps):
            value = _read(builder, builder.add(x, offsets[tap]), sums.kind)
            for channel in range(channels):
                sums.add(channel, tap, gradients[channel], value)
    for tap, offset in enumerate(_multiples(builder, a["grad_step"], taps)):
        for channel in range(channels):
            address = builder.add(builder.add(a["grad"], offset), LONG(4 * channel))
            total = across_value(builder, sums.get(channel, tap))
            _write(builder, builder.fadd(_read(builder, address, FLOAT), total), address)


@intrinsic
def _correlate_tile(_context, width: WidthType, channels, taps, arguments):
    lanes = width.lanes

    def generate(_context, builder, _signature, args):
        values = _named(builder, _CORRELATE_ARGS, args[3])

        def case(channels: int, taps: int) -> Any:
            return lambda builder: _emit_correlate(builder, values, lanes, channels, taps)

        cases = {8 * m + n: case(m, n) for m in range(1, _channels() + 1) for n in range(1, TAPS + 1)}
        _switch(builder, builder.add(builder.mul(args[1], LONG(8)), args[2]), cases)
        return _context.get_dummy_value()

    kinds = types.UniTuple(types.int64, len(_CORRELATE_ARGS))
    return types.void(width, types.int64, types.int64, kinds), generate


@intrinsic
def _most_channels(_context, width: WidthType):
    def generate(_context, _builder, _signature, _args):
        return LONG(_channels())

    return types.int64(width), generate


@njit
def correlate(
    width, arena, grad, grad_step, channels, dy, dy_plane, dy_row, dy_pixel, x, x_row, x_pixel, taps, tap_count,
    rows, pixels, vectors,
):  # fmt: skip
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
                (arena, grad + tap * grad_step + channel, grad_step, dy + channel * dy_plane, dy_plane, dy_row,
                 dy_pixel, x, x_row, x_pixel, taps + 8 * tap, rows, pixels, vectors),
            )  # fmt: skip
            channel += high
            blocks -= 1
        tap += wide
        tap_blocks -= 1
