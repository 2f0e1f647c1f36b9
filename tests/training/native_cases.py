"""Small workloads for the native engine's tests, and what PyTorch makes of them."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedprof.data.clients import ClientData, Samples
from fedprof.randomness import stream
from fedprof.training.engine import Recipe, Workload
from fedprof.training.native.engine import NativeEngine

LOSSES = {"mse": functional.mse_loss, "nll": functional.nll_loss, "ce": functional.cross_entropy}


def flat(model):
    """All parameters, in ``named_parameters`` order."""
    return torch.cat([p.detach().flatten() for p in model.parameters()]).numpy().copy()


def squared_metric(outputs, targets):
    return 1 / (1 + np.square(outputs - targets).mean(axis=1, dtype=np.float64))


def class_metric(outputs, targets):
    return (outputs.argmax(axis=1) == targets).astype(np.float64)


def workload(model, shape, sizes=(40,), *, loss="nll", layer=None, outputs=10, seed=0, dtype=np.float32, held_out=50):
    """Random samples of a shape, dealt to clients of the sizes given, out of order."""
    rng = np.random.default_rng(seed)
    total = sum(sizes)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    data = ClientData(_samples(rng, total, shape, loss, outputs, dtype), offsets, rng.permutation(total))
    if layer is None:
        layer = next(name for name, part in model.named_modules() if isinstance(part, nn.Linear | nn.Conv2d))
    metric = squared_metric if loss == "mse" else class_metric
    return Workload(model, layer, data, _samples(rng, held_out, shape, loss, outputs, dtype), loss, metric, seed=seed)


def _samples(rng, count, shape, loss, outputs, dtype):
    x = rng.integers(0, 256, (count, *shape), dtype=np.uint8)
    y = rng.normal(size=(count, outputs)).astype(np.float32) if loss == "mse" else rng.integers(0, outputs, count)
    per_channel = (shape[0],) + (1,) * (len(shape) - 1)
    shift = rng.uniform(100, 150, per_channel).astype(np.float32)
    scale = rng.uniform(60, 90, per_channel).astype(np.float32)
    if dtype == np.uint8:
        return Samples(x, y, shift, scale)
    return Samples(((x - shift) / scale).astype(dtype), y)


def torch_training(work, weights, round, client, recipe):
    """What a plain loop makes of a client: its weights and mean first-epoch loss."""
    model = load(work.model, weights)
    optimiser = torch.optim.SGD(
        model.parameters(), recipe.rate, momentum=recipe.momentum, weight_decay=recipe.weight_decay
    )
    received = [p.detach().clone() for p in model.parameters()]
    x, y = map(torch.from_numpy, work.clients.samples(client))
    shuffle, total = stream(work.seed, "shuffle", round, client), 0.0
    for epoch in range(recipe.epochs):
        for rows in torch.from_numpy(shuffle.permutation(len(y))).split(recipe.batch):
            optimiser.zero_grad()
            loss = LOSSES[work.loss](model(x[rows]), y[rows])
            if epoch == 0:
                total += loss.item() * len(rows)
            pull = sum(((p - old) ** 2).sum() for p, old in zip(model.parameters(), received, strict=True))
            (loss + recipe.proximal / 2 * pull).backward()
            optimiser.step()
    return flat(model), total / len(y)


def load(model, weights):
    """A copy of a model with other weights."""
    model = copy.deepcopy(model)
    nn.utils.vector_to_parameters(torch.from_numpy(weights.copy()), model.parameters())
    return model


def torch_gradient(work, weights, client):
    """Gradient of a client's mean loss over all its samples, in float64."""
    model = load(work.model, weights).double()
    x, y = work.clients.samples(client)
    targets = torch.from_numpy(y)
    outputs = model(torch.from_numpy(x).double())
    LOSSES[work.loss](outputs, targets.double() if work.loss == "mse" else targets).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()]).numpy()


def native_gradient(work, weights, client):
    """The same from the kernels: what they leave in the arena after one step on one batch."""
    engine = NativeEngine(work, 1)
    size = int(work.clients.sizes[client])
    engine.train(weights, 1, [client], Recipe(1, size, 0.0))
    gradient = engine.last_gradient()
    engine.close()
    return gradient
