"""Profiles made on the way forward: sums of every representation element, in double precision.

Sums are of differences from the first sample's value: a constant element then has variance zero exactly, and a mean far
from zero costs no digits.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from fedprof.training.native.vectors import get, get_double, lanes_of, load, put_double, splat, store


@njit
def clear_maps(job, step):
    """Forget the feature maps' sums of the batch before."""
    for at in range(step.outputs * job.width):
        put_double(job.moments, 3 * step.outputs + at, 0.0)


@njit
def add_map_rows(width, job, step, x, x_plane, x_row, rows, columns):
    """Add some rows of every channel's map: in float32 along a row, in double precision across rows."""
    lanes, samples, arena = lanes_of(width), job.width, job.arena
    for channel in range(step.outputs):
        place = 3 * step.outputs + channel * samples
        for row in range(rows):
            for lane in range(0, samples, lanes):
                total = splat(width, np.float32(0.0))
                for column in range(columns):
                    total = total + load(width, arena, x + channel * x_plane + row * x_row + column * samples + lane)
                store(arena, job.scratch + lane, total)
            for sample in range(samples):
                old = get_double(job.moments, place + sample)
                put_double(job.moments, place + sample, old + get(arena, job.scratch + sample))


@njit
def add_moments(job, step, count, seen):
    """Add ``count`` samples' sums over the maps to the moments; ``seen`` samples came before."""
    q = step.outputs
    for element in range(q):
        values = 3 * q + element * job.width
        if seen == 0:
            put_double(job.moments, element, get_double(job.moments, values))
            put_double(job.moments, q + element, 0.0)
            put_double(job.moments, 2 * q + element, 0.0)
        shift = get_double(job.moments, element)
        total, square = 0.0, 0.0
        for sample in range(count):
            difference = get_double(job.moments, values + sample) - shift
            total += difference
            square += difference * difference
        put_double(job.moments, q + element, get_double(job.moments, q + element) + total)
        put_double(job.moments, 2 * q + element, get_double(job.moments, 2 * q + element) + square)
