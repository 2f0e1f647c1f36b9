"""ShuffleNet v2, with its own stem and with a stride-1 stem for 32 x 32 images.

N. Ma, X. Zhang, H.-T. Zheng and J. Sun, "ShuffleNet V2: practical guidelines for efficient CNN architecture design",
ECCV 2018. Parts carry torchvision's names, so its published weights fit.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import nn

from fedprof.errors import SettingsError

_WIDTHS = {0.5: (48, 96, 192, 1024), 1.0: (116, 232, 464, 1024), 1.5: (176, 352, 704, 1024), 2.0: (244, 488, 976, 2048)}
_REPEATS = (4, 8, 4)
_STEM_WIDTH = 24
_SMALL_PRODUCT = 1_000_000
"""Multiplications up to which starting a convolution costs more than doing it (measured)."""


def interleave(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Join and shuffle in one copy: channels of both branches alternate, so that the next unit mixes them."""
    if second.is_contiguous(memory_format=torch.channels_last) and not second.is_contiguous():
        last = torch.stack((first.permute(0, 2, 3, 1), second.permute(0, 2, 3, 1)), dim=-1)
        return last.flatten(-2).permute(0, 3, 1, 2)
    return torch.stack((first, second), dim=2).flatten(1, 2)


class Pointwise(nn.Conv2d):
    """A 1 x 1 convolution; a small one runs as the dense layer it is, which starts several times faster on a CPU."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Mix the channels of each position."""
        positions, products = x[0, 0].numel(), x[:, 0].numel() * self.weight.numel()
        if positions > 1 and products > _SMALL_PRODUCT:
            return super().forward(x)
        return nn.functional.linear(x.permute(0, 2, 3, 1), self.weight.flatten(1)).permute(0, 3, 1, 2)


class Depthwise(nn.Conv2d):
    """A 3 x 3 convolution of each channel alone; on a map of one position only the kernel's centre counts."""

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__(channels, channels, 3, stride, padding=1, groups=channels, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Filter every channel."""
        if x[0, 0].numel() > 1:
            return super().forward(x)
        return x * self.weight[:, 0, 1, 1].view(-1, 1, 1)


def _pointwise(inputs: int, outputs: int) -> list[nn.Module]:
    return [Pointwise(inputs, outputs), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]


def _depthwise(channels: int, stride: int) -> list[nn.Module]:
    return [Depthwise(channels, stride), nn.BatchNorm2d(channels)]


class Unit(nn.Module):
    """A basic unit (half of the channels pass untouched) or, with stride 2, a down-sampling unit (all are worked)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        half = outputs // 2
        entering = inputs if stride > 1 else half
        self.branch1 = nn.Sequential(*_depthwise(inputs, stride), *_pointwise(inputs, half)) if stride > 1 else None
        self.branch2 = nn.Sequential(*_pointwise(entering, half), *_depthwise(half, stride), *_pointwise(half, half))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run both branches, join them and shuffle."""
        if self.branch1 is None:
            kept, worked = x.chunk(2, dim=1)
        else:
            kept, worked = self.branch1(x), x
        return interleave(kept, self.branch2(worked))


class ShuffleNetV2(nn.Module):
    """Stem, three stages of units, a last pointwise convolution, global mean and a dense layer."""

    def __init__(self, classes: int, channels: int, widths: tuple[int, int, int, int], small_images: bool) -> None:
        super().__init__()
        stride = 1 if small_images else 2
        stem = nn.Conv2d(channels, _STEM_WIDTH, 3, stride, padding=1, bias=False)
        self.conv1 = nn.Sequential(stem, nn.BatchNorm2d(_STEM_WIDTH), nn.ReLU(inplace=True))
        self.maxpool = nn.Identity() if small_images else nn.MaxPool2d(3, 2, padding=1)
        self.stage2 = _stage(_STEM_WIDTH, widths[0], _REPEATS[0])
        self.stage3 = _stage(widths[0], widths[1], _REPEATS[1])
        self.stage4 = _stage(widths[1], widths[2], _REPEATS[2])
        self.conv5 = nn.Sequential(*_pointwise(widths[2], widths[3]))
        self.fc = nn.Linear(widths[3], classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Give one unnormalised score a class."""
        x = self.maxpool(self.conv1(x))
        x = self.conv5(self.stage4(self.stage3(self.stage2(x))))
        return cast("torch.Tensor", self.fc(x.mean((-2, -1))))


def _stage(inputs: int, outputs: int, units: int) -> nn.Sequential:
    return nn.Sequential(Unit(inputs, outputs, 2), *(Unit(outputs, outputs, 1) for _ in range(units - 1)))


def shufflenet(classes: int = 10, channels: int = 3, width: float = 0.5, small_images: bool = False) -> ShuffleNetV2:
    """Build ShuffleNet v2; ``small_images`` takes the stride-1 stem, else images shrink fourfold in the stem."""
    if width not in _WIDTHS:
        raise SettingsError(f"ShuffleNet v2 comes in widths {', '.join(map(str, _WIDTHS))}, not {width}")
    return ShuffleNetV2(classes, channels, _WIDTHS[width], small_images)
