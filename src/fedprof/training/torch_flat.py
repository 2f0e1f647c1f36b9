"""A private copy of a model whose weights lie in one flat tensor, and stochastic gradient descent on it."""

from __future__ import annotations

import copy
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import torch

from fedprof.models.weights import Layout, Vector

if TYPE_CHECKING:
    from torch import nn

    from fedprof.training.engine import Recipe

_ALIGNMENT = 16
"""Elements: 64 bytes."""


class FlatModel:
    """A copy of a module on one device: loading and resetting it are single copies, not one a layer.

    With ``channels_last``, convolution weights are stored with their input channels innermost; vectors that enter and
    leave are in the usual order all the same. Every tensor starts at a 64-byte boundary, which GPU kernels insist on.
    """

    def __init__(self, model: nn.Module, device: torch.device, channels_last: bool = False) -> None:
        self.module = copy.deepcopy(model).to(device, torch.float32)
        self.layout = Layout.of(self.module)
        self.channels_last = channels_last
        self._starts = _aligned_starts(self.layout)
        self.flat = torch.zeros(self._starts[-1], device=device)
        self.received = torch.zeros_like(self.flat)
        self._bind()
        counters = (tensor for tensor in self.module.buffers() if not tensor.is_floating_point())
        self._counters = [(tensor, tensor.clone()) for tensor in counters]

    @property
    def trainable(self) -> torch.Tensor:
        """The part of the flat weights that gradients reach."""
        return self.flat[: self._starts[sum(slot.trainable for slot in self.layout.slots)]]

    def load(self, weights: Vector) -> None:
        """Receive weights: the starting point of every ``reset``."""
        self.layout.check(weights)
        source = self.layout.split(torch.tensor(weights, dtype=torch.float32, device=self.flat.device))
        for view, tensor in zip(self.views(self.received), source.values(), strict=True):
            view.copy_(tensor)
        self.reset()

    @torch.no_grad()
    def reset(self) -> None:
        """Go back to the weights received."""
        self._rebind()
        self.flat.copy_(self.received)
        for counter, initial in self._counters:
            counter.copy_(initial)

    @torch.no_grad()
    def weights(self) -> Vector:
        """Copy the weights out, in the usual order."""
        self._rebind()
        result = np.empty(self.layout.total_size, np.float32)
        target = self.layout.split(torch.from_numpy(result))
        for view, tensor in zip(self.views(self.flat), target.values(), strict=True):
            tensor.copy_(view)
        return result

    def views(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """View a flat tensor (of the whole layout, or of its trainable part) as the tensors of the layout."""
        return [
            _view(flat[start : start + slot.size], slot.shape, self.channels_last)
            for slot, start in zip(self.layout.slots, self._starts[:-1], strict=True)
            if start + slot.size <= len(flat)
        ]

    def _bind(self) -> None:
        tensors = dict([*self.module.named_parameters(), *self.module.named_buffers()])
        self._buffers = []
        for slot, view in zip(self.layout.slots, self.views(self.flat), strict=True):
            tensors[slot.name].data = view
            if not slot.trainable:
                owner, _, attribute = slot.name.rpartition(".")
                self._buffers.append((self.module.get_submodule(owner), attribute, tensors[slot.name]))

    def _rebind(self) -> None:
        # A module may replace a buffer (``self.seen = self.seen + 1``) instead of changing it.
        for owner, attribute, bound in self._buffers:
            current = getattr(owner, attribute)
            if current is not bound:
                bound.copy_(current)
                setattr(owner, attribute, bound)


class Descent:
    """SGD with momentum, weight decay and FedProx's proximal term, in a few operations on flat vectors."""

    def __init__(self, model: FlatModel, recipe: Recipe) -> None:
        self._recipe = recipe
        self._weights = model.trainable
        self._anchor = model.received[: len(self._weights)]
        self._velocity = torch.zeros_like(self._weights) if recipe.momentum else None
        self._parameters = [parameter for parameter in model.module.parameters() if parameter.requires_grad]
        sinks = model.views(self._weights if self._velocity is None else self._velocity)
        self._sinks = sinks[: len(self._parameters)]

    def step(self, loss: torch.Tensor) -> None:
        """Take one step down the gradient of ``loss + (mu/2) ||w - w_received||^2``."""
        found = torch.autograd.grad(loss, self._parameters, allow_unused=True)
        sinks = [sink for sink, gradient in zip(self._sinks, found, strict=True) if gradient is not None]
        gradients = [gradient for gradient in found if gradient is not None]
        if self._velocity is None:
            self._plain(sinks, gradients)
        else:
            self._accelerated(self._velocity, sinks, gradients)

    def _plain(self, sinks: list[torch.Tensor], gradients: list[torch.Tensor]) -> None:
        rate, decay, mu = self._recipe.rate, self._recipe.weight_decay, self._recipe.proximal
        if decay or mu:
            self._weights.mul_(1 - rate * (decay + mu))
        if mu:
            self._weights.add_(self._anchor, alpha=rate * mu)
        torch._foreach_add_(sinks, gradients, alpha=-rate)

    def _accelerated(self, velocity: torch.Tensor, sinks: list[torch.Tensor], gradients: list[torch.Tensor]) -> None:
        decay, mu = self._recipe.weight_decay, self._recipe.proximal
        velocity.mul_(self._recipe.momentum)
        if decay or mu:
            velocity.add_(self._weights, alpha=decay + mu)
        if mu:
            velocity.sub_(self._anchor, alpha=mu)
        torch._foreach_add_(sinks, gradients)
        self._weights.sub_(velocity, alpha=self._recipe.rate)


def _aligned_starts(layout: Layout) -> list[int]:
    """Where each tensor starts, and where the last one ends; the zeros between them stay zeros."""
    return list(accumulate((-(-slot.size // _ALIGNMENT) * _ALIGNMENT for slot in layout.slots), initial=0))


def _view(piece: torch.Tensor, shape: tuple[int, ...], channels_last: bool) -> torch.Tensor:
    if channels_last and len(shape) == 4:
        outputs, inputs, height, width = shape
        return piece.view(outputs, height, width, inputs).permute(0, 3, 1, 2)
    return piece.view(shape)
