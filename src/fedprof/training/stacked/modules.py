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
from torch.nn.grad import conv2d_input

from fedprof.errors import SettingsError

Pair = tuple[int, ...]


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
        kernels = self.weight.flatten(0, 1)
        out: torch.Tensor = _depthwise(x.flatten(0, 1), kernels, self.stride, self.padding).unflatten(0, x.shape[:2])
        return out

    def _general(self, x: torch.Tensor) -> torch.Tensor:
        patches = _patches(x, self.kernel, self.stride, self.padding)
        out: torch.Tensor = torch.bmm(self.weight.flatten(2), patches.flatten(3).flatten(1, 2))
        return out.unflatten(2, patches.shape[3:])  # type: ignore[no-any-return]


class _Depthwise(torch.autograd.Function):
    """Depthwise convolution of ``[channels, batch, height, width]`` whose weight gradient is one matrix product.

    PyTorch's own kernel for that gradient was measured to take a third of a step.
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, kernels: torch.Tensor, stride: Pair, padding: Pair) -> torch.Tensor:
        """Convolve."""
        ctx.save_for_backward(x, kernels)
        ctx.stride, ctx.padding = stride, padding
        out = functional.conv2d(x.transpose(0, 1), kernels, None, stride, padding, groups=len(kernels))
        return out.transpose(0, 1).contiguous()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None, None]:
        """Gradients of input and kernels."""
        (x, kernels), (out,) = ctx.saved_tensors, gradients
        images = x.transpose(0, 1)
        groups, steps = len(kernels), (ctx.stride, ctx.padding)
        of_x = conv2d_input(images.shape, kernels, out.transpose(0, 1), *steps, groups=groups).transpose(0, 1)
        patches = _patches(x[:, None], tuple(kernels.shape[2:]), *steps).flatten(3).squeeze(1)
        of_kernels = torch.bmm(patches, out.flatten(1)[:, :, None]).view(kernels.shape)
        return of_x, of_kernels, None, None


_depthwise: Callable[..., torch.Tensor] = _Depthwise.apply


def _patches(x: torch.Tensor, kernel: Pair, stride: Pair, padding: Pair) -> torch.Tensor:
    """Patches of ``[M, C, B, height, width]`` as ``[M, C, kernel elements, B, height', width']``."""
    padded = functional.pad(x, (padding[1], padding[1], padding[0], padding[0]))
    windows = padded.unfold(3, kernel[0], stride[0]).unfold(4, kernel[1], stride[1])
    return windows.permute(0, 1, 5, 6, 2, 3, 4).flatten(2, 3)


class BatchNorm(nn.Module):
    """M batch normalisations side by side, each with its own statistics."""

    running_mean: torch.Tensor
    running_var: torch.Tensor

    def __init__(self, one: nn.BatchNorm2d, models: int) -> None:
        super().__init__()
        self.momentum, self.eps = 0.1 if one.momentum is None else one.momentum, one.eps
        self.weight, self.bias = _stack(one.weight, models), _stack(one.bias, models)
        self.register_buffer("running_mean", _stacked(one.running_mean, models))
        self.register_buffer("running_var", _stacked(one.running_var, models))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise every (model, channel) over batch and image, which lie together: a layer norm without affine part.

        batch_norm itself is meant for few channels and large batches.
        """
        rows = x.flatten(2)
        if self.training:
            rows, mean, rstd = torch.native_layer_norm(rows, rows.shape[2:], None, None, self.eps)
            self._remember(mean.detach().squeeze(2), rstd.detach().squeeze(2), rows.shape[2])
        else:
            rows = (rows - self.running_mean[:, :, None]) * (self.running_var + self.eps).rsqrt()[:, :, None]
        return torch.addcmul(self.bias[:, :, None], rows, self.weight[:, :, None]).view(x.shape)

    def _remember(self, mean: torch.Tensor, rstd: torch.Tensor, count: int) -> None:
        """Running statistics, with the unbiased variance, as nn.BatchNorm2d keeps them."""
        variance = (rstd.pow(-2) - self.eps) * (count / max(1, count - 1))
        self.running_mean.lerp_(mean, self.momentum)
        self.running_var.lerp_(variance, self.momentum)


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
