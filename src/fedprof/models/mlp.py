"""Multi-layer perceptron: dense layers with ReLU between them."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Sequence

from torch import nn


def mlp(inputs: int = 11, outputs: int = 2, hidden: Sequence[int] = (64, 32)) -> nn.Sequential:
    """Build ``flatten, fc1, relu1, fc2, ...``; the last dense layer has no activation."""
    layers: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
    widths = [inputs, *hidden, outputs]
    for depth, (fan_in, fan_out) in enumerate(itertools.pairwise(widths), start=1):
        layers[f"fc{depth}"] = nn.Linear(fan_in, fan_out)
        if depth <= len(hidden):
            layers[f"relu{depth}"] = nn.ReLU()
    return nn.Sequential(layers)
