"""Two convolutions and two dense layers for small images.

H. B. McMahan, E. Moore, D. Ramage, S. Hampson and B. Agüera y Arcas, "Communication-efficient learning of deep networks
from decentralized data", AISTATS 2017 (1,663,370 parameters); and one of the same shape with 21,840, for quick runs.
"""

from __future__ import annotations

from collections import OrderedDict

from torch import nn


def cnn(
    classes: int = 10, channels: int = 1, side: int = 28, widths: tuple[int, int] = (32, 64), hidden: int = 512
) -> nn.Sequential:
    """Build the network of McMahan et al.: 5 x 5 convolutions that keep the size, each pooled to half."""
    return _network(classes, channels, (side // 2) // 2, widths, hidden=hidden, padding=2)


def small_cnn(classes: int = 10, channels: int = 1, side: int = 28) -> nn.Sequential:
    """Build the 10-20-50 network (21,840 parameters for 28 x 28 images in ten classes)."""
    return _network(classes, channels, ((side - 4) // 2 - 4) // 2, (10, 20), hidden=50, padding=0)


def _network(
    classes: int, channels: int, map_side: int, widths: tuple[int, int], *, hidden: int, padding: int
) -> nn.Sequential:
    first, second = widths
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(channels, first, 5, padding=padding),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(2),
            conv2=nn.Conv2d(first, second, 5, padding=padding),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(2),
            flatten=nn.Flatten(),
            fc1=nn.Linear(second * map_side**2, hidden),
            relu3=nn.ReLU(),
            fc2=nn.Linear(hidden, classes),
            logsoftmax=nn.LogSoftmax(dim=1),
        )
    )
