"""Starting a run, or going on with one: the store is opened or made, and a run with other settings is refused."""

from __future__ import annotations

import hashlib
import json
import platform
import sqlite3
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fedprof.errors import StoreError
from fedprof.models import weights as flat
from fedprof.simulation.costs import BYTES_AN_ELEMENT, CostModel
from fedprof.simulation.federation import Federation
from fedprof.simulation.fleet import Devices, devices
from fedprof.simulation.run import Observer, Run
from fedprof.simulation.store import ClientRow, Store
from fedprof.tasks.load import Plan
from fedprof.tasks.task import Task, build
from fedprof.training.choose import make_engine

PACKAGES = ("fedprof", "numpy", "torch", "numba", "simpy")


def simulate(
    plan: Plan,
    path: Path,
    *,
    data_dir: Path | None = None,
    engine: str = "auto",
    workers: int | None = None,
    observers: Sequence[Observer] = (),
) -> Store:
    """Run a plan into the store at ``path``, going on from its last recorded round; return the open store."""
    server = plan.server
    store = resume(path, plan)
    if store is not None and (last := store.last_round()) is not None and last.round >= plan.rounds:
        return store
    task = build(plan.settings, plan.seed, data_dir)
    fleet = devices(plan.settings.fleet, len(task.population), plan.seed)
    trainer = make_engine(task.workload, engine, workers)
    try:
        if store is None:
            store = Store.create(path, facts(plan, trainer.name), client_rows(task, fleet))
        _same("engine", store.facts()["engine"], trainer.name, path)
        run = Run(
            task, server, federation(plan, task, fleet, profile=server.profiles), trainer, store, plan.rounds, observers
        )
        run.play()
    except BaseException:
        if store is not None:
            store.close()
        raise
    finally:
        trainer.close()
    return store


def resume(path: Path, plan: Plan) -> Store | None:
    """Open a run to go on with; None where there is none; refuse one with other settings, showing the difference."""
    if not path.exists() or _empty(path):
        return None
    store = Store.open(path)
    found = store.facts().get("plan", {})
    differences = _differences(found, plan.describe())
    if differences:
        store.close()
        raise StoreError(
            f"{path} holds a run with other settings:\n  " + "\n  ".join(differences) + "\n"
            "Give another --out, or repeat the settings of that run to go on with it."
        )
    return store


def federation(plan: Plan, task: Task, fleet: Devices, *, profile: bool) -> Federation:
    """The simulated federation of a task."""
    settings = plan.settings
    size = BYTES_AN_ELEMENT * profile_length(task) if profile else 0
    costs = CostModel(settings.costs, fleet, task.population.sizes, settings.training.epochs, size)
    return Federation(costs, settings.conditions, plan.seed)


def profile_length(task: Task) -> int:
    """The paper's q of a task's profiled layer: the length of a profile of two validation samples."""
    from fedprof.core.capture import profile

    few = task.workload.validation.standardised(slice(0, 2))
    return profile(task.workload.model, few, layer=task.workload.layer).q


def facts(plan: Plan, engine: str) -> dict[str, Any]:
    """What is stored with every run: settings, seed, versions, machine."""
    versions = {name: version(name) for name in PACKAGES}
    machine = {"python": platform.python_version(), "system": platform.system(), "machine": platform.machine()}
    mode = plan.server.combines.mode
    about = {"plan": plan.describe(), "aggregation": mode, "engine": engine}
    return {**about, "versions": versions, "machine": machine}


def client_rows(task: Task, fleet: Devices) -> list[ClientRow]:
    """Who the clients are."""
    clients = task.workload.clients
    sizes = clients.sizes.tolist()
    return [
        ClientRow(k, f"client-{k}", clients.kind_of(k), sizes[k], float(fleet.speed[k]), float(fleet.bandwidth[k]))
        for k in range(len(clients))
    ]


def fingerprint(weights: flat.Vector) -> str:
    """SHA-256 of a model's weights, float32 little-endian."""
    return hashlib.sha256(weights.astype("<f4").tobytes()).hexdigest()


def _empty(path: Path) -> bool:
    """Whether a crash left a file without a single table."""
    try:
        connection = sqlite3.connect(path)
        try:
            return not connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
        finally:
            connection.close()
    except sqlite3.DatabaseError:
        return False


def _same(what: str, found: object, wanted: object, path: Path) -> None:
    if found != wanted:
        raise StoreError(f"{path} was run with {what} '{found}', this is '{wanted}': results would differ")


def _differences(found: Any, wanted: Any, where: str = "") -> list[str]:
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        keys = list(dict.fromkeys([*found, *wanted]))
        return [
            line for key in keys for line in _differences(found.get(key), wanted.get(key), f"{where}.{key}".strip("."))
        ]
    return [] if found == wanted else [f"{where}: {json.dumps(found)} there, {json.dumps(wanted)} here"]
