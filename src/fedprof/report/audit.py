"""Which clients have bad data? Profiles and divergences of everybody's data under one model, ranked."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedprof.core.capture import default_layer, profile
from fedprof.core.divergence import divergence
from fedprof.core.scores import Alpha, log_scores, normalise
from fedprof.data.clients import ClientData, Samples
from fedprof.data.folders import client_names, from_folder
from fedprof.errors import DataError, FedProfError, SettingsError, StoreError
from fedprof.models import registry
from fedprof.models.weights import load as load_weights
from fedprof.report.stored import Stored, read
from fedprof.simulation.run import WEIGHTS
from fedprof.simulation.store import Store
from fedprof.tasks.load import check
from fedprof.tasks.task import Task, build

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Finding:
    """What the server would think of one client's data."""

    client: int
    name: str
    kind: str | None
    """What is known to be wrong with the data; None where nothing is known."""
    samples: int
    divergence: float
    chance: float
    """How often FedProf would draw the client, as a multiple of an even chance."""


@dataclass(frozen=True)
class Case:
    """Data to be judged, and the model to judge them with."""

    model: nn.Module
    layer: str
    clients: ClientData
    validation: Samples
    names: Sequence[str]


def audit(case: Case, alpha: Alpha = 10.0) -> list[Finding]:
    """Profile everybody's data and rank the clients, worst first."""
    with _fitting("validation"):
        baseline = profile(case.model, case.validation.standardised(), layer=case.layer)
    count, known = len(case.clients), []
    for k in range(count):
        with _fitting(case.names[k]):
            known.append(profile(case.model, case.clients.samples(k)[0], layer=case.layer))
    divergences, sizes = divergence(known, baseline), case.clients.sizes
    chances = normalise(log_scores(divergences, alpha, sizes=sizes)) * count
    kinds = [case.clients.kind_of(k) if len(case.clients.kinds) > 1 else None for k in range(count)]
    return [
        Finding(int(k), case.names[k], kinds[k], int(sizes[k]), float(divergences[k]), float(chances[k]))
        for k in np.argsort(-divergences, kind="stable")
    ]


@contextmanager
def _fitting(name: str) -> Iterator[None]:
    """That somebody's data do not fit the model is a mistake of the user's, whatever PyTorch calls it."""
    try:
        yield
    except FedProfError:
        raise
    except (RuntimeError, ValueError, IndexError) as error:
        raise DataError(f"The data of {name} do not fit the model: {str(error).partition(chr(10))[0]}") from error


def of_run(path: Path, data_dir: Path | None = None) -> Case:
    """The clients of a stored run under its last global model."""
    task, model = _trained(path, data_dir)
    work = task.workload
    return Case(model, work.layer, work.clients, work.validation, task.names)


def of_folder(folder: Path, run: Path, data_dir: Path | None = None) -> Case:
    """A folder of per-client data under the last global model of a run, standardised as that run's data were."""
    task, model = _trained(run, data_dir)
    usual = task.workload.validation
    clients, validation = from_folder(folder)
    return _case(folder, model, task.workload.layer, clients, validation, (usual.shift, usual.scale))


def of_model(
    folder: Path,
    name: str,
    weights: Path,
    *,
    layer: str | None = None,
    options: dict[str, Any] | None = None,
    shift: float = 0.0,
    scale: float = 1.0,
) -> Case:
    """A folder of per-client data under a model of the user's own, whose inputs are ``(x - shift) / scale``."""
    model = registry.create(name, 0, **(options or {}))
    _load_state(model, weights)
    chosen = layer or registry.spec(name).layer or default_layer(model)
    if chosen not in dict(model.named_modules()):
        names = ", ".join(part for part, _ in model.named_modules() if part)
        raise SettingsError(f"--layer {chosen}: the model has {names}")
    if not (math.isfinite(shift) and math.isfinite(scale) and scale):
        raise SettingsError(f"--shift {shift:g} --scale {scale:g}: inputs become (x - shift) / scale")
    given = np.float32(shift).reshape(()), np.float32(scale).reshape(())
    return _case(folder, model, chosen, *from_folder(folder), given)


def _case(folder: Path, model: nn.Module, layer: str, clients: ClientData, held: Samples, how: tuple[Any, Any]) -> Case:
    pool = Samples(clients.pool.x, clients.pool.y, *how)
    ours = ClientData(pool, clients.offsets, clients.rows, clients.kind, clients.kinds)
    return Case(model, layer, ours, Samples(held.x, held.y, *how), client_names(folder))


def _trained(path: Path, data_dir: Path | None) -> tuple[Task, nn.Module]:
    """The task of a stored run, and its model with the last global weights."""
    run = read(path)
    task = build(check(_settings(run)), run.seed, data_dir)
    model = copy.deepcopy(task.workload.model)
    load_weights(model, _last_weights(path))
    return task, model


def _settings(run: Stored) -> dict[str, Any]:
    settings = {**run.settings, "algorithms": run.plan.get("algorithms", {})}
    if "data" not in settings:
        raise StoreError(f"{run.path} does not say which data its clients held: only runs of the simulator do")
    return settings


def _last_weights(path: Path) -> np.ndarray[Any, np.dtype[np.float32]]:
    store = Store.open(path, read_only=True)
    try:
        return store.state()[WEIGHTS].astype(np.float32)
    finally:
        store.close()


def _load_state(model: nn.Module, path: Path) -> None:
    """Load a state dictionary; it must fit the model exactly."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        model.load_state_dict(load_file(path))
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path} cannot be read as weights (.safetensors): {error}") from error
    except RuntimeError as error:
        raise DataError(f"{path} does not fit the model: {error}") from error


def describe(findings: Sequence[Finding], top: int) -> str:
    """The worst clients as a table."""
    shown = findings[:top]
    kinds = any(finding.kind for finding in shown)
    head = ["client", *(["kind"] if kinds else []), "samples", "divergence", "chance"]
    rows = [
        [one.name, *([one.kind or ""] if kinds else []), str(one.samples), f"{one.divergence:.4g}", _times(one.chance)]
        for one in shown
    ]
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    left = 2 if kinds else 1
    lines = [
        "  ".join(
            cell.ljust(w) if i < left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in [head, *rows]
    ]
    rest = len(findings) - len(shown)
    return "\n".join([*lines, *([f"... and {rest} more, less divergent"] if rest > 0 else [])])


def _times(chance: float) -> str:
    return f"x {chance:.2f}" if chance >= 0.005 else "x < 0.01"
