"""Model, data, loss and evaluation of the racers that train with PyTorch."""

from __future__ import annotations

import math

import torch
from torch import nn
from workload import Data, Workload, standardised

Pair = tuple[torch.Tensor, torch.Tensor]


def model_of(work: Workload) -> nn.Sequential:
    """The MLP 11-64-32-2 or the classic LeNet-5 (61,706 weights); what FedProf profiles is called ``fc1``."""
    torch.manual_seed(0)
    if work.regression:
        layers = {"fc1": nn.Linear(11, 64), "relu1": nn.ReLU(), "fc2": nn.Linear(64, 32), "relu2": nn.ReLU()}
        layers["fc3"] = nn.Linear(32, 2)
    else:
        layers = {"conv1": nn.Conv2d(1, 6, 5, padding=2), "relu1": nn.ReLU(), "pool1": nn.MaxPool2d(2)}
        layers |= {"conv2": nn.Conv2d(6, 16, 5), "relu2": nn.ReLU(), "pool2": nn.MaxPool2d(2), "flat": nn.Flatten()}
        layers |= {"fc1": nn.Linear(400, 120), "relu3": nn.ReLU(), "fc2": nn.Linear(120, 84), "relu4": nn.ReLU()}
        layers |= {"fc3": nn.Linear(84, 10), "logsoftmax": nn.LogSoftmax(dim=1)}
    model = nn.Sequential()
    for name, layer in layers.items():
        model.add_module(name, layer)
    return model


def loss_of(work: Workload) -> nn.Module:
    return nn.MSELoss() if work.regression else nn.NLLLoss()


def tensors(x, y) -> Pair:
    return torch.from_numpy(standardised(x)), torch.from_numpy(y)


def client_tensors(data: Data) -> list[Pair]:
    """Every client's samples, standardised once, as views."""
    x, y = tensors(data.x, data.y)
    return [(x[span], y[span]) for span in data.spans]


@torch.no_grad()
def evaluate(model: nn.Module, held_out: Pair, work: Workload) -> tuple[float, float]:
    """Loss and, for images, accuracy."""
    x, y = held_out
    outputs = torch.cat([model(part) for part in x.split(work.evaluation_batch)])
    accuracy = 0.0 if work.regression else float((outputs.argmax(1) == y).float().mean())
    return float(loss_of(work)(outputs, y)), accuracy


class Batches:
    """Mini-batches of one client in a new random order every epoch: a data loader without a data loader's cost."""

    def __init__(self, pair: Pair, batch: int) -> None:
        self.pair, self.batch = pair, batch

    def __len__(self) -> int:
        return math.ceil(len(self.pair[1]) / self.batch)

    def __iter__(self):
        x, y = self.pair
        for rows in torch.randperm(len(y)).split(self.batch):
            yield x[rows], y[rows]
