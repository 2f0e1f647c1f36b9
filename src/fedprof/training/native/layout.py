"""Where everything lies in the arena, and the records that tell the kernels so.

Feature maps are [channel][row][column][sample]: every inner loop of a kernel runs over whole vectors of samples, and a
row of a map is one contiguous range of lanes. A convolution's input has a border of zeros, which only its weight
gradient reads; nothing ever writes there.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from fedprof.training.native import records
from fedprof.training.native.gather import Steps, backward_axis, forward_axis, tabulate, weight_taps
from fedprof.training.native.plan import Layer, Network, Pair, Shape

ALIGN = 16
"""Everything starts on a multiple of this many floats: one line of cache, the widest vector."""
STRIP = 12_000
"""Floats of a convolution's output kept before pooling: they should not leave the first-level cache."""
BLOCK = 50_000
"""Floats of a convolution's output gradient met by all weights before the next: second-level cache."""
PIECE_CONVOLUTION, PIECE_DENSE = 32, 128
"""Most samples worked on at once: more would push feature maps, or with dense layers nothing, out of the cache."""


def round_up(value: int, multiple: int = ALIGN) -> int:
    """Round up to a multiple."""
    return -(-value // multiple) * multiple


def piece_width(network: Network, batch: int, lanes: int) -> int:
    """Samples side by side in the arena for batches of a size: whole vectors, as few to spare as possible."""
    convolutions = any(layer.kind == records.CONVOLUTION for layer in network.layers)
    most = max(PIECE_CONVOLUTION if convolutions else PIECE_DENSE, lanes)
    pieces = -(-batch // most)
    return round_up(-(-batch // pieces), lanes)


@dataclass(frozen=True)
class Map:
    """A feature map in the arena; ``at`` is its first real pixel."""

    at: int
    plane: int
    row: int


@dataclass(frozen=True)
class Packing:
    """Weights as the kernels want them: input by input, outputs side by side, rows padded to whole lines of cache."""

    index: NDArray[np.int64]
    """Place in the packed vector of every element of the flat one."""
    size: int
    starts: tuple[tuple[int, int, int], ...]
    """For every layer the places of its weights and bias, and the length of a row of weights."""

    def pack(self, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """Rearrange a flat vector."""
        packed = np.zeros(self.size, np.float32)
        packed[self.index] = weights
        return packed


def pack_weights(network: Network) -> Packing:
    """Lay out the weights of a network, in the order PyTorch names them."""
    parts: list[NDArray[np.int64]] = []
    starts: list[tuple[int, int, int]] = []
    end = 0
    for layer in network.layers:
        if layer.kind not in {records.DENSE, records.CONVOLUTION}:
            starts.append((0, 0, 0))
            continue
        outputs, inputs = layer.shape[0], layer.source[0] * prod(layer.kernel)
        row = _weight_row(layer)
        bias = round_up(end + inputs * row)
        parts.append((end + np.arange(outputs)[:, None] + np.arange(inputs) * row).ravel())
        if layer.bias:
            parts.append(bias + np.arange(outputs))
        starts.append((end, bias, row))
        end = round_up(bias + row)
    return Packing(np.concatenate(parts), end, tuple(starts))


def _weight_row(layer: Layer) -> int:
    if layer.kind == records.CONVOLUTION:
        return layer.shape[0]
    row = round_up(layer.shape[0])
    return row + ALIGN if row % 256 == 0 else row  # rows a power of two apart would share a few lines of cache


class Layout:
    """The arena and records of one network for one number of samples side by side."""

    def __init__(self, network: Network, packing: Packing, lanes: int, width: int) -> None:
        self.network, self.packing, self.lanes, self.width = network, packing, lanes, width
        self._end = 3 * packing.size  # weights, gradients, velocities
        self._tables: list[int] = [0, 0]  # the one tap of a dense product
        self.zeros = self._take(2 * ALIGN)
        self.scratch = self._take(2 * width)
        self._transposed = self._take(width * max(row for _, _, row in packing.starts))
        first = network.layers[0]
        self.x = self._map(network.source, first.padding, contiguous=network.flat_source)
        self.steps = np.zeros(len(network.layers), records.STEP)
        self._fill()
        self.tables = np.array(self._tables, np.int64)

    @property
    def floats(self) -> int:
        """Size of the arena."""
        return self._end

    def arena(self) -> NDArray[np.float32]:
        """A new arena of zeros."""
        memory = np.zeros(self._end + ALIGN, np.float32)
        skip = (-memory.ctypes.data // 4) % ALIGN
        return memory[skip : skip + self._end]

    def _take(self, floats: int) -> int:
        start = self._end
        self._end = round_up(start + floats)
        return start

    def _map(self, shape: Shape, padding: Pair = (0, 0), *, contiguous: bool = False, spare: bool = False) -> Map:
        channels, rows, columns = shape
        row = (columns + 2 * padding[1]) * self.width
        plane = (rows + 2 * padding[0]) * row
        if not contiguous and plane // self.lanes % 2 == 0:
            plane += self.lanes  # planes a power of two apart would share a few lines of cache
        if spare:
            channels = round_up(channels)  # rows of zeros, so that whole blocks can be transposed
        return Map(self._take(channels * plane) + padding[0] * row + padding[1] * self.width, plane, row)

    def _fill(self) -> None:
        x, dx = self.x, Map(0, 0, 0)
        if self.network.flat_source:
            x = Map(x.at, self.width, self.width)
        learns = False
        for index, layer in enumerate(self.network.layers):
            step = self.steps[index]
            following = self.network.layers[index + 1 : index + 2]
            y = self._map(layer.shape, following[0].padding if following else (0, 0), contiguous=layer.flattened)
            g = self._map(layer.shape, contiguous=layer.flattened, spare=layer.kind == records.DENSE)
            for name, place in {"x": x, "dx": dx, "y": y, "g": g}.items():
                _set_map(step, name, place)
            self._common(step, layer, index)
            self._runs(step, layer, [y, g, *([x] if layer.kind == records.COPY else [])])
            step["wants_dx"] = learns
            if layer.kind == records.CONVOLUTION:
                self._convolution(step, layer, x, y, g)
            elif layer.kind in {records.MAX_POOL, records.MEAN_POOL}:
                self._pooling(step, layer)
            learns = learns or layer.kind in {records.DENSE, records.CONVOLUTION}
            x, dx = (Map(place.at, self.width, self.width) if layer.flattened else place for place in (y, g))

    def _common(self, step: np.void, layer: Layer, index: int) -> None:
        w, bias, row = self.packing.starts[index]
        values = {
            "kind": layer.kind, "activation": layer.activation, "inputs": layer.source[0], "outputs": layer.shape[0],
            "in_rows": layer.source[1], "in_columns": layer.source[2],
            "out_rows": layer.shape[1], "out_columns": layer.shape[2],
            "w": w, "bias": bias, "w_row": row, "has_bias": layer.bias,
            "dw": w + self.packing.size, "dbias": bias + self.packing.size, "transposed": self._transposed,
        }  # fmt: skip
        for name, value in values.items():
            step[name] = value

    def _runs(self, step: np.void, layer: Layer, maps: list[Map]) -> None:
        channels, rows, columns = layer.shape
        row, plane = columns * self.width, rows * columns * self.width
        unbroken = all((place.row, place.plane) == (row, plane) for place in maps)
        runs = (1, 1, channels * plane) if unbroken else (channels, rows, row)
        step["run_planes"], step["run_rows"], step["run_length"] = runs

    def _pooling(self, step: np.void, layer: Layer) -> None:
        assert layer.pool is not None
        assert layer.pool_stride is not None
        step["pool_rows"], step["pool_columns"] = layer.pool
        step["pool_stride_rows"], step["pool_stride_columns"] = layer.pool_stride
        step["chosen"] = self._take(-(-prod(layer.shape) * self.width // 4))  # a byte each

    def _convolution(self, step: np.void, layer: Layer, x: Map, y: Map, g: Map) -> None:
        s, d, s_rows, whole = y, g, layer.map[0], True
        if layer.pool:
            self._pooling(step, layer)
            s_rows, whole = self._block_rows(layer, STRIP), bool(step["wants_dx"])
            s = self._map((layer.shape[0], s_rows, layer.map[1]))
            d = self._map((layer.shape[0], layer.map[0] if whole else s_rows, layer.map[1]))
        _set_map(step, "s", s)
        _set_map(step, "d", d)
        step["s_rows"] = s_rows
        step["d_rows"], step["d_step"] = (self._block_rows(layer, BLOCK), d.row) if whole else (s_rows, 0)
        step["map_rows"], step["map_columns"] = layer.map
        step["kernel_rows"], step["kernel_columns"] = layer.kernel
        step["stride_rows"], step["stride_columns"] = layer.stride
        self._tabulate(step, layer, x, d)

    def _block_rows(self, layer: Layer, most: int) -> int:
        """Rows of a convolution's map, whole windows of any pooling, that take at most so many floats."""
        high = layer.pool[0] if layer.pool else 1
        floats = layer.shape[0] * high * layer.map[1] * self.width
        return high * min(max(1, most // floats), layer.map[0] // high)

    def _tabulate(self, step: np.void, layer: Layer, x: Map, d: Map) -> None:
        w_row, size = _weight_row(layer), prod(layer.kernel)
        steps = Steps(x.plane, x.row, self.width, layer.kernel[1], w_row, size * w_row)
        rows, columns = (
            (outputs, inputs, kernel, stride, padding)
            for outputs, inputs, kernel, stride, padding in zip(
                layer.map, layer.source[1:], layer.kernel, layer.stride, layer.padding, strict=True
            )
        )
        one_vector = self.width == self.lanes
        joined = layer.stride[1] == 1 or one_vector
        table = tabulate(
            self._tables, forward_axis(*rows), forward_axis(*columns), layer.source[0], steps, joined=joined
        )
        _set_table(step, "forward", table.start, table.x_step, table.w_step)
        step["forward_second"] = self.lanes * (layer.stride[1] if one_vector else 1)
        back = Steps(d.plane, d.row, self.width, layer.kernel[1], w_row, 1)
        joined = layer.stride[1] == 1
        table = tabulate(
            self._tables, backward_axis(*rows), backward_axis(*columns), layer.shape[0], back, joined=joined
        )
        _set_table(step, "backward", table.start, table.x_step, table.w_step)
        step["backward_second"] = self.lanes
        step["taps"] = len(self._tables)
        self._tables += weight_taps(layer.source[0], layer.kernel, layer.padding, steps)


def _set_map(step: np.void, name: str, place: Map) -> None:
    step[name], step[f"{name}_plane"], step[f"{name}_row"] = place.at, place.plane, place.row


def _set_table(step: np.void, name: str, start: int, x_step: int, w_step: int) -> None:
    step[f"{name}_table"], step[f"{name}_x_step"], step[f"{name}_w_step"] = start, x_step, w_step
