"""LeNet: the classic LeNet-5 and the wider one that Caffe made common.

Y. LeCun, L. Bottou, Y. Bengio and P. Haffner, "Gradient-based learning applied to document recognition", Proceedings of
the IEEE 86(11), 1998. Both are the modern form: full connections between feature maps, max-pooling, log-softmax.
"""

from __future__ import annotations

from collections import OrderedDict

from torch import nn


def lenet5(classes: int = 10, channels: int = 1, side: int = 28) -> nn.Sequential:
    """Build the 6-16-120-84 network with ReLU (61,706 parameters for 28 x 28 images in ten classes)."""
    # Two cells of padding make the original's 32 x 32 field from 28 x 28 images.
    map_side = (side // 2 - 4) // 2
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(channels, 6, 5, padding=2),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(2),
            conv2=nn.Conv2d(6, 16, 5),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(2),
            flatten=nn.Flatten(),
            fc1=nn.Linear(16 * map_side**2, 120),
            relu3=nn.ReLU(),
            fc2=nn.Linear(120, 84),
            relu4=nn.ReLU(),
            fc3=nn.Linear(84, classes),
            logsoftmax=nn.LogSoftmax(dim=1),
        )
    )


def lenet_caffe(classes: int = 10, channels: int = 1, side: int = 28) -> nn.Sequential:
    """Build the 20-50-500 network (431,080 parameters for 28 x 28 images in ten classes)."""
    map_side = ((side - 4) // 2 - 4) // 2
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(channels, 20, 5),
            pool1=nn.MaxPool2d(2),
            conv2=nn.Conv2d(20, 50, 5),
            pool2=nn.MaxPool2d(2),
            flatten=nn.Flatten(),
            fc1=nn.Linear(50 * map_side**2, 500),
            relu1=nn.ReLU(),
            fc2=nn.Linear(500, classes),
            logsoftmax=nn.LogSoftmax(dim=1),
        )
    )
