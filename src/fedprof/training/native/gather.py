"""Which taps of a convolution meet real pixels, tabulated: border pixels fall into classes, inner ones into spans.

Forward, output pixel o gathers input o * stride + k - padding over the kernel's k. Backward, input pixel i gathers the
gradient of output (i + padding - k) / stride over the k for which that is a whole number inside the map. Either way a
pixel has a base in the map it gathers from and a class: the (k, distance from the base) pairs that exist for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Class = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Axis:
    """Every pixel along one axis of the map being computed: where it gathers from, and its class."""

    bases: list[int]
    classes: list[Class]

    @property
    def distinct(self) -> list[Class]:
        """The classes, in order of appearance."""
        return list(dict.fromkeys(self.classes))

    def spans(self, joined: bool) -> list[tuple[int, int]]:
        """Runs (first, length) of neighbours of one class; single pixels unless they may be ``joined``."""
        runs: list[tuple[int, int]] = []
        for pixel, kind in enumerate(self.classes):
            if joined and runs and self.classes[runs[-1][0]] == kind:
                runs[-1] = (runs[-1][0], runs[-1][1] + 1)
            else:
                runs.append((pixel, 1))
        return runs


def forward_axis(outputs: int, inputs: int, kernel: int, stride: int, padding: int) -> Axis:
    """How outputs gather inputs."""
    bases = [o * stride for o in range(outputs)]
    classes = [tuple((k, k - padding) for k in range(kernel) if 0 <= base + k - padding < inputs) for base in bases]
    return Axis(bases, classes)


def backward_axis(outputs: int, inputs: int, kernel: int, stride: int, padding: int) -> Axis:
    """How input gradients gather output gradients."""
    bases = [i // stride for i in range(inputs)]
    classes = []
    for i, base in enumerate(bases):
        places = ((k, divmod(i + padding - k, stride)) for k in range(kernel))
        classes.append(tuple((k, o - base) for k, (o, rest) in places if rest == 0 and 0 <= o < outputs))
    return Axis(bases, classes)


@dataclass(frozen=True)
class Steps:
    """Distances in the map gathered from and in the packed weights."""

    plane: int
    row: int
    pixel: int
    kernel_columns: int
    w_row: int
    """Between a tap's weights and the next tap's."""
    channel_weights: int
    """Between the weights of one gathered channel and the next."""


@dataclass(frozen=True)
class Table:
    """A finished table: where it starts, and the steps of the innermost reduction."""

    start: int
    x_step: int
    w_step: int


def tabulate(tables: list[int], rows: Axis, columns: Axis, channels: int, steps: Steps, *, joined: bool) -> Table:
    """Append one convolution's table to ``tables``; ``convolution.py`` describes its form."""
    along_kernel = channels < steps.kernel_columns and all(_consecutive(kind) for kind in columns.distinct)
    spans = columns.spans(joined)
    pairs: list[int] = []
    for row_class in rows.distinct:
        for column_class in columns.distinct:
            taps, n = (_along_kernel if along_kernel else _along_channels)(row_class, column_class, channels, steps)
            pairs += [len(tables), len(taps) // 2, n]
            tables += taps
    start = len(tables)
    tables += [len(spans), len(rows.bases), len(columns.distinct)]
    for base, kind in zip(rows.bases, rows.classes, strict=True):
        tables += [rows.distinct.index(kind), base * steps.row]
    for first, length in spans:
        tables += [first, length, columns.distinct.index(columns.classes[first]), columns.bases[first] * steps.pixel]
    tables += pairs
    if along_kernel:
        return Table(start, steps.pixel, steps.w_row)
    return Table(start, steps.plane, steps.channel_weights)


def _consecutive(kind: Class) -> bool:
    return all(b == (a[0] + 1, a[1] + 1) for a, b in pairwise(kind))


def _along_channels(rows: Class, columns: Class, channels: int, steps: Steps) -> tuple[list[int], int]:
    """Outer loop over the kernel's cells, inner over channels."""
    taps: list[int] = []
    for ky, y in rows:
        for kx, x in columns:
            taps += [y * steps.row + x * steps.pixel, (ky * steps.kernel_columns + kx) * steps.w_row]
    return taps, channels


def _along_kernel(rows: Class, columns: Class, channels: int, steps: Steps) -> tuple[list[int], int]:
    """Outer loop over channels and the kernel's rows, inner along its columns: better for few channels."""
    if not columns:
        return [], 0
    taps: list[int] = []
    (kx, x) = columns[0]
    for channel in range(channels):
        for ky, y in rows:
            weights = channel * steps.channel_weights + (ky * steps.kernel_columns + kx) * steps.w_row
            taps += [channel * steps.plane + y * steps.row + x * steps.pixel, weights]
    return taps, len(columns)


def weight_taps(channels: int, kernel: tuple[int, int], padding: Sequence[int], steps: Steps) -> list[int]:
    """Offset into the input of every weight of one output channel, in order."""
    return [
        channel * steps.plane + (ky - padding[0]) * steps.row + (kx - padding[1]) * steps.pixel
        for channel in range(channels)
        for ky in range(kernel[0])
        for kx in range(kernel[1])
    ]
