"""What every engine does: train a cohort, evaluate the global model, profile clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch
    from torch import nn

    from fedprof.core.profile import Profile
    from fedprof.data.clients import ClientData, Samples

Vector = NDArray[np.float32]
Loss = Callable[["torch.Tensor", "torch.Tensor"], "torch.Tensor"]
Metric = Callable[[NDArray[np.float32], NDArray[np.generic]], NDArray[np.float64]]
"""From the model's outputs and the targets to one accuracy a sample, in [0, 1]."""


@dataclass(frozen=True)
class Workload:
    """All an engine needs to know of a task."""

    model: nn.Module
    """The architecture, holding the initial weights. Engines copy it; they never change it."""
    layer: str
    """The submodule whose output is profiled."""
    clients: ClientData
    validation: Samples
    loss: str | Loss
    """``"mse"``, ``"nll"``, ``"ce"``, or a function of (outputs, targets) that returns a mean."""
    metric: Metric
    seed: int = 0
    evaluation_batch: int = 128


@dataclass(frozen=True)
class Recipe:
    """How a client trains on its data: plain SGD unless told otherwise."""

    epochs: int
    batch: int
    rate: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    proximal: float = 0.0
    """FedProx's mu: the objective gains (mu/2) ||w - w_received||^2."""


@dataclass(frozen=True)
class Update:
    """What a client's training gives back."""

    client: int
    weights: Vector
    loss: float
    """Mean loss over the first local epoch, each sample's taken just before its first step."""
    profile: Profile | None = None
    """The profile of the client's data under the RECEIVED weights, when asked for."""


@dataclass(frozen=True)
class Evaluation:
    """The global model on the server's validation set."""

    accuracy: float
    loss: float
    profile: Profile | None = None
    """The baseline: the profile of the validation set, when asked for."""


class Engine(Protocol):
    """Trains cohorts. Results are the same bits whatever the number of workers."""

    name: str

    def train(
        self, weights: Vector, round: int, clients: Sequence[int], recipe: Recipe, *, profile: bool = False
    ) -> list[Update]:
        """Train each client from ``weights``; one update a client, in the order asked.

        Client k visits its samples in the order of ``stream(seed, "shuffle", round, k).permutation(n)``, drawn anew
        from that one generator for every epoch; the last batch of an epoch may be smaller. A profile carries version
        ``round - 1``.
        """
        ...

    def evaluate(self, weights: Vector, *, version: int | None = None) -> Evaluation:
        """Evaluate on the validation set; with a ``version``, also make the baseline profile of that version."""
        ...

    def profiles(self, weights: Vector, clients: Sequence[int], version: int) -> list[Profile]:
        """Profile clients' data under ``weights`` (Algorithm 1, line 4: all clients before round 1)."""
        ...

    def close(self) -> None:
        """Free workers and memory."""
        ...
