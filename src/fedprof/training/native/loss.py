"""Losses and their gradients, and the outputs an evaluation returns."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from fedprof.training.native.records import CROSS_ENTROPY, MSE
from fedprof.training.native.vectors import exponential, get, get_long, lanes_of, load, pick, put, splat, store


@njit
def _normalise(width, job, step):
    """Leave the logarithm of every sample's sum of exponentials in the scratch row."""
    arena, lanes, samples = job.arena, lanes_of(width), job.width
    for lane in range(0, samples, lanes):
        most = load(width, arena, step.y + lane)
        for output in range(1, job.outputs):
            value = load(width, arena, step.y + output * samples + lane)
            most = pick(value > most, value, most)
        total = splat(width, np.float32(0.0))
        for output in range(job.outputs):
            total = total + exponential(width, load(width, arena, step.y + output * samples + lane) - most)
        store(arena, job.scratch + lane, most)
        store(arena, job.scratch + samples + lane, total)
    for sample in range(samples):
        total = get(arena, job.scratch + samples + sample)
        # A NaN or infinite sum goes through; the logarithm of zero cannot happen, the largest term is 1.
        put(arena, job.scratch + sample, get(arena, job.scratch + sample) + np.float32(math.log(total)))


@njit
def _mse(job, step, start, count):
    total = 0.0
    for sample in range(count):
        row = get_long(job.order, start + sample) * job.outputs
        for output in range(job.outputs):
            error = get(job.arena, step.y + output * job.width + sample) - get(job.targets, row + output)
            total += error * error
    return total / job.outputs


@njit
def batch_loss(width, job, step, start, count):
    """Sum of the losses of ``count`` samples; must come before ``loss_gradient`` and ``write_outputs``."""
    if job.loss_kind == MSE:
        return _mse(job, step, start, count)
    if job.loss_kind == CROSS_ENTROPY or job.log_softmax:
        _normalise(width, job, step)
    total = 0.0
    for sample in range(count):
        label = get_long(job.targets, get_long(job.order, start + sample))
        total -= get(job.arena, step.y + label * job.width + sample)
        if job.loss_kind == CROSS_ENTROPY:
            total += get(job.arena, job.scratch + sample)
    return total


@njit
def loss_gradient(width, job, step, start, count, batch):
    """Gradient of the batch's mean loss; zero in spare lanes, so that they never reach a weight."""
    arena, samples = job.arena, job.width
    share = np.float32(1.0 / batch)
    if job.loss_kind == CROSS_ENTROPY:
        _softmax_gradient(width, job, step, count, share)
    else:
        for at in range(0, job.outputs * samples, lanes_of(width)):
            store(arena, step.g + at, splat(width, np.float32(0.0)))
    for sample in range(count):
        row = get_long(job.order, start + sample)
        if job.loss_kind == MSE:
            for output in range(job.outputs):
                error = get(arena, step.y + output * samples + sample) - get(job.targets, row * job.outputs + output)
                put(
                    arena, step.g + output * samples + sample, error * np.float32(2.0) * share / np.float32(job.outputs)
                )
        else:
            place = step.g + get_long(job.targets, row) * samples + sample
            put(arena, place, get(arena, place) - share)


@njit
def _softmax_gradient(width, job, step, count, share):
    arena, lanes, samples = job.arena, lanes_of(width), job.width
    for sample in range(samples):
        put(arena, job.scratch + samples + sample, share if sample < count else np.float32(0.0))
    for output in range(job.outputs):
        for lane in range(0, samples, lanes):
            value = load(width, arena, step.y + output * samples + lane) - load(width, arena, job.scratch + lane)
            weight = load(width, arena, job.scratch + samples + lane)
            store(arena, step.g + output * samples + lane, exponential(width, value) * weight)


@njit
def write_outputs(job, step, start, count):
    """Write the model's outputs, sample by sample."""
    for sample in range(count):
        subtract = get(job.arena, job.scratch + sample) if job.log_softmax else np.float32(0.0)
        for output in range(job.outputs):
            value = get(job.arena, step.y + output * job.width + sample) - subtract
            put(job.result, (start + sample) * job.result_row + output, value)
