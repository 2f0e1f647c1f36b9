"""Convolutions: forward, weight gradient, input gradient, with the pooling behind them done strip by strip.

Only products with real pixels are computed, at borders too: every output pixel belongs to a class of rows and one of
columns, and a table lists the taps of each pair of classes (``gather.py`` builds it).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from fedprof.training.native.tile import correlate, product
from fedprof.training.native.vectors import across, get, get_long, lanes_of, load, put, splat, whole

NO_FLOOR = np.float32(-np.inf)


@njit(inline="always")
def _gather(
    width, arena, samples, tables, table, first, rows, out, out_plane, out_row, outputs, x, x_step, second,
    w, w_out, w_step, bias, bias_step, floor,
):  # fmt: skip
    """Compute some rows of a map that gathers from another.

    The table: number of spans; per row (class, offset in x); per span (pixel, pixels, class, offset in x); per pair of
    classes (address of taps, taps, n).
    """
    spans, all_rows, classes = (
        get_long(tables, table), get_long(tables, table + 1), get_long(tables, table + 2),
    )  # fmt: skip
    row_at = table + 3
    span_at = row_at + 2 * all_rows
    pair_at = span_at + 4 * spans
    for row in range(rows):
        row_class, row_x = (
            get_long(tables, row_at + 2 * (first + row)),
            get_long(tables, row_at + 2 * (first + row) + 1),
        )
        for span in range(spans):
            at = span_at + 4 * span
            pair = pair_at + 3 * (row_class * classes + get_long(tables, at + 2))
            product(
                width, arena, out + row * out_row + get_long(tables, at) * samples, out_plane, outputs,
                get_long(tables, at + 1) * samples, x + row_x + get_long(tables, at + 3), x_step, second,
                w, w_out, w_step, bias, bias_step, tables + 8 * get_long(tables, pair), get_long(tables, pair + 1),
                get_long(tables, pair + 2), whole(0), floor,
            )  # fmt: skip


@njit(inline="always")
def convolution_rows(width, job, step, first, rows, floor):
    """Convolve some rows into the strip."""
    _gather(
        width, job.arena, job.width, job.tables, step.forward_table, first, rows, step.s, step.s_plane, step.s_row,
        step.outputs, step.x, step.forward_x_step, step.forward_second, step.w, whole(1), step.forward_w_step,
        step.bias, whole(1), floor,
    )  # fmt: skip


@njit(inline="always")
def convolution_input_gradient(width, job, step):
    """Gradient of the input from the gradient of the whole map."""
    _gather(
        width, job.arena, job.width, job.tables, step.backward_table, whole(0), step.in_rows,
        step.dx, step.dx_plane, step.dx_row, step.inputs, step.d, step.backward_x_step, step.backward_second, step.w,
        step.kernel_rows * step.kernel_columns * step.w_row, step.backward_w_step, job.zeros, whole(0), NO_FLOOR,
    )  # fmt: skip


@njit(inline="always")
def convolution_weight_gradient(width, job, step, first, rows, d):
    """Add to the gradients of weights and biases what some rows of the map, whose gradient is at ``d``, contribute."""
    lanes, samples = lanes_of(width), job.width
    pixels, vectors = 1, step.map_columns * samples // lanes
    if step.stride_columns > 1:
        pixels, vectors = step.map_columns, samples // lanes
    correlate(
        width, job.arena, step.dw, step.w_row, step.outputs, d, step.d_plane, step.d_row, samples,
        step.x + first * step.stride_rows * step.x_row, step.stride_rows * step.x_row, step.stride_columns * samples,
        job.tables + 8 * step.taps, step.inputs * step.kernel_rows * step.kernel_columns, rows, pixels, vectors,
    )  # fmt: skip
    if step.has_bias:
        for channel in range(step.outputs):
            add_sum(width, job.arena, step.dbias + channel, d + channel * step.d_plane, step.d_row, rows,
                    step.map_columns * samples)  # fmt: skip


@njit
def add_sum(width, arena, place, x, row_step, rows, length):
    """Add to one number the sum of some rows."""
    lanes = lanes_of(width)
    total = splat(width, np.float32(0.0))
    for row in range(rows):
        for lane in range(0, length, lanes):
            total = total + load(width, arena, x + row * row_step + lane)
    put(arena, place, get(arena, place) + across(total))
