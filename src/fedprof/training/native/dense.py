"""Dense layers: forward, input gradient, weight gradient. Weights lie input by input, outputs side by side."""

from __future__ import annotations

from numba import njit

from fedprof.training.native.convolution import NO_FLOOR, add_sum
from fedprof.training.native.tile import product
from fedprof.training.native.vectors import get, lanes_of, put, whole


@njit(inline="always")
def dense_forward(width, job, step, floor):  # type: ignore[no-untyped-def]
    """Outputs of all samples."""
    samples = job.width
    product(
        width, job.arena, step.y, samples, step.outputs, samples, step.x, samples, lanes_of(width), step.w, whole(1), step.w_row,
        step.bias, whole(1), job.tables, whole(1), step.inputs, whole(0), floor,
    )  # fmt: skip


@njit(inline="always")
def dense_input_gradient(width, job, step):  # type: ignore[no-untyped-def]
    """Gradient of the input."""
    samples = job.width
    product(
        width, job.arena, step.dx, samples, step.inputs, samples, step.g, samples, lanes_of(width), step.w, step.w_row, whole(1),
        job.zeros, whole(0), job.tables, whole(1), step.outputs, whole(0), NO_FLOOR,
    )  # fmt: skip


@njit(inline="always")
def dense_weight_gradient(width, job, step, add):  # type: ignore[no-untyped-def]
    """Gradients of weights and biases, added to the old ones if ``add``."""
    samples, arena = job.width, job.arena
    for output in range(step.outputs):
        for sample in range(samples):
            put(arena, step.transposed + sample * step.w_row + output, get(arena, step.g + output * samples + sample))
    product(
        width, arena, step.dw, step.w_row, step.inputs, step.w_row, step.transposed, step.w_row, lanes_of(width),
        step.x, samples, whole(1), job.zeros, whole(0), job.tables, whole(1), samples, add, NO_FLOOR,
    )  # fmt: skip
    if step.has_bias:
        for output in range(step.outputs):
            if not add:
                put(arena, step.dbias + output, 0.0)
            add_sum(width, arena, step.dbias + output, step.g + output * samples, 0, 1, samples)
