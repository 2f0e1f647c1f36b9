"""A federated task made real: data dealt out and damaged, a model with its initial weights, all from the seed alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from fedprof.algorithms.base import Population, Vector
from fedprof.core.capture import default_layer
from fedprof.errors import SettingsError
from fedprof.models import registry as models
from fedprof.models import weights as flat
from fedprof.tasks.data import prepare
from fedprof.tasks.fit import check_fit
from fedprof.tasks.settings import Settings
from fedprof.training.engine import Workload

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Task:
    """Clients with data, a validation set on the server, a model, a loss and an accuracy."""

    settings: Settings
    seed: int
    workload: Workload
    names: list[str]
    """What the clients are called."""

    @cached_property
    def initial_weights(self) -> Vector:
        """Theta of version 0, from the seed that the server broadcasts."""
        return flat.flatten(self.workload.model)

    @cached_property
    def population(self) -> Population:
        """The client set as the server knows it."""
        sizes = self.workload.clients.sizes
        return Population(sizes, self.settings.cohort, flat.trainable_size(self.workload.model))


def build(settings: Settings, seed: int, data_dir: Path | None = None) -> Task:
    """Make a task from its settings; everything random in it comes from the seed."""
    data, names = prepare(settings, seed, data_dir)
    model, layer = _model(settings, seed)
    check_fit(settings, model, data)
    how = settings.training
    workload = Workload(model, layer, data.clients, data.validation, how.loss, data.metric, seed, how.evaluation_batch)
    return Task(settings, seed, workload, names)


def _model(settings: Settings, seed: int) -> tuple[nn.Module, str]:
    chosen = settings.model
    model = models.create(chosen.name, seed, scheme=chosen.initialisation, **chosen.options)
    layer = chosen.layer or models.spec(chosen.name).layer or default_layer(model)
    if layer not in dict(model.named_modules()):
        names = ", ".join(name for name, _ in model.named_modules() if name)
        raise SettingsError(f"model.layer = '{layer}': the model has {names}")
    return model, layer
