"""Small workloads, and the plain PyTorch loop every engine has to agree with."""

from __future__ import annotations

import copy
import os
import signal

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedprof.data.clients import ClientData, Samples
from fedprof.models.registry import create
from fedprof.models.weights import flatten, load
from fedprof.randomness import stream
from fedprof.training.engine import Workload
from fedprof.training.metrics import classification

LOSSES = {"mse": functional.mse_loss, "nll": functional.nll_loss, "ce": functional.cross_entropy}


def workload(model, shape, *, layer, sizes=(37, 20, 1), loss="ce", classes=4, seed=3, **options):
    """Build a workload of noisy prototypes; the client sizes leave ragged last batches."""
    rng = stream(seed, "test data")
    prototypes = rng.normal(size=(classes, *shape)).astype(np.float32)

    def samples(count):
        labels = rng.integers(0, classes, count)
        x = prototypes[labels] + rng.normal(size=(count, *shape)).astype(np.float32)
        return Samples(x.astype(np.float32), labels)

    clients = ClientData(samples(sum(sizes)), np.cumsum([0, *sizes]))
    return Workload(model, layer, clients, samples(70), loss, classification, seed, evaluation_batch=32, **options)


def mlp(**options):
    return workload(create("mlp", 0, inputs=6, hidden=(9,), outputs=4), (6,), layer="fc1", **options)


def lenet(**options):
    return workload(create("lenet5", 0, classes=4), (1, 28, 28), layer="fc1", loss="nll", **options)


def lstm(**options):
    return workload(create("lstm", 0, features=5, classes=4, hidden=8), (7, 5), layer="lstm", **options)


def normalised(**options):
    """Build a convolutional model with batch normalisation and a depthwise convolution."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1, bias=False),
        nn.BatchNorm2d(6),
        nn.ReLU(inplace=True),
        nn.Conv2d(6, 6, 3, padding=1, groups=6),
        nn.BatchNorm2d(6),
        nn.Flatten(),
        nn.Linear(6 * 64, 4),
    )
    return workload(model, (2, 8, 8), layer="3", **{"sizes": (37, 20, 33), **options})


def dropped(**options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 4))
    return workload(model, (6,), layer="0", **options)


CASES = {"mlp": mlp, "lenet": lenet, "lstm": lstm, "batch norm": normalised, "dropout": dropped}


def plain_training(work, weights, round, client, recipe, smallest=1):
    """Train as anybody would write it: torch.optim.SGD, and the proximal term in the objective."""
    model = copy.deepcopy(work.model).train()
    load(model, weights)
    received = [parameter.detach().clone() for parameter in model.parameters()]
    optimiser = torch.optim.SGD(
        model.parameters(), recipe.rate, momentum=recipe.momentum, weight_decay=recipe.weight_decay
    )
    x, y = map(torch.tensor, work.clients.samples(client))
    shuffle = stream(work.seed, "shuffle", round, client)
    losses = []
    for epoch in range(recipe.epochs):
        for batch in np.split(order := shuffle.permutation(len(y)), range(recipe.batch, len(order), recipe.batch)):
            if len(batch) < smallest:
                continue
            loss = LOSSES[work.loss](model(x[batch]), y[batch])
            distance = sum((p - p0).square().sum() for p, p0 in zip(model.parameters(), received, strict=True))
            optimiser.zero_grad()
            (loss + recipe.proximal / 2 * distance).backward()
            optimiser.step()
            losses += [loss.item()] * len(batch) if epoch == 0 else []
    return flatten(model), float(np.mean(losses))


class Fragile(nn.Module):
    """Prints, and fails in the way a client's first input value asks for."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 4)

    def forward(self, x):
        print("a model may print")
        if x[0, 0] == BROKEN:
            raise ValueError("this sample is broken")
        if x[0, 0] == DEADLY:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.fc(x)


BROKEN, DEADLY = 1000.0, 2000.0


def fragile():
    """Client 1 makes the model raise, client 2 kills the process."""
    work = workload(Fragile(), (6,), layer="fc", sizes=(8, 8, 8))
    work.clients.pool.x[8:16, 0], work.clients.pool.x[16:24, 0] = BROKEN, DEADLY
    return work
