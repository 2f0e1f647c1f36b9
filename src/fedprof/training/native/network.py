"""A whole network, forward and backward: the steps of a plan one after another."""

from __future__ import annotations

import numpy as np
from numba import njit

from fedprof.training.native.activation import activate, activation_gradient
from fedprof.training.native.convolution import (
    NO_FLOOR,
    convolution_input_gradient,
    convolution_rows,
    convolution_weight_gradient,
)
from fedprof.training.native.dense import dense_forward, dense_input_gradient, dense_weight_gradient
from fedprof.training.native.moments import add_map_rows, add_moments, clear_maps
from fedprof.training.native.pool import max_pool_gradient_rows, max_pool_rows, mean_pool, pool_gradient
from fedprof.training.native.records import CONVOLUTION, COPY, DENSE, MAX_POOL, MEAN_POOL, NONE, RELU, step_at
from fedprof.training.native.vectors import lanes_of, load, splat, store, whole


@njit(inline="always")
def forward(width, job, count, seen):
    """Run the network on the loaded batch; the profiled step adds ``count`` samples to ``seen`` ones."""
    for index in range(job.step_count):
        step = step_at(job.steps, index)
        profiled = index == job.profiled
        # ReLU is a floor under the sums as they leave the registers, unless somebody wants to see them before.
        fused = step.activation == RELU and not profiled
        floor = np.float32(0.0) if fused else NO_FLOOR
        if step.kind == DENSE:
            dense_forward(width, job, step, floor)
            if profiled:
                clear_maps(job, step)
                add_map_rows(width, job, step, step.y, step.y_plane, step.y_row, whole(1), whole(1))
                add_moments(job, step, count, seen)
        elif step.kind == CONVOLUTION:
            _convolution_forward(width, job, step, floor, profiled)
            if profiled:
                add_moments(job, step, count, seen)
        elif step.kind == MAX_POOL:
            max_pool_rows(width, job, step, step.x, step.x_plane, step.x_row, whole(0), step.out_rows, floor)
        elif step.kind == MEAN_POOL:
            mean_pool(width, job, step)
        if step.kind == COPY:
            activate(width, job, step, step.x, step.x_plane, step.x_row)
        elif step.activation != NONE and (step.kind == MEAN_POOL or not fused):
            activate(width, job, step, step.y, step.y_plane, step.y_row)


@njit(inline="always")
def _convolution_forward(width, job, step, floor, profiled):
    if profiled:
        clear_maps(job, step)
    if step.pool_rows == 0:
        convolution_rows(width, job, step, whole(0), step.map_rows, floor)
        if profiled:
            add_map_rows(width, job, step, step.s, step.s_plane, step.s_row, step.map_rows, step.map_columns)
        return
    done = 0
    while done < step.out_rows:
        rows = min(step.s_rows // step.pool_rows, step.out_rows - done)
        convolution_rows(width, job, step, done * step.pool_rows, rows * step.pool_rows, NO_FLOOR)
        max_pool_rows(width, job, step, step.s, step.s_plane, step.s_row, done, rows, floor)
        if profiled:
            add_map_rows(width, job, step, step.s, step.s_plane, step.s_row, rows * step.pool_rows, step.map_columns)
        done += rows
    left = step.map_rows - done * step.pool_rows
    if profiled and left > 0:  # rows no window covers still belong to the representation
        convolution_rows(width, job, step, done * step.pool_rows, left, NO_FLOOR)
        add_map_rows(width, job, step, step.s, step.s_plane, step.s_row, left, step.map_columns)


@njit(inline="always")
def backward(width, wide, job, add):
    """Gradients of all weights from the gradient of the outputs, added to the old ones if ``add``."""
    for index in range(job.step_count - 1, -1, -1):
        step = step_at(job.steps, index)
        activation_gradient(width, job, step)
        if step.kind == DENSE:
            dense_weight_gradient(width, wide, job, step, add)
            if step.wants_dx:
                dense_input_gradient(width, job, step)
        elif step.kind == CONVOLUTION:
            _convolution_backward(width, job, step, add)
        elif step.wants_dx and step.kind == COPY:
            _copy_gradient(width, job, step)
        elif step.wants_dx:
            pool_gradient(width, job, step, step.kind == MEAN_POOL)


@njit(inline="always")
def _convolution_backward(width, job, step, add):
    if not add:
        weights = step.inputs * step.kernel_rows * step.kernel_columns * step.w_row
        _clear(width, job.arena, step.dw, weights)
        _clear(width, job.arena, step.dbias, step.w_row)
    used = step.map_rows if step.pool_rows == 0 else step.out_rows * step.pool_rows
    done = 0
    while done < used:
        rows, place = min(step.d_rows, used - done), step.d + done * step.d_step
        if step.pool_rows > 0:
            first, count = done // step.pool_rows, rows // step.pool_rows
            max_pool_gradient_rows(width, job, step, place, step.d_plane, step.d_row, first, count)
        convolution_weight_gradient(width, job, step, done, rows, place)
        done += rows
    if step.wants_dx:
        convolution_input_gradient(width, job, step)


@njit
def _clear(width, arena, start, length):
    for at in range(start, start + length, lanes_of(width)):
        store(arena, at, splat(width, np.float32(0.0)))


@njit
def _copy_gradient(width, job, step):
    for channel in range(step.outputs):
        for row in range(step.out_rows):
            source, target = channel * step.g_plane + row * step.g_row, channel * step.dx_plane + row * step.dx_row
            for lane in range(0, step.out_columns * job.width, lanes_of(width)):
                store(job.arena, step.dx + target + lane, load(width, job.arena, step.g + source + lane))
