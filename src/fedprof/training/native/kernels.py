"""The two compiled entry points: one client's training, and a pass over samples without learning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from fedprof.training.native.batch import load_batch
from fedprof.training.native.loss import batch_loss, loss_gradient, write_outputs
from fedprof.training.native.network import backward, forward
from fedprof.training.native.records import job_at, step_at
from fedprof.training.native.vectors import fma, lanes_of, load, splat, store, whole


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on first use, without the interpreter lock; keep the result where a place for it can be found."""
    try:
        return njit(function, cache=True, nogil=True)  # type: ignore[no-any-return]
    except RuntimeError:  # neither the package's own folder nor the user's cache folder can be written
        return njit(function, nogil=True)  # type: ignore[no-any-return]


@_compiled
def train(width, wide, address):
    """Train one client; ``wide`` is the widest vector, for loops over weights rather than samples.

    The weights are left at the start of the arena, the first epoch's loss in the job.
    """
    job = job_at(address)
    _start(wide, job)
    total = 0.0
    for epoch in range(job.epochs):
        for first in range(0, job.samples, job.batch):
            batch = min(job.batch, job.samples - first)
            loss = _learn(width, wide, job, epoch * job.samples + first, batch)
            if epoch == 0:
                total += loss
    job.loss = total / job.samples


@_compiled
def look(width, address):
    """Run samples through the network; profile a step, write outputs and sum the loss where the job asks for it."""
    job = job_at(address)
    last = step_at(job.steps, job.step_count - 1)
    total = 0.0
    for first in range(0, job.samples, job.width):
        count = min(job.width, job.samples - first)
        load_batch(width, job, first, count)
        forward(width, job, count, first)
        if job.result != 0:
            total += batch_loss(width, job, last, first, count)
            write_outputs(job, last, first, count)
    job.loss = total


@njit
def _start(width, job):
    for at in range(0, job.parameters, lanes_of(width)):
        store(job.arena, at, load(width, job.received, at))
        if job.momentum != 0.0:
            store(job.arena, job.velocity + at, splat(width, np.float32(0.0)))


@njit(inline="always")
def _learn(width, wide, job, start, batch):
    """One step of SGD on one batch, in pieces the arena holds; returns the batch's summed loss."""
    last = step_at(job.steps, job.step_count - 1)
    total = 0.0
    for piece in range(0, batch, job.width):
        count = min(job.width, batch - piece)
        load_batch(width, job, start + piece, count)
        forward(width, job, count, whole(0))
        total += batch_loss(width, job, last, start + piece, count)
        loss_gradient(width, job, last, start + piece, count, batch)
        backward(width, wide, job, whole(piece > 0))
    if job.momentum == 0.0 and job.decay == 0.0 and job.proximal == 0.0:
        _descend(wide, job)
    else:
        _descend_with(wide, job)
    return total


@njit
def _descend(width, job):
    rate = splat(width, np.float32(-job.rate))
    for at in range(0, job.parameters, lanes_of(width)):
        gradient = load(width, job.arena, job.parameters + at)
        store(job.arena, at, fma(rate, gradient, load(width, job.arena, at)))


@njit
def _descend_with(width, job):
    """With FedProx's pull to the received weights, weight decay and momentum, as PyTorch orders them."""
    rate, momentum = splat(width, np.float32(-job.rate)), splat(width, np.float32(job.momentum))
    decay, pull = splat(width, np.float32(job.decay)), splat(width, np.float32(job.proximal))
    for at in range(0, job.parameters, lanes_of(width)):
        weight, gradient = load(width, job.arena, at), load(width, job.arena, job.parameters + at)
        gradient = fma(pull, weight - load(width, job.received, at), gradient)
        gradient = fma(decay, weight, gradient)
        if job.momentum != 0.0:
            gradient = fma(momentum, load(width, job.arena, job.velocity + at), gradient)
            store(job.arena, job.velocity + at, gradient)
        store(job.arena, at, fma(rate, gradient, weight))
