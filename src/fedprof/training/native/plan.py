"""From a PyTorch model to a list of layers the kernels know, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from torch import nn

from fedprof.training.engine import Workload
from fedprof.training.native import records

Pair = tuple[int, int]
Shape = tuple[int, int, int]
_ACTIVATIONS: dict[type[nn.Module], int] = {
    nn.ReLU: records.RELU,
    nn.Tanh: records.TANH,
    nn.Sigmoid: records.SIGMOID,
}
_LOSSES = {"mse": records.MSE, "nll": records.NLL, "ce": records.CROSS_ENTROPY}


class UnsupportedError(ValueError):
    """Why the native engine cannot run a workload; never leaves this package."""


@dataclass(frozen=True)
class Layer:
    """One step of the network: a product or a pooling, then an activation."""

    kind: int
    source: Shape
    """Channels, rows and columns of the input; a flat input has its features as channels of one pixel."""
    shape: Shape
    """The same of the output, after pooling."""
    name: str = ""
    activation: int = records.NONE
    bias: bool = False
    kernel: Pair = (1, 1)
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    map: Pair = (1, 1)
    """Rows and columns of a convolution's output before pooling."""
    pool: Pair | None = None
    pool_stride: Pair | None = None
    flattened: bool = False
    """Whether the output is used as one flat row of features."""


@dataclass(frozen=True)
class Network:
    """What the kernels run."""

    layers: tuple[Layer, ...]
    outputs: int
    loss: int
    log_softmax: bool
    profiled: int
    """Which layer is profiled."""
    source: Shape
    """Shape of a sample."""
    flat_source: bool
    """Whether the first layer takes a sample as one flat row of features."""


@dataclass
class _Builder:
    shape: Shape
    flat: bool
    layers: list[Layer] = field(default_factory=list)
    log_softmax: bool = False
    flat_source: bool = False

    def add(self, name: str, module: nn.Module) -> None:
        if self.log_softmax:
            raise UnsupportedError(f"{name} comes after LogSoftmax, which must be last")
        kind = type(module)
        if module._forward_hooks or module._forward_pre_hooks:
            raise UnsupportedError(f"{name} has forward hooks")
        if kind in _ACTIVATIONS:
            self._activation(_ACTIVATIONS[kind])
        elif kind in _HANDLERS:
            _HANDLERS[kind](self, name, module)
        else:
            raise UnsupportedError(f"{name} is a {kind.__name__}, which has no native kernel")

    def _push(self, layer: Layer) -> None:
        self.layers.append(layer)
        self.shape = layer.shape

    def _activation(self, function: int) -> None:
        if self.layers and self.layers[-1].activation == records.NONE:
            self.layers[-1] = replace(self.layers[-1], activation=function)
        else:
            self._push(Layer(records.COPY, self.shape, self.shape, activation=function, flattened=self.flat))

    def linear(self, name: str, module: nn.Linear) -> None:
        if not self.flat:
            raise UnsupportedError(f"{name} is applied to images; put a Flatten before it")
        if module.in_features != self.shape[0]:
            raise UnsupportedError(f"{name} expects {module.in_features} features but gets {self.shape[0]}")
        shape = (module.out_features, 1, 1)
        self._push(Layer(records.DENSE, self.shape, shape, name, bias=module.bias is not None, flattened=True))

    def convolution(self, name: str, module: nn.Conv2d) -> None:
        if self.flat or module.in_channels != self.shape[0]:
            raise UnsupportedError(f"{name} expects images of {module.in_channels} channels but gets {self.shape}")
        if module.groups != 1 or module.dilation != (1, 1) or module.padding_mode != "zeros":
            raise UnsupportedError(f"{name} has groups, dilation or a padding other than zeros")
        kernel, stride = _pair(module.kernel_size), _pair(module.stride)
        padding = _padding(name, module)
        size = tuple(
            (length + 2 * pad - k) // s + 1
            for length, pad, k, s in zip(self.shape[1:], padding, kernel, stride, strict=True)
        )
        _check_size(name, size)
        shape = (module.out_channels, size[0], size[1])
        self._push(
            Layer(
                records.CONVOLUTION, self.shape, shape, name, bias=module.bias is not None, kernel=kernel,
                stride=stride, padding=padding, map=(size[0], size[1]),
            )
        )  # fmt: skip

    def pooling(self, name: str, module: nn.MaxPool2d | nn.AvgPool2d) -> None:
        kernel, stride = _pair(module.kernel_size), _pair(module.stride)
        average = isinstance(module, nn.AvgPool2d)
        plain = module.divisor_override is None if average else _pair(module.dilation) == (1, 1)
        if _pair(module.padding) != (0, 0) or module.ceil_mode or not plain or getattr(module, "return_indices", False):
            raise UnsupportedError(f"{name} pools with padding, dilation, ceil_mode, indices or a divisor of its own")
        if self.flat:
            raise UnsupportedError(f"{name} pools, but its input is flat")
        size = tuple((n - k) // s + 1 for n, k, s in zip(self.shape[1:], kernel, stride, strict=True))
        _check_size(name, size)
        shape = (self.shape[0], size[0], size[1])
        last = self.layers[-1] if self.layers else None
        if not average and last and last.kind == records.CONVOLUTION and not last.pool and kernel == stride:
            # Every activation here is increasing, so pooling may come first: there is less left to activate.
            self.layers[-1] = replace(last, pool=kernel, pool_stride=stride, shape=shape)
            self.shape = shape
            return
        kind = records.MEAN_POOL if average else records.MAX_POOL
        self._push(Layer(kind, self.shape, shape, name, pool=kernel, pool_stride=stride))

    def flatten(self, name: str, module: nn.Flatten) -> None:
        if module.start_dim != 1 or module.end_dim not in {-1, 3}:
            raise UnsupportedError(f"{name} flattens some dimensions only")
        if self.layers:
            self.layers[-1] = replace(self.layers[-1], flattened=True)
        else:
            self.flat_source = True
        self.shape, self.flat = (prod(self.shape), 1, 1), True

    def logarithm(self, name: str, module: nn.LogSoftmax) -> None:
        if module.dim not in {1, -1}:
            raise UnsupportedError(f"{name} works on dimension {module.dim}; only 1 (the classes) is supported")
        self.log_softmax = True

    def nothing(self, name: str, module: nn.Module) -> None:
        pass


_HANDLERS: dict[type[nn.Module], Callable[[_Builder, str, Any], None]] = {
    nn.Linear: _Builder.linear,
    nn.Conv2d: _Builder.convolution,
    nn.MaxPool2d: _Builder.pooling,
    nn.AvgPool2d: _Builder.pooling,
    nn.Flatten: _Builder.flatten,
    nn.LogSoftmax: _Builder.logarithm,
    nn.Identity: _Builder.nothing,
}


def read_network(workload: Workload) -> Network:
    """Translate a workload's model; raises ``UnsupportedError`` where the kernels lack something."""
    if not isinstance(workload.loss, str) or workload.loss not in _LOSSES:
        raise UnsupportedError(f"the loss is {workload.loss!r}; native ones are {', '.join(_LOSSES)}")
    builder = _Builder(*_source(workload.clients.pool.x.shape[1:]))
    source, builder.flat_source = builder.shape, builder.flat
    seen: set[int] = set()
    for name, module in _parts(workload.model, ""):
        if id(module) in seen and any(True for _ in module.parameters()):
            raise UnsupportedError(f"{name} is used twice")
        seen.add(id(module))
        builder.add(name, module)
    _check_end(workload, builder)
    loss = _LOSSES[workload.loss]
    if loss == records.NLL and builder.log_softmax:
        loss = records.CROSS_ENTROPY  # the same function of what comes before LogSoftmax
    layers, outputs = tuple(builder.layers), builder.shape[0]
    profiled = _profiled(workload, builder)
    return Network(layers, outputs, loss, builder.log_softmax, profiled, source, builder.flat_source)


def _source(shape: tuple[int, ...]) -> tuple[Shape, bool]:
    if len(shape) == 1:
        return (shape[0], 1, 1), True
    if len(shape) == 3:
        return (shape[0], shape[1], shape[2]), False
    raise UnsupportedError(
        f"a sample has shape {shape}; only features (n,) and images (channels, rows, columns) are known"
    )


def _parts(module: nn.Module, name: str) -> Iterator[tuple[str, nn.Module]]:
    """Modules in the order they run."""
    if type(module).forward is not nn.Sequential.forward:
        yield name, module
        return
    if module._forward_hooks or module._forward_pre_hooks:
        raise UnsupportedError(f"{name or 'the model'} has forward hooks")
    for child, part in module._modules.items():  # named_children() leaves out a module's second use
        assert part is not None
        yield from _parts(part, f"{name}.{child}" if name else child)


def _check_end(workload: Workload, builder: _Builder) -> None:
    if not any(layer.kind in {records.DENSE, records.CONVOLUTION} for layer in builder.layers):
        raise UnsupportedError("the model has nothing to train")
    if any(not parameter.requires_grad for parameter in workload.model.parameters()):
        raise UnsupportedError("some parameters are frozen")
    if not builder.flat:
        raise UnsupportedError("the output is not flat; end with Flatten or Linear")
    if workload.loss == "mse" and builder.log_softmax:
        raise UnsupportedError("mse of log-probabilities has no native kernel")


def _profiled(workload: Workload, builder: _Builder) -> int:
    for index, layer in enumerate(builder.layers):
        if layer.name == workload.layer and layer.kind in {records.DENSE, records.CONVOLUTION}:
            return index
    raise UnsupportedError(f"the profiled layer {workload.layer!r} is not a Linear or Conv2d of the model")


def _pair(value: Any) -> Pair:
    return (value, value) if isinstance(value, int) else (value[0], value[-1])


def _padding(name: str, module: nn.Conv2d) -> Pair:
    if not isinstance(module.padding, str):
        return _pair(module.padding)
    if module.padding == "valid":
        return (0, 0)
    if any(k % 2 == 0 for k in module.kernel_size):
        raise UnsupportedError(f"{name} pads 'same' around an even kernel, which is lopsided")
    return (module.kernel_size[0] // 2, module.kernel_size[1] // 2)


def _check_size(name: str, size: tuple[int, ...]) -> None:
    if min(size) < 1:
        raise UnsupportedError(f"{name} is larger than its input")
