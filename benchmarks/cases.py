"""The workloads that ``micro.py`` times: a model, its data, how clients train, which of them do."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from fedprof.data.clients import ClientData, Samples
from fedprof.models.registry import create
from fedprof.models.shufflenet import Pointwise, ShuffleNetV2, Unit
from fedprof.training.engine import Recipe, Workload
from fedprof.training.metrics import Regression, classification


@dataclass(frozen=True)
class Case:
    """One workload and its cohort."""

    name: str
    workload: Workload
    recipe: Recipe
    cohort: list[int]


def w1(batch: int = 8) -> Case:
    """GasTurbine: a small MLP."""
    rng = np.random.default_rng(0)
    sizes = np.maximum(rng.normal(514, 101, 50).astype(int), 8)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    x = rng.normal(size=(offsets[-1], 11)).astype(np.float32)
    y = rng.normal(size=(offsets[-1], 2)).astype(np.float32)
    torch.manual_seed(0)
    layers = OrderedDict(fc1=nn.Linear(11, 64), r1=nn.ReLU(), fc2=nn.Linear(64, 32), r2=nn.ReLU(), out=nn.Linear(32, 2))
    metric = Regression(np.array([70.0, 60.0]), np.array([10.0, 10.0]))
    held_out = Samples(x[:11_000], y[:11_000])
    work = Workload(
        nn.Sequential(layers), "fc1", ClientData(Samples(x, y), offsets), held_out, "mse", metric, evaluation_batch=256
    )
    return Case(f"W1: MLP 11-64-32-2, batch {batch}", work, Recipe(2, batch, 0.005), list(range(10)))


def images(
    name: str, model: nn.Module, layer: str, batch: int, *, side: int = 28, channels: int = 1, epochs: int = 1,
    clients: int = 2, samples: int = 480, validation: int = 200, loss: str = "ce", evaluation_batch: int = 64,
) -> Case:  # fmt: skip
    """Image classification."""
    rng = np.random.default_rng(0)
    pool = rng.integers(0, 256, (clients * samples, channels, side, side), dtype=np.uint8)
    labels = rng.integers(0, 10, len(pool))
    shift, scale = np.float32(44.2), np.float32(84.6)
    rows = rng.integers(0, len(pool), validation)
    held_out = Samples(pool[rows], labels[rows], shift, scale)
    data = ClientData(Samples(pool, labels, shift, scale), np.arange(0, len(pool) + 1, samples))
    work = Workload(model, layer, data, held_out, loss, classification, evaluation_batch=evaluation_batch)
    return Case(f"{name}, batch {batch}", work, Recipe(epochs, batch, 0.005), list(range(clients)))


def w2() -> Case:
    """EMNIST: the classic LeNet-5."""
    model = create("lenet5", 0)
    return images("W2: LeNet-5", model, "fc1", 32, epochs=5, clients=25, validation=40_000, loss="nll")


def sweep() -> list[Case]:
    """Other widths, batch sizes and image sizes than W1's and W2's, with small cohorts."""
    cases = [w1(batch) for batch in (8, 32, 128)]
    cases += [images("LeNet-5", create("lenet5", 0), "fc1", batch, loss="nll") for batch in (8, 16, 32, 64, 128)]
    for side in (20, 40, 64):
        model = create("lenet5", 0, side=side)
        cases.append(images(f"LeNet-5, {side} x {side}", model, "fc1", 32, side=side, loss="nll"))
    for batch in (8, 32, 128):
        cases.append(images("LeNet 20-50-500", create("lenet-caffe", 0), "fc1", batch))
        cases.append(images("3x3 CNN 32-64, 32 x 32 x 3", small_kernels(), "7", batch, side=32, channels=3))
    for batch in (32, 256):
        cases.append(
            images("MLP 784-2048-2048-10", create("mlp", 0, inputs=784, hidden=[2048, 2048], outputs=10), "fc1", batch)
        )
    return cases


def small_kernels() -> nn.Module:
    """3 x 3 convolutions of 32 and 64 channels."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 64, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def any_module() -> list[Case]:
    """Models for the torch engine: what the native one takes, and what it does not."""
    mine, textbook = create("shufflenet-x0.5-cifar", 0), as_published(create("shufflenet-x0.5-cifar", 0))
    colour = {"side": 32, "channels": 3, "clients": 4, "samples": 240, "validation": 500}
    lstm = create("lstm", 0)
    sequences = images("LSTM 28 x 28", lstm, "lstm", 32, clients=4, validation=2000)
    lenet = images("LeNet-5", create("lenet5", 0), "fc1", 32, epochs=2, clients=4, validation=4000, loss="nll")
    resnet = images("ResNet-18 (CIFAR)", create("resnet18-cifar", 0), "layer4", 16, **{**colour, "samples": 32})
    return [
        w1(),
        lenet,
        sequences,
        resnet,
        images("ShuffleNet x0.5 (CIFAR), ours", mine, "conv5.0", 16, **colour, evaluation_batch=32),
        images("ShuffleNet x0.5 (CIFAR), as published", textbook, "conv5.0", 16, **colour, evaluation_batch=32),
    ]


def as_published(model: ShuffleNetV2) -> ShuffleNetV2:
    """ShuffleNet v2 as published code writes it: plain 1 x 1 and depthwise convolutions, join, then shuffle."""
    for part in list(model.modules()):
        for name, child in part.named_children():
            if isinstance(child, nn.Conv2d):
                setattr(part, name, _plain_convolution(child))
        if isinstance(part, Unit):
            part.forward = _textbook_forward.__get__(part)
    assert not any(isinstance(part, Pointwise) for part in model.modules())
    return model


def _plain_convolution(one: nn.Conv2d) -> nn.Conv2d:
    shape = {"stride": one.stride, "padding": one.padding, "groups": one.groups, "bias": one.bias is not None}
    plain = nn.Conv2d(one.in_channels, one.out_channels, one.kernel_size, **shape)
    plain.load_state_dict(one.state_dict())
    return plain


def _textbook_forward(unit: Unit, x: torch.Tensor) -> torch.Tensor:
    kept, worked = x.chunk(2, dim=1) if unit.branch1 is None else (unit.branch1(x), x)
    joined = torch.cat((kept, unit.branch2(worked)), dim=1)
    images, channels, height, width = joined.shape
    return joined.view(images, 2, channels // 2, height, width).transpose(1, 2).reshape(joined.shape)
