"""Loading samples into the first buffer: batch innermost, standardised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types

from fedprof.training.native.machine import WidthType, intrinsic
from fedprof.training.native.records import BYTES
from fedprof.training.native.vectors import (
    BYTE,
    FLOAT,
    LONG,
    get,
    get_byte,
    get_long,
    lanes_of,
    pointer,
    put,
    put_long,
    splat_value,
    transpose_values,
)


@njit
def load_batch(width, job, start, count):
    """Load ``count`` samples, in the job's order from ``start``; spare lanes repeat the last one."""
    lanes = lanes_of(width)
    for sample in range(job.width):
        put_long(job.sources, sample, get_long(job.order, start + min(sample, count - 1)) * job.features)
    for channel in range(job.channels):
        for row in range(job.rows):
            target = job.x + channel * job.x_plane + row * job.x_row
            feature = (channel * job.rows + row) * job.columns
            if job.columns < lanes:
                _load_singly(job, target, feature)
            else:
                for sample in range(0, job.width, lanes):
                    _load_blocks(width, job, target, feature, sample)


@njit
def _load_blocks(width, job, target, feature, sample):
    """Load a run of features of as many samples as there are lanes, in squares; the last may overlap its neighbour."""
    lanes = lanes_of(width)
    for first in range(0, job.columns, lanes):
        column = min(first, job.columns - lanes)
        place = job.arena + 4 * (target + column * job.width + sample)
        shift, factor = job.shift + 4 * (feature + column), job.factor + 4 * (feature + column)
        if job.pool_kind == BYTES:
            _byte_block(width, job.pool + feature + column, job.sources + 8 * sample, shift, factor, place, job.width)
        else:
            _float_block(
                width, job.pool + 4 * (feature + column), job.sources + 8 * sample, shift, factor, place, job.width
            )


@njit
def _load_singly(job, target, feature):
    for column in range(job.columns):
        shift, factor = get(job.shift, feature + column), get(job.factor, feature + column)
        for sample in range(job.width):
            source = get_long(job.sources, sample) + feature + column
            value = np.float32(get_byte(job.pool, source)) if job.pool_kind == BYTES else get(job.pool, source)
            put(job.arena, target + column * job.width + sample, (value - shift) * factor)


def _block(element: Any, size: int) -> Callable[..., Any]:
    @intrinsic
    def block(_context, width: WidthType, pool, sources, shift, factor, target, step):
        """Transpose and standardise a square: lanes of samples, each starting ``sources[i]`` elements into the pool."""
        lanes = width.lanes

        def generate(context, builder, _signature, args):
            _, pool, sources, shift, factor, target, step = args
            kind, loaded = ir.VectorType(FLOAT, lanes), ir.VectorType(element, lanes)
            rows = []
            for sample in range(lanes):
                source = builder.load(pointer(builder, sources, LONG(sample), LONG, 8))
                row = builder.load(pointer(builder, pool, source, loaded, size), align=size)
                rows.append(row if element == FLOAT else builder.uitofp(row, kind))
            for column, value in enumerate(transpose_values(builder, rows)):
                numbers = [builder.load(pointer(builder, place, LONG(column), FLOAT)) for place in (shift, factor)]
                less, times = (splat_value(builder, number, lanes) for number in numbers)
                place = pointer(builder, target, builder.mul(step, LONG(column)), kind)
                builder.store(builder.fmul(builder.fsub(value, less), times), place, align=4)
            return context.get_dummy_value()

        return types.void(width, *[types.int64] * 6), generate

    return block  # type: ignore[no-any-return]


_byte_block = _block(BYTE, 1)
_float_block = _block(FLOAT, 4)
