"""A module's weights as one flat ``float32`` vector, and back.

The vector holds the trainable parameters in ``named_parameters()`` order, then the floating-point buffers in
``named_buffers()`` order: batch-norm statistics travel with the model, frozen parameters and integer counters do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from fedprof.errors import SettingsError

if TYPE_CHECKING:
    from torch import nn

Vector = NDArray[np.float32]


@dataclass(frozen=True)
class Slot:
    """Where one tensor lies in the flat vector."""

    name: str
    shape: tuple[int, ...]
    start: int
    trainable: bool

    @property
    def size(self) -> int:
        """Elements of the tensor."""
        return prod(self.shape)

    @property
    def stop(self) -> int:
        """One past the tensor's last element."""
        return self.start + self.size


@dataclass(frozen=True)
class Layout:
    """The order of a module's tensors in its flat vector."""

    slots: tuple[Slot, ...]

    @classmethod
    def of(cls, module: nn.Module) -> Layout:
        """Lay out a module's trainable parameters, then its floating-point buffers."""
        slots, start = [], 0
        for name, tensor in _tensors(module):
            slots.append(Slot(name, tuple(tensor.shape), start, tensor.requires_grad))
            start = slots[-1].stop
        return cls(tuple(slots))

    @property
    def trainable_size(self) -> int:
        """Elements that gradients reach; they come first."""
        return sum(slot.size for slot in self.slots if slot.trainable)

    @property
    def total_size(self) -> int:
        """Length of the flat vector."""
        return self.slots[-1].stop if self.slots else 0

    def check(self, flat: Vector) -> None:
        """Refuse a vector that is not one of this layout."""
        if flat.shape != (self.total_size,):
            raise SettingsError(f"the model has {self.total_size} weights, the vector has shape {flat.shape}")

    def split(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        """View a flat tensor as the named tensors it holds."""
        return {slot.name: flat[slot.start : slot.stop].view(slot.shape) for slot in self.slots}


def flatten(module: nn.Module) -> Vector:
    """Copy a module's weights into one flat vector."""
    pieces = [tensor.detach().reshape(-1).to("cpu", torch.float32) for _, tensor in _tensors(module)]
    # A lone piece may share the module's memory, hence the copy.
    return np.array(torch.cat(pieces).numpy() if pieces else [], dtype=np.float32)


def load(module: nn.Module, flat: Vector) -> None:
    """Write a flat vector into a module's weights, in place."""
    layout = Layout.of(module)
    layout.check(flat)
    source = layout.split(torch.tensor(flat, dtype=torch.float32))
    with torch.no_grad():
        for name, tensor in _tensors(module):
            tensor.copy_(source[name])


def shapes(module: nn.Module) -> dict[str, tuple[int, ...]]:
    """Shape of every tensor in the flat vector, in its order."""
    return {slot.name: slot.shape for slot in Layout.of(module).slots}


def trainable_size(module: nn.Module) -> int:
    """Number of trainable parameters."""
    return Layout.of(module).trainable_size


def total_size(module: nn.Module) -> int:
    """Length of the module's flat vector: trainable parameters and floating-point buffers."""
    return Layout.of(module).total_size


def _tensors(module: nn.Module) -> list[tuple[str, torch.Tensor]]:
    parameters = [(name, tensor) for name, tensor in module.named_parameters() if tensor.requires_grad]
    buffers = [(name, tensor) for name, tensor in module.named_buffers() if tensor.is_floating_point()]
    return [*parameters, *buffers]
