"""Loading samples into the first buffer: batch innermost, standardised."""

from __future__ import annotations

import numpy as np
from numba import njit

from fedprof.training.native.records import BYTES
from fedprof.training.native.vectors import get, get_byte, get_long, lanes_of, load, put, splat, store


@njit
def load_batch(width, job, start, count):  # type: ignore[no-untyped-def]
    """Load ``count`` samples, in the job's order from ``start``; spare lanes become zero."""
    for channel in range(job.channels):
        for row in range(job.rows):
            target = job.arena + 4 * (job.x + channel * job.x_plane + row * job.x_row)
            feature = (channel * job.rows + row) * job.columns
            for sample in range(count):
                source = get_long(job.order, start + sample) * job.features + feature
                _copy_row(job, target, sample, source)
            for sample in range(count, job.width):
                for column in range(job.columns):
                    put(target, column * job.width + sample, np.float32(0.0))
            _standardise(width, job, target, feature)


@njit
def _copy_row(job, target, sample, source):  # type: ignore[no-untyped-def]
    if job.pool_kind == BYTES:
        for column in range(job.columns):
            put(target, column * job.width + sample, np.float32(get_byte(job.pool, source + column)))
    else:
        for column in range(job.columns):
            put(target, column * job.width + sample, get(job.pool, source + column))


@njit
def _standardise(width, job, target, feature):  # type: ignore[no-untyped-def]
    for column in range(job.columns):
        shift = splat(width, get(job.shift, feature + column))
        scale = splat(width, get(job.scale, feature + column))
        for lane in range(0, job.width, lanes_of(width)):
            at = column * job.width + lane
            store(target, at, (load(width, target, at) - shift) / scale)
