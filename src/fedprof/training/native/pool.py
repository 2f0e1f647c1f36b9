"""Pooling, forward and backward, on its own or behind a convolution."""

from __future__ import annotations

import numpy as np
from numba import njit

from fedprof.training.native.vectors import lanes_of, load, load_bytes, pick, splat, store, store_bytes


@njit
def _challenge(width, arena, at, number, best, cell):
    value = load(width, arena, at)
    wins = value > best
    return pick(wins, value, best), pick(wins, splat(width, number), cell)


@njit
def max_pool_rows(width, job, step, x, x_plane, x_row, first, rows, floor):
    """Make some rows of the pooled map from ``x``, where the first window begins; remember each winner's cell."""
    lanes, samples, arena = lanes_of(width), job.width, job.arena
    least = splat(width, floor)
    for channel in range(step.outputs):
        for row in range(rows):
            source = x + channel * x_plane + row * step.pool_stride_rows * x_row
            target = step.y + channel * step.y_plane + (first + row) * step.y_row
            memory = job.arena + 4 * step.chosen + (channel * step.out_rows + first + row) * step.out_columns * samples
            for pixel in range(step.out_columns):
                for lane in range(0, samples, lanes):
                    at = source + pixel * step.pool_stride_columns * samples + lane
                    best, cell = load(width, arena, at), splat(width, np.float32(0.0))
                    if step.pool_rows == 2 and step.pool_columns == 2:
                        best, cell = _challenge(width, arena, at + samples, np.float32(1.0), best, cell)
                        best, cell = _challenge(width, arena, at + x_row, np.float32(2.0), best, cell)
                        best, cell = _challenge(width, arena, at + x_row + samples, np.float32(3.0), best, cell)
                    else:
                        number = np.float32(0.0)
                        for i in range(step.pool_rows):
                            for j in range(step.pool_columns):
                                best, cell = _challenge(width, arena, at + i * x_row + j * samples, number, best, cell)
                                number += np.float32(1.0)
                    store(arena, target + pixel * samples + lane, pick(least > best, least, best))
                    store_bytes(memory, pixel * samples + lane, cell)


@njit
def max_pool_gradient_rows(width, job, step, dx, dx_plane, dx_row, first, rows):
    """Send the gradients of some pooled rows to the winners; windows do not overlap, so each cell is written once."""
    lanes, samples, arena = lanes_of(width), job.width, job.arena
    nothing = splat(width, np.float32(0.0))
    for channel in range(step.outputs):
        for row in range(rows):
            target = dx + channel * dx_plane + row * step.pool_stride_rows * dx_row
            source = step.g + channel * step.g_plane + (first + row) * step.g_row
            memory = job.arena + 4 * step.chosen + (channel * step.out_rows + first + row) * step.out_columns * samples
            for pixel in range(step.out_columns):
                for lane in range(0, samples, lanes):
                    gradient = load(width, arena, source + pixel * samples + lane)
                    cell = load_bytes(width, memory, pixel * samples + lane)
                    if step.pool_rows == 2 and step.pool_columns == 2:
                        at = target + pixel * step.pool_stride_columns * samples + lane
                        for corner in range(4):
                            part = pick(cell == splat(width, np.float32(corner)), gradient, nothing)
                            store(arena, at + (corner // 2) * dx_row + (corner % 2) * samples, part)
                        continue
                    number = np.float32(0.0)
                    for i in range(step.pool_rows):
                        for j in range(step.pool_columns):
                            at = target + i * dx_row + (pixel * step.pool_stride_columns + j) * samples + lane
                            store(arena, at, pick(cell == splat(width, number), gradient, nothing))
                            number += np.float32(1.0)


@njit
def mean_pool(width, job, step):
    """Average every window."""
    lanes, samples, arena = lanes_of(width), job.width, job.arena
    share = splat(width, np.float32(1.0 / (step.pool_rows * step.pool_columns)))
    for channel in range(step.outputs):
        for row in range(step.out_rows):
            source = step.x + channel * step.x_plane + row * step.pool_stride_rows * step.x_row
            target = step.y + channel * step.y_plane + row * step.y_row
            for pixel in range(step.out_columns):
                for lane in range(0, samples, lanes):
                    total = splat(width, np.float32(0.0))
                    for i in range(step.pool_rows):
                        for j in range(step.pool_columns):
                            column = (pixel * step.pool_stride_columns + j) * samples + lane
                            total = total + load(width, arena, source + i * step.x_row + column)
                    store(arena, target + pixel * samples + lane, total * share)


@njit
def pool_gradient(width, job, step, mean):
    """Gradient of the input of a pooling step of its own; windows may overlap."""
    lanes, samples, arena = lanes_of(width), job.width, job.arena
    _clear(width, job, step)
    nothing = splat(width, np.float32(0.0))
    share = splat(width, np.float32(1.0 / (step.pool_rows * step.pool_columns)))
    for channel in range(step.outputs):
        for row in range(step.out_rows):
            target = step.dx + channel * step.dx_plane + row * step.pool_stride_rows * step.dx_row
            source = step.g + channel * step.g_plane + row * step.g_row
            memory = job.arena + 4 * step.chosen + (channel * step.out_rows + row) * step.out_columns * samples
            for pixel in range(step.out_columns):
                for lane in range(0, samples, lanes):
                    gradient = load(width, arena, source + pixel * samples + lane)
                    cell = load_bytes(width, memory, pixel * samples + lane)
                    number = np.float32(0.0)
                    for i in range(step.pool_rows):
                        for j in range(step.pool_columns):
                            at = target + i * step.dx_row + (pixel * step.pool_stride_columns + j) * samples + lane
                            part = pick(cell == splat(width, number), gradient, nothing)
                            part = gradient * share if mean else part
                            store(arena, at, load(width, arena, at) + part)
                            number += np.float32(1.0)


@njit
def _clear(width, job, step):
    nothing = splat(width, np.float32(0.0))
    for channel in range(step.inputs):
        for row in range(step.in_rows):
            start = step.dx + channel * step.dx_plane + row * step.dx_row
            for lane in range(0, step.in_columns * job.width, lanes_of(width)):
                store(job.arena, start + lane, nothing)
