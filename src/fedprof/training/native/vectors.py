"""Vectors of floats inside Numba kernels: loads and stores at (address, offset), arithmetic, and single numbers.

Kernels work in one block of memory (an arena) known by its address; offsets and steps count elements of four bytes
(floats) or eight (whole numbers, doubles). Numba has no vector type and plain loops do not reach the hardware's speed
on short dense products, so this module adds one, ``VectorType(lanes)``, as wide as the ``Width`` a kernel was given.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import models, overload, register_model

from fedprof.training.native.machine import WidthType, fused_multiply_add, intrinsic

FLOAT, DOUBLE, LONG, INT, BYTE = ir.FloatType(), ir.DoubleType(), ir.IntType(64), ir.IntType(32), ir.IntType(8)


class VectorType(types.Type):
    """``lanes`` floats in one register."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        super().__init__(name=f"Vector({lanes})")


class MaskType(types.Type):
    """``lanes`` truth values."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        super().__init__(name=f"Mask({lanes})")


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: VectorType) -> None:
        super().__init__(manager, kind, ir.VectorType(FLOAT, kind.lanes))


@register_model(MaskType)
class _MaskModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: MaskType) -> None:
        super().__init__(manager, kind, ir.VectorType(ir.IntType(1), kind.lanes))


def pointer(builder: Any, address: Any, offset: Any, element: Any, size: int = 4) -> Any:
    """Pointer to an ``element`` at ``address + size * offset`` bytes."""
    return builder.inttoptr(builder.add(address, builder.mul(offset, LONG(size))), element.as_pointer())


def splat_value(builder: Any, value: Any, lanes: int) -> Any:
    """A vector with ``value`` in every lane."""
    kind = ir.VectorType(value.type, lanes)
    single = builder.insert_element(ir.Constant(kind, ir.Undefined), value, INT(0))
    return builder.shuffle_vector(single, ir.Constant(kind, ir.Undefined), ir.Constant(ir.VectorType(INT, lanes), None))


def fma_value(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """``a * b + c``, fused where the machine can."""
    return call(builder, "fma", a, b, c) if fused_multiply_add() else builder.fadd(builder.fmul(a, b), c)


def constant(lanes: int, value: float) -> ir.Constant:
    """A vector constant."""
    return ir.Constant(ir.VectorType(FLOAT, lanes), [value] * lanes)


def call(builder: Any, name: str, *args: Any) -> Any:
    """Call an LLVM intrinsic on vectors of floats."""
    kind = args[0].type
    function = ir.FunctionType(kind, [kind] * len(args))
    name = f"llvm.{name}.v{kind.count}f32"
    known = builder.module.globals.get(name)
    return builder.call(known or ir.Function(builder.module, function, name), args)


def across_value(builder: Any, value: Any) -> Any:
    """Sum of a vector's lanes, by halves."""
    lanes = value.type.count
    while lanes > 1:
        lanes //= 2
        halves = [
            builder.shuffle_vector(value, value, ir.Constant(ir.VectorType(INT, lanes), list(range(at, at + lanes))))
            for at in (0, lanes)
        ]
        value = builder.fadd(*halves)
    return builder.extract_element(value, INT(0))


# -- loads and stores --------------------------------------------------------------------------------------------------


@intrinsic
def load(_context, width: WidthType, arena, offset):
    """The vector at ``arena + offset``."""

    def generate(_context, builder, _signature, args):
        kind = ir.VectorType(FLOAT, width.lanes)
        return builder.load(pointer(builder, args[1], args[2], kind), align=4)

    return VectorType(width.lanes)(width, types.int64, types.int64), generate


@intrinsic
def store(_context, arena, offset, value: VectorType):
    """Write a vector at ``arena + offset``."""

    def generate(context, builder, _signature, args):
        builder.store(args[2], pointer(builder, args[0], args[1], args[2].type), align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, value), generate


@intrinsic
def load_bytes(_context, width: WidthType, address, offset):
    """A vector from as many bytes."""

    def generate(_context, builder, _signature, args):
        kind = ir.VectorType(BYTE, width.lanes)
        value = builder.load(pointer(builder, args[1], args[2], kind, 1), align=1)
        return builder.uitofp(value, ir.VectorType(FLOAT, width.lanes))

    return VectorType(width.lanes)(width, types.int64, types.int64), generate


@intrinsic
def store_bytes(_context, address, offset, value: VectorType):
    """Write a vector of whole numbers below 256 as bytes."""

    def generate(context, builder, _signature, args):
        kind = ir.VectorType(BYTE, value.lanes)
        small = builder.trunc(builder.fptosi(args[2], ir.VectorType(INT, value.lanes)), kind)
        builder.store(small, pointer(builder, args[0], args[1], kind, 1), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, value), generate


@intrinsic
def splat(_context, width: WidthType, value):
    """A vector with one number in every lane."""

    def generate(_context, builder, _signature, args):
        return splat_value(builder, args[1], width.lanes)

    return VectorType(width.lanes)(width, types.float32), generate


def _reader(kind: types.Type, element: Any, size: int) -> Callable[..., Any]:
    @intrinsic
    def read(_context, address, offset):
        def generate(_context, builder, _signature, args):
            return builder.load(pointer(builder, args[0], args[1], element, size))

        return kind(types.int64, types.int64), generate

    return read  # type: ignore[no-any-return]


def _writer(kind: types.Type, element: Any, size: int) -> Callable[..., Any]:
    @intrinsic
    def write(_context, address, offset, value):
        def generate(context, builder, _signature, args):
            builder.store(args[2], pointer(builder, args[0], args[1], element, size))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, kind), generate

    return write  # type: ignore[no-any-return]


get = _reader(types.float32, FLOAT, 4)
get_byte = _reader(types.uint8, BYTE, 1)
get_long = _reader(types.int64, LONG, 8)
get_double = _reader(types.float64, DOUBLE, 8)
put = _writer(types.float32, FLOAT, 4)
put_long = _writer(types.int64, LONG, 8)
put_double = _writer(types.float64, DOUBLE, 8)


@intrinsic
def lanes_of(_context, width: WidthType):
    """Number of lanes, a constant in the compiled code."""

    def generate(_context, _builder, _signature, _args):
        return LONG(width.lanes)

    return types.int64(width), generate


@intrinsic
def whole(_context, value):
    """An integer whose value is not part of its type: Numba compiles a function anew for every constant it is given."""

    def generate(context, builder, signature, args):
        return context.cast(builder, args[0], signature.args[0], types.int64)

    return types.int64(types.unliteral(value)), generate


@intrinsic
def as_pointer(_context, address):
    """An address as a pointer ``numba.carray`` accepts."""

    def generate(_context, builder, _signature, args):
        return builder.inttoptr(args[0], BYTE.as_pointer())

    return types.voidptr(types.int64), generate


def transpose_values(builder: Any, rows: list[Any]) -> list[Any]:
    """Columns of a square of as many vectors as they have lanes."""
    lanes, distance = len(rows), 1
    while distance < lanes:
        low = [lane if not lane & distance else lanes + lane - distance for lane in range(lanes)]
        high = [lane + distance if not lane & distance else lanes + lane for lane in range(lanes)]
        for at in range(lanes):
            if not at & distance:
                pair = rows[at], rows[at | distance]
                for place, order in ((at, low), (at | distance, high)):
                    rows[place] = builder.shuffle_vector(*pair, ir.Constant(ir.VectorType(INT, lanes), order))
        distance *= 2
    return rows


@intrinsic
def transpose(_context, width: WidthType, arena, source, source_step, target, target_step):
    """Transpose a square block of the arena: as many rows as there are lanes."""
    lanes = width.lanes

    def generate(context, builder, _signature, args):
        _, arena, source, source_step, target, target_step = args
        kind = ir.VectorType(FLOAT, lanes)

        def place(start: Any, step: Any, row: int) -> Any:
            return pointer(builder, arena, builder.add(start, builder.mul(step, LONG(row))), kind)

        rows = [builder.load(place(source, source_step, row), align=4) for row in range(lanes)]
        for row, value in enumerate(transpose_values(builder, rows)):
            builder.store(value, place(target, target_step, row), align=4)
        return context.get_dummy_value()

    return types.void(width, *[types.int64] * 5), generate


# -- arithmetic --------------------------------------------------------------------------------------------------------


def _binary(emit: Callable[[Any, Any, Any], Any], symbol: Callable[..., Any], mask: bool = False) -> None:
    @intrinsic
    def apply(_context, a: VectorType, b: VectorType):
        def generate(_context, builder, _signature, args):
            return emit(builder, args[0], args[1])

        return (MaskType if mask else VectorType)(a.lanes)(a, b), generate

    @overload(symbol)
    def choose(a, b):
        if isinstance(a, VectorType) and isinstance(b, VectorType):
            return lambda a, b: apply(a, b)  # noqa: PLW0108 - Numba wants the names
        return None


_binary(lambda builder, a, b: builder.fadd(a, b), operator.add)
_binary(lambda builder, a, b: builder.fsub(a, b), operator.sub)
_binary(lambda builder, a, b: builder.fmul(a, b), operator.mul)
_binary(lambda builder, a, b: builder.fdiv(a, b), operator.truediv)
_binary(lambda builder, a, b: builder.fcmp_ordered(">", a, b), operator.gt, mask=True)
_binary(lambda builder, a, b: builder.fcmp_ordered("==", a, b), operator.eq, mask=True)


@intrinsic
def fma(_context, a: VectorType, b: VectorType, c: VectorType):
    """``a * b + c``."""

    def generate(_context, builder, _signature, args):
        return fma_value(builder, *args)

    return a(a, b, c), generate


@intrinsic
def across(_context, value: VectorType):
    """Sum of the lanes."""

    def generate(_context, builder, _signature, args):
        return across_value(builder, args[0])

    return types.float32(value), generate


@intrinsic
def pick(_context, mask: MaskType, yes: VectorType, no: VectorType):
    """Lane by lane ``yes`` where the mask is true, else ``no``."""

    def generate(_context, builder, _signature, args):
        return builder.select(*args)

    return yes(mask, yes, no), generate


@intrinsic
def _exponential(_context, x: VectorType):
    lanes = x.lanes

    def generate(_context, builder, _signature, args):
        (value,) = args
        turns = call(builder, "rint", builder.fmul(value, constant(lanes, 1.44269504088896341)))
        rest = fma_value(builder, turns, constant(lanes, -0.693359375), value)
        rest = fma_value(builder, turns, constant(lanes, 2.12194440e-4), rest)
        total = constant(lanes, 1.9875691500e-4)  # Cephes' polynomial: 2 ulp over the whole range
        for term in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
            total = fma_value(builder, total, rest, constant(lanes, term))
        total = fma_value(builder, builder.fmul(rest, rest), total, builder.fadd(rest, constant(lanes, 1.0)))
        whole = ir.VectorType(INT, lanes)
        exponent = builder.add(builder.fptosi(turns, whole), ir.Constant(whole, [127] * lanes))
        power = builder.bitcast(builder.shl(exponent, ir.Constant(whole, [23] * lanes)), value.type)
        return builder.fmul(total, power)

    return x(x), generate


@njit
def exponential(width, x):
    """``exp(x)``, clamped to what a normal float holds; NaN stays NaN."""
    low, high = splat(width, -87.0), splat(width, 88.0)
    return _exponential(pick(low > x, low, pick(x > high, high, x)))
