"""FedProx's local objective, through the engine that trains every algorithm's clients."""

import numpy as np
import torch
from torch import nn

from fedprof.algorithms.fedavg import FedAvg
from fedprof.algorithms.fedprox import FedProx
from fedprof.algorithms.registry import NAMES, create
from fedprof.data.clients import ClientData, Samples
from fedprof.models.weights import load
from fedprof.randomness import stream
from fedprof.training.engine import Recipe, Workload
from fedprof.training.torch_engine import TorchEngine

STEPS, RATE = 4, 0.1


def samples(client):
    rng = stream(0, "samples", client=client)
    return Samples(rng.normal(size=(12, 3)).astype(np.float32), rng.normal(size=(12, 1)).astype(np.float32))


def trained(algorithm):
    """One client's weights after a few full-batch steps, and where they started."""
    model, start = nn.Linear(3, 1), stream(0, "start").normal(size=4).astype(np.float32)
    load(model, start)
    clients = ClientData(samples(0), np.array([0, 12]))
    engine = TorchEngine(Workload(model, "", clients, samples(1), "mse", metric=lambda outputs, _: outputs[:, 0]))
    recipe = Recipe(epochs=STEPS, batch=12, rate=RATE, proximal=algorithm.proximal)
    return start, engine.train(start, 1, [0], recipe)[0].weights


def test_mu_zero_is_fedavgs_local_step_to_the_bit():
    assert trained(FedProx(mu=0.0))[1].tobytes() == trained(FedAvg())[1].tobytes()


def test_the_proximal_gradient_is_autograds():
    """Of F(w) + (mu / 2) ||w - w_t||^2, with the norm squared."""
    start, ours = trained(FedProx(mu=0.7))
    origin = torch.tensor(start, dtype=torch.float64)
    data = samples(0)
    x, y = torch.tensor(data.x, dtype=torch.float64), torch.tensor(data.y, dtype=torch.float64)
    w = origin.clone().requires_grad_()
    for _ in range(STEPS):
        objective = nn.functional.mse_loss(x @ w[:3, None] + w[3], y) + 0.7 / 2 * (w - origin).square().sum()
        (gradient,) = torch.autograd.grad(objective, w)
        w = (w - RATE * gradient).detach().requires_grad_()
    np.testing.assert_allclose(ours, w.detach().numpy(), rtol=1e-5, atol=1e-6)
    assert np.abs(ours - trained(FedAvg())[1]).max() > 1e-3


def test_only_fedprox_has_a_proximal_term():
    assert {name: create(name).proximal for name in NAMES if create(name).proximal} == {"fedprox": 0.01}
