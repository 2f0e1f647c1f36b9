"""Layers that hold M models at once.

Activations are ``[M, C, B, height, width]``: channels come before the batch, so that a pointwise convolution is one
batched matrix product without a copy. Channels stay dimension 1, so a model's own ``forward`` works as it is, provided
it counts other dimensions from the end. Dense layers turn ``[M, B, features]`` into ``[M, B, outputs]``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from fedprof.errors import SettingsError


class Convolution(nn.Module):
    """M convolutions side by side."""

    def __init__(self, one: nn.Conv2d, models: int) -> None:
        super().__init__()
        if one.dilation != (1, 1) or one.padding_mode != "zeros" or isinstance(one.padding, str):
            raise SettingsError("the stacked engine has no dilated, reflected or 'same' convolutions")
        if one.groups not in (1, one.in_channels) or (one.groups > 1 and one.out_channels != one.in_channels):
            raise SettingsError("the stacked engine has plain and depthwise convolutions only")
        self.kernel, self.stride, self.padding = one.kernel_size, one.stride, one.padding
        self.depthwise = one.groups > 1
        self.weight = _stack(one.weight, models)
        self.bias = None if one.bias is None else _stack(one.bias, models)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Convolve each model's images with its own kernels."""
        if self.depthwise:
            out = self._depthwise(x)
        elif self.kernel == (1, 1) and self.stride == (1, 1) and self.padding == (0, 0):
            out = torch.bmm(self.weight.flatten(2).squeeze(-1), x.flatten(2)).unflatten(2, x.shape[2:])
        else:
            out = self._general(x)
        return out if self.bias is None else out + self.bias[:, :, None, None, None]

    def _depthwise(self, x: torch.Tensor) -> torch.Tensor:
        images, kernels = x.flatten(0, 1).transpose(0, 1), self.weight.flatten(0, 1)
        out = functional.conv2d(images, kernels, None, self.stride, self.padding, groups=len(kernels))
        folded: torch.Tensor = out.transpose(0, 1).unflatten(0, x.shape[:2])
        return folded

    def _general(self, x: torch.Tensor) -> torch.Tensor:
        models, _, batch, height, width = x.shape
        patches = functional.unfold(x.transpose(1, 2).flatten(0, 1), self.kernel, 1, self.padding, self.stride)
        patches = patches.unflatten(0, (models, batch)).transpose(1, 2).flatten(2)
        out = torch.bmm(self.weight.flatten(2), patches)
        sizes = [
            (size + 2 * pad - kernel) // step + 1
            for size, pad, kernel, step in zip((height, width), self.padding, self.kernel, self.stride, strict=True)
        ]
        unfolded: torch.Tensor = out.unflatten(2, (batch, *sizes))
        return unfolded


class BatchNorm(nn.Module):
    """M batch normalisations side by side, each with its own statistics."""

    running_mean: torch.Tensor
    running_var: torch.Tensor

    def __init__(self, one: nn.BatchNorm2d, models: int) -> None:
        super().__init__()
        self.momentum, self.eps = one.momentum, one.eps
        self.weight, self.bias = _stack(one.weight, models), _stack(one.bias, models)
        self.register_buffer("running_mean", _stacked(one.running_mean, models))
        self.register_buffer("running_var", _stacked(one.running_var, models))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise: to batch_norm, every (model, channel) is a channel and the batch is part of the image."""
        flat = x.reshape(1, x.shape[0] * x.shape[1], -1)
        out = functional.batch_norm(
            flat,
            self.running_mean.view(-1),
            self.running_var.view(-1),
            self.weight.view(-1),
            self.bias.view(-1),
            self.training,
            self.momentum if self.momentum is not None else 0.1,
            self.eps,
        )
        return out.view(x.shape)


class Pool(nn.Module):
    """Max or average pooling of all models' images alike."""

    def __init__(self, one: nn.MaxPool2d | nn.AvgPool2d) -> None:
        super().__init__()
        self.one = one

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Pool."""
        out: torch.Tensor = self.one(x.flatten(0, 1)).unflatten(0, x.shape[:2])
        return out


class Flatten(nn.Module):
    """From images (or features) channels first to ``[M, B, features]``."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Bring the batch before the channels."""
        return x.transpose(1, 2).flatten(2)


class Dense(nn.Module):
    """M dense layers side by side; takes ``[M, B, features]``, or ``[M, C, B]`` as a global mean leaves it."""

    def __init__(self, one: nn.Linear, models: int) -> None:
        super().__init__()
        self.features = one.in_features
        self.weight = _stack(one.weight, models)
        self.bias = None if one.bias is None else _stack(one.bias, models)
        self.channels_first = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply each model's batch by its own weights."""
        out = torch.matmul(x.transpose(1, 2) if self.channels_first else x, self.weight.transpose(1, 2))
        return out if self.bias is None else out + self.bias[:, None]


_SAME = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.Identity)


def stack(model: nn.Module, models: int) -> nn.Module:
    """Copy a model with every layer holding ``models`` copies; parameter and buffer names stay."""
    stacked = _convert(copy.deepcopy(model), models)
    if not any(isinstance(part, Flatten) for part in stacked.modules()):
        for part in stacked.modules():
            if isinstance(part, Dense):
                part.channels_first = True
                break
    return stacked


def _convert(part: nn.Module, models: int) -> nn.Module:
    for kind, make in _COUNTERPARTS.items():
        if isinstance(part, kind):
            return make(part, models)
    children = list(part.named_children())
    if not children and not isinstance(part, _SAME):
        raise SettingsError(f"the stacked engine has no {type(part).__name__}; use the torch engine")
    for name, child in children:
        setattr(part, name, _convert(child, models))
    return part


_COUNTERPARTS: dict[type[nn.Module], Callable[[Any, int], nn.Module]] = {
    nn.Conv2d: Convolution,
    nn.BatchNorm2d: BatchNorm,
    nn.Linear: Dense,
    nn.MaxPool2d: lambda one, _: Pool(one),
    nn.AvgPool2d: lambda one, _: Pool(one),
    nn.Flatten: lambda _one, _: Flatten(),
    nn.LogSoftmax: lambda _one, _: nn.LogSoftmax(dim=-1),
}


def _stacked(tensor: torch.Tensor | None, models: int) -> torch.Tensor:
    if tensor is None:
        raise SettingsError("the stacked engine needs batch normalisation with weights and running statistics")
    return tensor.detach().expand(models, *tensor.shape).clone()


def _stack(tensor: torch.Tensor, models: int) -> nn.Parameter:
    return nn.Parameter(_stacked(tensor, models))
