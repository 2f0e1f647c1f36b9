"""What the planner tells the kernels: one record a step of the network, one a job. All sizes are run-time values.

Kernels get records by address, so that calling one costs nothing however much it must know, and one compilation serves
every model. Offsets count floats from the start of the arena; addresses are whole. ``tables`` holds whole numbers: the
offsets of a convolution's taps and the classes of its border pixels.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.np.numpy_support import carray

from fedprof.training.native.vectors import as_pointer

DENSE, CONVOLUTION, MAX_POOL, MEAN_POOL, COPY = range(5)
NONE, RELU, TANH, SIGMOID = range(4)
MSE, CROSS_ENTROPY, NLL = range(3)
BYTES, FLOATS = range(2)


def _whole(*names: str) -> list[tuple[str, str]]:
    return [(name, "i8") for name in names]


STEP = np.dtype(
    _whole(
        "kind",
        "activation",
        "wants_dx",  # whether anything before this step learns
        # A feature map has a plane a channel and a row a line of pixels; the steps between them may hold a border.
        "x", "x_plane", "x_row",
        "y", "y_plane", "y_row",
        "g", "g_plane", "g_row",  # gradient of y
        "dx", "dx_plane", "dx_row",
        "inputs", "outputs",  # channels, or features of a dense layer
        "in_rows", "in_columns", "out_rows", "out_columns",  # of y: after pooling
        "run_planes", "run_rows", "run_length",  # the same for element-wise work, as few runs as possible
        "w", "w_row", "bias", "has_bias", "dw", "dbias",
        "kernel_rows", "kernel_columns", "stride_rows", "stride_columns",
        # A convolution's own output, before pooling, made some rows at a time; its gradient likewise.
        "map_rows", "map_columns", "pool_rows", "pool_columns", "pool_stride_rows", "pool_stride_columns",
        "s", "s_plane", "s_row", "s_rows",
        "d", "d_plane", "d_row", "d_rows", "d_step",  # rows in a block; step from one block to the next or 0
        "chosen",  # which cell of its window each pooled pixel came from
        "transposed",  # a dense layer's output gradient, sample by sample
        # How outputs gather inputs (forward) and inputs gather output gradients (backward); see ``gather.py``.
        "forward_table", "forward_x_step", "forward_w_step", "forward_second",
        "backward_table", "backward_x_step", "backward_w_step", "backward_second",
        "taps",  # table of offsets into x of every weight of one output channel
    )
)  # fmt: skip

JOB = np.dtype(
    _whole(
        "steps", "step_count", "tables",  # the plan: addresses and the number of steps
        "arena", "width", "scratch", "zeros",  # samples side by side; offsets
        "parameters",  # floats of packed weights, at offset 0; gradients follow, then velocities
        "velocity",
        "pool", "pool_kind", "features", "x", "x_plane", "x_row", "channels", "rows", "columns",
        "shift", "factor",  # addresses of one float a feature: (x - shift) * factor
        "sources",  # address of one whole number a lane: where in the pool its sample starts
        "targets", "outputs", "result", "result_row",  # labels or values; classes; address and row length of outputs
        "order", "samples", "epochs", "batch",
        "received",  # address of the packed weights training starts from
        "profiled", "moments",  # step to profile or -1; doubles: shift, sum, sum of squares
        "loss_kind", "log_softmax",
    )
    + [(name, "f8") for name in ("rate", "momentum", "decay", "proximal", "loss")]
)  # fmt: skip


@njit
def step_at(address, index):
    """One step of a plan."""
    return carray(as_pointer(address), index + 1, STEP)[index]


@njit
def job_at(address):
    """The job at an address."""
    return carray(as_pointer(address), 1, JOB)[0]
