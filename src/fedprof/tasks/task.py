"""A federated task made real: data dealt out and damaged, a model with its initial weights, all from the seed alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedprof.algorithms.base import Population, Vector
from fedprof.data import partition
from fedprof.data.build import client_data, standardisation
from fedprof.data.clients import ClientData, Samples
from fedprof.data.sources import Raw, load
from fedprof.errors import DataError, SettingsError
from fedprof.models import registry as models
from fedprof.models import weights as flat
from fedprof.randomness import stream
from fedprof.tasks.settings import Data, Settings
from fedprof.training.engine import Metric, Workload
from fedprof.training.metrics import Regression, classification

Array = NDArray[Any]


@dataclass(frozen=True)
class Task:
    """Clients with data, a validation set on the server, a model, a loss and an accuracy."""

    settings: Settings
    seed: int
    workload: Workload

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
    clients, validation, metric = _data(settings, seed, data_dir)
    model, layer = _model(settings, seed)
    workload = Workload(
        model,
        layer,
        clients,
        validation,
        settings.training.loss,
        metric,
        seed,
        settings.training.evaluation_batch,
    )
    return Task(settings, seed, workload)


def _model(settings: Settings, seed: int) -> tuple[Any, str]:
    from fedprof.core.capture import default_layer

    chosen = settings.model
    model = models.create(chosen.name, seed, scheme=chosen.initialisation, **chosen.options)
    layer = chosen.layer or models.spec(chosen.name).layer or default_layer(model)
    if layer not in dict(model.named_modules()):
        names = ", ".join(name for name, _ in model.named_modules() if name)
        raise SettingsError(f"model.layer = '{layer}': the model has {names}")
    return model, layer


def _data(settings: Settings, seed: int, data_dir: Path | None) -> tuple[ClientData, Samples, Metric]:
    given = _source(settings.data, data_dir)
    if isinstance(given, tuple):
        return *given, classification
    raw = given
    train, validation = _split(raw, settings.data.validation, seed)
    y, targets, metric = _targets(settings.data, raw, train, validation)
    shift, scale = _inputs(settings.data, train[0])
    dealt = deal(settings.data, train[1], raw.classes, seed)
    damage = {kind: given.model_dump() for kind, given in settings.damage.items()}
    clients = client_data(train[0], y, dealt, damage, seed, shift=shift, scale=scale)
    return clients, Samples(validation[0], targets, shift, scale), metric


def _source(data: Data, data_dir: Path | None) -> Raw | tuple[ClientData, Samples]:
    """A public source, a folder of the user's, or what a function of the user's returns."""
    if ":" not in data.source:
        return load(data.source, data_dir)
    module, _, attribute = data.source.partition(":")
    try:
        function = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"data.source = '{data.source}' cannot be imported: {error}") from error
    given: Raw | tuple[ClientData, Samples] = function()
    return given


def _split(raw: Raw, validation: int | None, seed: int) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """The server's validation set: from the source's test set, or cut off the training set where there is none."""
    if len(raw.test_y):
        rows = _some(len(raw.test_y), validation, seed)
        return (raw.train_x, raw.train_y), (raw.test_x[rows], raw.test_y[rows])
    if validation is None:
        raise SettingsError("data.validation is missing: this source has no test set to take it from")
    rows = _some(len(raw.train_y), validation, seed)
    rest = np.setdiff1d(np.arange(len(raw.train_y)), rows)
    return (raw.train_x[rest], raw.train_y[rest]), (raw.train_x[rows], raw.train_y[rows])


def _some(there: int, wanted: int | None, seed: int) -> NDArray[np.int64]:
    if wanted is not None and wanted > there:
        raise SettingsError(f"data.validation = {wanted}: the source has {there} samples for it")
    if wanted is None or wanted == there:
        return np.arange(there)
    return np.sort(stream(seed, "validation").permutation(there)[:wanted])


def _inputs(data: Data, x: Array) -> tuple[Array, Array]:
    if data.standardise == "none":
        return np.zeros((), np.float32), np.ones((), np.float32)
    return standardisation(x)


def _targets(
    data: Data, raw: Raw, train: tuple[Array, Array], held: tuple[Array, Array]
) -> tuple[Array, Array, Metric]:
    """Labels as they are; regression targets standardised, with the accuracy taken on the raw scale."""
    if raw.classes:
        return train[1], held[1], classification
    mean, std = train[1].mean(axis=0, dtype=np.float64), train[1].std(axis=0, dtype=np.float64)
    if data.standardise != "all":
        mean, std = np.zeros_like(mean), np.ones_like(std)
    y, targets = (((part - mean) / std).astype(np.float32) for part in (train[1], held[1]))
    return y, targets, Regression(mean, std)


def deal(data: Data, labels: Array, classes: int, seed: int) -> partition.Partition:
    """Deal the training samples out as the settings say."""
    rng, how = stream(seed, "partition"), data.partition
    if how.kind in ("dominant", "dirichlet", "shards") and not classes:
        raise SettingsError(f"data.partition.kind = '{how.kind}' needs classes; this source has none")
    sizes = _sizes(data, len(labels))
    if how.kind == "dominant":
        return partition.dominant_class(labels, data.clients, how.share or 0.0, rng, sizes)
    if how.kind == "dirichlet":
        return partition.dirichlet(labels, data.clients, how.concentration or 1.0, rng)
    if how.kind == "shards":
        return partition.shards(labels, data.clients, how.shards or 1, rng)
    if how.kind == "sizes":
        sizes = partition.normal_sizes(len(labels), data.clients, how.mean or 1.0, how.std or 0.0, rng)
    return partition.iid(len(labels), data.clients, rng, sizes)


def _sizes(data: Data, there: int) -> NDArray[np.int64] | None:
    if data.samples is None:
        return None
    if data.samples * data.clients > there:
        raise DataError(
            f"{data.clients} clients with {data.samples} samples each need {data.clients * data.samples:,} training "
            f"samples, and '{data.source}' has {there:,} here: set data.clients={there // data.samples} "
            f"or data.samples={there // data.clients}"
        )
    return np.full(data.clients, data.samples)
