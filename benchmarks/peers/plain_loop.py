"""The plain PyTorch loop: one model reused, flat weights and gradients, data gathered before, one thread."""

from __future__ import annotations

import sys
from contextlib import suppress

import numpy as np
import torch
from pacing import OverError, Pacer
from torch_parts import Batches, client_tensors, evaluate, loss_of, model_of, tensors
from workload import data, workload


def main() -> None:
    torch.set_num_threads(1)
    pacer, work = Pacer("torch"), workload(sys.argv[1], "quick" in sys.argv)
    deal = data(work)
    clients, held_out = client_tensors(deal), tensors(*deal.held_out)
    model, loss = model_of(work), loss_of(work)
    weights, gradient = flattened(model)
    received, rng = weights.clone(), np.random.default_rng(0)
    pacer.ready()
    while True:
        cohort = rng.choice(work.clients, work.cohort, replace=False)
        total = torch.zeros_like(weights)
        for client in cohort:
            weights.copy_(received)
            for _ in range(work.epochs):
                for x, y in Batches(clients[client], work.batch):
                    gradient.zero_()
                    loss(model(x), y).backward()
                    weights.add_(gradient, alpha=-work.rate)
            total.add_(weights, alpha=float(deal.sizes[client] / deal.sizes[cohort].sum()))
        weights.copy_(total)
        received = total
        pacer.round_done(evaluate(model, held_out, work)[0])


def flattened(model: torch.nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    """Make all parameters, and all gradients, views of one vector."""
    parameters = list(model.parameters())
    weights = torch.cat([parameter.detach().flatten() for parameter in parameters])
    gradient, at = torch.zeros_like(weights), 0
    for parameter in parameters:
        part = slice(at, at + parameter.numel())
        parameter.data = weights[part].view_as(parameter)
        parameter.grad = gradient[part].view_as(parameter)
        at = part.stop
    return weights, gradient


if __name__ == "__main__":
    with suppress(OverError):
        main()
