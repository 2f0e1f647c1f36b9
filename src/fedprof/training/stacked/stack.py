"""M models on one device: their weights, their training, and passes without gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from fedprof.core.profile import Moments
from fedprof.models.weights import Layout
from fedprof.training.engine import Recipe
from fedprof.training.stacked.modules import stack

LOSSES: dict[str, Callable[..., torch.Tensor]] = {"ce": functional.cross_entropy, "nll": functional.nll_loss}
WARM_UP = 3
"""Steps that CUDA wants to have seen before one is captured."""


class Pool:
    """Samples on the device, standardised when a batch is made."""

    def __init__(
        self,
        x: NDArray[np.generic],
        y: NDArray[np.int64],
        shift: NDArray[np.float32],
        scale: NDArray[np.float32],
        device: torch.device,
    ) -> None:
        arrays = (np.ascontiguousarray(part) for part in (x, y, shift, scale))
        self.x, self.y, self.shift, self.scale = (torch.tensor(part, device=device) for part in arrays)

    def images(self, rows: torch.Tensor) -> torch.Tensor:
        """Inputs of rows ``[M, B]``, channels first."""
        return ((self.x[rows].float() - self.shift) / self.scale).transpose(1, 2).contiguous()


class Stack:
    """M copies of one architecture, each with weights of its own."""

    def __init__(self, model: nn.Module, layer: str, models: int, device: torch.device) -> None:
        self.layout, self.models, self.device = Layout.of(model), models, device
        self.net = stack(model, models).to(device)
        self.layer = self.net.get_submodule(layer)
        self.tensors = {**dict(self.net.named_parameters()), **dict(self.net.named_buffers())}

    def load(self, weights: NDArray[np.float32]) -> None:
        """Write M flat vectors."""
        flat = torch.tensor(weights, device=self.device)
        with torch.no_grad():
            for slot in self.layout.slots:
                part = flat[:, slot.start : slot.stop]
                self.tensors[slot.name].copy_(part.reshape(self.models, *slot.shape))

    def weights(self) -> NDArray[np.float32]:
        """Read M flat vectors."""
        parts = [self.tensors[slot.name].detach().reshape(self.models, -1) for slot in self.layout.slots]
        return np.asarray(torch.cat(parts, dim=1).cpu().numpy())

    def outputs(self, pool: Pool, rows: NDArray[np.int64], batch: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Pass rows ``[M, n]`` in evaluation mode; give outputs ``[M, B, K]`` and representations ``[M, B, q]``."""
        self.net.eval()
        caught: list[torch.Tensor] = []
        hook = self.layer.register_forward_hook(lambda _module, _inputs, out: caught.append(_fused(out)))
        try:
            for start in range(0, rows.shape[1], batch):
                chosen = torch.tensor(rows[:, start : start + batch], device=self.device)
                with torch.no_grad():
                    out = self.net(pool.images(chosen))
                yield out, caught.pop()
        finally:
            hook.remove()


@dataclass(frozen=True)
class Shape:
    """What a captured step is made for; another shape needs another trainer."""

    models: int
    samples: int
    batch: int
    momentum: float
    weight_decay: float
    proximal: bool

    @classmethod
    def of(cls, samples: int, recipe: Recipe, proximal: NDArray[np.float32]) -> Shape:
        """The shape of a cohort's training."""
        return cls(
            len(proximal), samples, recipe.batch, recipe.momentum, recipe.weight_decay, bool((proximal > 0).any())
        )


class Trainer:
    """SGD on all models of a stack in step; on CUDA a step is captured once and replayed."""

    def __init__(self, stacked: Stack, pool: Pool, shape: Shape, loss: str) -> None:
        self.stack, self.pool, self.shape, self.loss = stacked, pool, shape, LOSSES[loss]
        device, models = stacked.device, shape.models
        self.order = torch.zeros(models, shape.samples, dtype=torch.int64, device=device)
        self.cursor = torch.zeros(1, dtype=torch.int64, device=device)
        self.losses = torch.zeros(models, dtype=torch.float64, device=device)
        self.rate = torch.zeros((), device=device)
        self.parameters = list(stacked.net.parameters())
        self.flat = _joined(self.parameters)
        self.pull, self.anchor = torch.zeros_like(self.flat), torch.zeros_like(self.flat)
        self.velocity = torch.zeros_like(self.flat)
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        stacked.net.train()
        if device.type == "cuda":
            for size in {min(shape.batch, shape.samples), shape.samples % shape.batch} - {0}:
                self.graphs[size] = self._capture(size)

    def train(
        self, weights: NDArray[np.float32], orders: NDArray[np.int64], rate: float, proximal: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Train from ``weights``; ``orders`` is ``[M, epochs, n]`` rows. Return weights and first-epoch mean losses."""
        self._prepare(weights, rate, proximal)
        first = np.zeros(self.shape.models)
        for epoch in range(orders.shape[1]):
            self.order.copy_(torch.tensor(orders[:, epoch]))
            self.cursor.zero_()
            self.losses.zero_()
            for start in range(0, self.shape.samples, self.shape.batch):
                size = min(self.shape.batch, self.shape.samples - start)
                if size in self.graphs:
                    self.graphs[size].replay()
                else:
                    self._step(size)
            if epoch == 0:
                first = self.losses.cpu().numpy() / self.shape.samples
        return self.stack.weights(), first

    def _prepare(self, weights: NDArray[np.float32], rate: float, proximal: NDArray[np.float32]) -> None:
        self.stack.load(weights)
        self.stack.net.train()
        self.rate.fill_(rate)
        pull = torch.tensor(proximal, device=self.stack.device)
        self.pull.copy_(torch.cat([pull.repeat_interleave(p[0].numel()) for p in self.parameters]))
        self.anchor.copy_(self.flat)
        self.velocity.zero_()

    def _step(self, size: int) -> None:
        rows = self.order.index_select(1, self.cursor + torch.arange(size, device=self.stack.device))
        out = self.stack.net(self.pool.images(rows))
        each = self.loss(out.flatten(0, 1), self.pool.y[rows].flatten(), reduction="none").view(rows.shape)
        gradients = torch.autograd.grad(each.mean(dim=1).sum(), self.parameters)
        with torch.no_grad():
            self._descend(torch.cat([gradient.reshape(-1) for gradient in gradients]))
            self.losses += each.detach().sum(dim=1)
            self.cursor += size

    def _descend(self, gradient: torch.Tensor) -> None:
        """As torch.optim.SGD: decay and the proximal pull join the gradient, then momentum, then the step."""
        if self.shape.weight_decay:
            gradient.add_(self.flat, alpha=self.shape.weight_decay)
        if self.shape.proximal:
            gradient.addcmul_(self.pull, self.flat - self.anchor)
        if self.shape.momentum:
            gradient = self.velocity.mul_(self.shape.momentum).add_(gradient)
        self.flat.sub_(gradient * self.rate)

    def _capture(self, size: int) -> torch.cuda.CUDAGraph:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                self._step(size)
                self.cursor.zero_()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step(size)
        return graph


class Tally:
    """Moments of M models' representations, merged batch after batch on the device (Chan's formula)."""

    def __init__(self) -> None:
        self.count, self.mean, self.m2 = 0, torch.zeros(()), torch.zeros(())

    def update(self, values: torch.Tensor) -> None:
        """Take in ``[M, B, q]``."""
        batch, mean = values.shape[1], values.mean(dim=1)
        m2 = (values - mean[:, None]).square().sum(dim=1)
        if not self.count:
            self.count, self.mean, self.m2 = batch, mean, m2
            return
        total, gap = self.count + batch, mean - self.mean
        self.mean = self.mean + gap * (batch / total)
        self.m2 = self.m2 + m2 + gap.square() * (self.count * batch / total)
        self.count = total

    def moments(self) -> list[Moments]:
        """One a model."""
        means, spreads = self.mean.cpu().numpy(), self.m2.cpu().numpy()
        made = [Moments(means.shape[1]) for _ in means]
        for one, mean, m2 in zip(made, means, spreads, strict=True):
            one.count, one.mean, one.m2 = self.count, mean, m2
        return made


def _joined(parameters: list[nn.Parameter]) -> torch.Tensor:
    """Move parameters into one vector, so that a step of SGD is a few operations on it."""
    flat = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
    start = 0
    for parameter in parameters:
        parameter.data = flat[start : start + parameter.numel()].view(parameter.shape)
        start += parameter.numel()
    return flat


def _fused(out: torch.Tensor) -> torch.Tensor:
    """Representations ``[M, B, q]``: a feature map summed, one element a channel (dense outputs as they are)."""
    return out.double().sum(dim=(3, 4)).transpose(1, 2) if out.ndim == 5 else out.double()
