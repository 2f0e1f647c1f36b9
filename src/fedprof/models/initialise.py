"""Initial weights from an explicit generator: PyTorch's global one is neither read nor moved."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import numpy as np
import torch
from torch import nn

from fedprof.errors import SettingsError
from fedprof.randomness import integer_seed

SCHEMES = ("torch", "xavier")
_Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d
_Normalisation = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d | nn.LayerNorm | nn.GroupNorm


def construct(factory: Callable[[], nn.Module]) -> nn.Module:
    """Build a module without drawing a random number; its weights are garbage until ``initialise``."""
    with torch.device("meta"):
        module = factory()
    return module.to_empty(device="cpu")


def initialise(module: nn.Module, rng: np.random.Generator, scheme: str = "torch") -> None:
    """Set every parameter and buffer: ``torch`` is PyTorch's default, ``xavier`` is Glorot's uniform, biases zero."""
    if scheme not in SCHEMES:
        raise SettingsError(f"unknown initialisation {scheme!r}; there are {', '.join(SCHEMES)}")
    with torch.no_grad():
        for name, part in module.named_modules():
            _initialise_part(part, name, rng, scheme)


def build(factory: Callable[[], nn.Module], seed: int) -> nn.Module:
    """Call a user's own factory, seeded; the caller's global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(integer_seed(seed, "model"))
        return factory()


def _initialise_part(part: nn.Module, name: str, rng: np.random.Generator, scheme: str) -> None:
    if isinstance(part, nn.Linear | _Convolution):
        _initialise_product(part, rng, scheme)
    elif isinstance(part, nn.RNNBase):
        for parameter in part.parameters():
            _uniform(parameter, 1 / sqrt(part.hidden_size), rng)
    elif isinstance(part, _Normalisation):
        part.reset_parameters()
    elif any(True for _ in part.parameters(recurse=False)) or any(True for _ in part.buffers(recurse=False)):
        raise SettingsError(f"do not know how to initialise {name or 'the model'} ({type(part).__name__}); use build()")


def _initialise_product(part: nn.Linear | _Convolution, rng: np.random.Generator, scheme: str) -> None:
    if not part.weight.numel():
        raise SettingsError(f"a {type(part).__name__} of shape {tuple(part.weight.shape)} has no weights")
    fan_out, fan_in = part.weight.shape[0], part.weight[0].numel()
    if scheme == "xavier":
        fan_out *= part.weight[0, 0].numel()
        _uniform(part.weight, sqrt(6 / (fan_in + fan_out)), rng)
    else:
        # Kaiming-uniform with a = sqrt(5) is this bound.
        _uniform(part.weight, 1 / sqrt(fan_in), rng)
    if part.bias is not None:
        _uniform(part.bias, 0.0 if scheme == "xavier" else 1 / sqrt(fan_in), rng)


def _uniform(tensor: torch.Tensor, bound: float, rng: np.random.Generator) -> None:
    values = rng.random(tuple(tensor.shape), dtype=np.float32) * np.float32(2 * bound) - np.float32(bound)
    tensor.copy_(torch.from_numpy(values))
