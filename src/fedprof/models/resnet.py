"""ResNet-18, with the ImageNet stem and with a stride-1 stem for 32 x 32 images.

K. He, X. Zhang, S. Ren and J. Sun, "Deep residual learning for image recognition", CVPR 2016. Parts carry torchvision's
names, so its published weights fit.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import nn


def _convolution(inputs: int, outputs: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)


class Block(nn.Module):
    """Two convolutions and a skip connection: the residual block of the paper's appendix."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _convolution(inputs, outputs, stride)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = _convolution(outputs, outputs, 1)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride > 1 or inputs != outputs:
            projection = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.downsample = nn.Sequential(projection, nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the (projected) input to what the convolutions make of it."""
        skip = x if self.downsample is None else self.downsample(x)
        out = torch.relu_(self.bn1(self.conv1(x)))
        return torch.relu_(self.bn2(self.conv2(out)) + skip)


class ResNet18(nn.Module):
    """Stem, four stages of two residual blocks, global mean and a dense layer."""

    def __init__(self, classes: int, channels: int, small_images: bool) -> None:
        super().__init__()
        if small_images:
            self.conv1 = _convolution(channels, 64, 1)
            self.maxpool: nn.Module = nn.Identity()
        else:
            self.conv1 = nn.Conv2d(channels, 64, 7, 2, padding=3, bias=False)
            self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = _stage(64, 64, 1)
        self.layer2 = _stage(64, 128, 2)
        self.layer3 = _stage(128, 256, 2)
        self.layer4 = _stage(256, 512, 2)
        self.fc = nn.Linear(512, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Give one unnormalised score a class."""
        x = self.maxpool(torch.relu_(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return cast("torch.Tensor", self.fc(x.mean((-2, -1))))


def _stage(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    return nn.Sequential(Block(inputs, outputs, stride), Block(outputs, outputs, 1))


def resnet18(classes: int = 10, channels: int = 3, small_images: bool = False) -> ResNet18:
    """Build ResNet-18; ``small_images`` takes the stride-1 stem, else images shrink fourfold in the stem."""
    return ResNet18(classes, channels, small_images)
