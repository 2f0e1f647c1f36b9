"""Dense layers: forward, input gradient, weight gradient. Weights lie input by input, outputs side by side."""

from __future__ import annotations

import numpy as np
from numba import njit

from fedprof.training.native.convolution import NO_FLOOR
from fedprof.training.native.tile import product
from fedprof.training.native.vectors import lanes_of, load, splat, store, transpose, whole


@njit(inline="always")
def dense_forward(width, job, step, floor):
    """Outputs of all samples."""
    samples = job.width
    product(
        width, job.arena, step.y, samples, step.outputs, samples, step.x, samples, lanes_of(width),
        step.w, whole(1), step.w_row, step.bias, whole(1), job.tables, whole(1), step.inputs, whole(0), floor,
    )  # fmt: skip


@njit(inline="always")
def dense_input_gradient(width, job, step):
    """Gradient of the input."""
    samples = job.width
    product(
        width, job.arena, step.dx, samples, step.inputs, samples, step.g, samples, lanes_of(width),
        step.w, step.w_row, whole(1), job.zeros, whole(0), job.tables, whole(1), step.outputs, whole(0), NO_FLOOR,
    )  # fmt: skip


@njit(inline="always")
def dense_weight_gradient(width, wide, job, step, add):
    """Gradients of weights and biases, added to the old ones if ``add``; vectors run along the outputs here."""
    samples, arena = job.width, job.arena
    _transpose_gradient(width, job, step)
    product(
        wide, arena, step.dw, step.w_row, step.inputs, step.w_row, step.transposed, step.w_row, lanes_of(wide),
        step.x, samples, whole(1), job.zeros, whole(0), job.tables, whole(1), samples, add, NO_FLOOR,
    )  # fmt: skip
    if step.has_bias:
        _bias_gradient(wide, job, step, add)


@njit
def _transpose_gradient(width, job, step):
    lanes = lanes_of(width)
    for output in range(0, step.outputs, lanes):
        for sample in range(0, job.width, lanes):
            target = step.transposed + sample * step.w_row + output
            transpose(width, job.arena, step.g + output * job.width + sample, job.width, target, step.w_row)


@njit
def _bias_gradient(width, job, step, add):
    for output in range(0, step.w_row, lanes_of(width)):
        total = load(width, job.arena, step.dbias + output) if add else splat(width, np.float32(0.0))
        for sample in range(job.width):
            total = total + load(width, job.arena, step.transposed + sample * step.w_row + output)
        store(job.arena, step.dbias + output, total)
