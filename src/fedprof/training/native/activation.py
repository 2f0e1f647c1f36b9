"""Element-wise functions and their derivatives, always in terms of the function's value."""

from __future__ import annotations

import numpy as np
from numba import njit

from fedprof.training.native.records import NONE, RELU, SIGMOID, TANH
from fedprof.training.native.vectors import exponential, fma, lanes_of, load, pick, splat, store


@njit
def _tanh(width, x):
    one, zero = splat(width, np.float32(1.0)), splat(width, np.float32(0.0))
    square = x * x
    series = fma(square, splat(width, np.float32(-17 / 315)), splat(width, np.float32(2 / 15)))
    series = fma(square, fma(square, series, splat(width, np.float32(-1 / 3))), one) * x
    size = pick(x > zero, x, zero - x)
    far = one - splat(width, np.float32(2.0)) / (exponential(width, x + x) + one)
    return pick(splat(width, np.float32(0.2)) > size, series, far)  # the exponential form cancels near zero


@njit
def _sigmoid(width, x):
    one = splat(width, np.float32(1.0))
    return one / (one + exponential(width, splat(width, np.float32(0.0)) - x))


@njit
def activate(width, job, step, source, source_plane, source_row):
    """Write the activated source to y; the two may be the same place."""
    arena, lanes = job.arena, lanes_of(width)
    zero = splat(width, np.float32(0.0))
    for channel in range(step.run_planes):
        for row in range(step.run_rows):
            x = source + channel * source_plane + row * source_row
            y = step.y + channel * step.y_plane + row * step.y_row
            for lane in range(0, step.run_length, lanes):
                value = load(width, arena, x + lane)
                if step.activation == RELU:
                    value = pick(zero > value, zero, value)
                elif step.activation == TANH:
                    value = _tanh(width, value)
                elif step.activation == SIGMOID:
                    value = _sigmoid(width, value)
                store(arena, y + lane, value)


@njit
def activation_gradient(width, job, step):
    """Turn the gradient of y into that of the value before the activation, in place."""
    if step.activation == NONE:
        return
    for channel in range(step.run_planes):
        for row in range(step.run_rows):
            y = step.y + channel * step.y_plane + row * step.y_row
            g = step.g + channel * step.g_plane + row * step.g_row
            if step.activation == RELU:
                _relu_gradient(width, job.arena, y, g, step.run_length)
            else:
                _smooth_gradient(width, job.arena, y, g, step.run_length, step.activation)


@njit
def _relu_gradient(width, arena, y, g, length):
    zero = splat(width, np.float32(0.0))
    for lane in range(0, length, lanes_of(width)):
        value, gradient = load(width, arena, y + lane), load(width, arena, g + lane)
        store(arena, g + lane, pick(value > zero, gradient, zero))


@njit
def _smooth_gradient(width, arena, y, g, length, activation):
    one = splat(width, np.float32(1.0))
    for lane in range(0, length, lanes_of(width)):
        value, gradient = load(width, arena, y + lane), load(width, arena, g + lane)
        slope = one - value * value if activation == TANH else value * (one - value)
        store(arena, g + lane, gradient * slope)
