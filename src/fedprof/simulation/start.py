"""Starting a run, or going on with one: the store is opened or made, and a run with other settings is refused."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fedprof.errors import StoreError
from fedprof.simulation.costs import BYTES_AN_ELEMENT, CostModel
from fedprof.simulation.federation import Federation
from fedprof.simulation.fingerprint import data_fingerprint, fingerprint
from fedprof.simulation.fleet import Devices, devices
from fedprof.simulation.run import Observer, Run
from fedprof.simulation.store import ClientRow, Store, holds_nothing
from fedprof.tasks.load import Plan
from fedprof.tasks.task import Task, build
from fedprof.training.choose import make_engine
from fedprof.training.engine import Engine, Workload

PACKAGES = ("fedprof", "numpy", "torch", "numba", "simpy")


def simulate(
    plan: Plan,
    path: Path,
    *,
    data_dir: Path | None = None,
    engine: str | Callable[[Workload], Engine] = "auto",
    workers: int | None = None,
    device: str = "cpu",
    observers: Sequence[Observer] = (),
    say: Callable[[str], None] | None = None,
) -> Store:
    """Run a plan into the store at ``path``, going on from its last recorded round; return the open store.

    ``say`` is told before the engine does something that takes long, such as compiling.
    """
    store = resume(path, plan)
    try:
        if store is not None:
            if (last := store.last_round()) is not None and last.round >= plan.rounds:
                _check_engine(store, engine)
                return store
            store.claim()
        task = build(plan.settings, plan.seed, data_dir)
        work = task.workload
        trainer = make_engine(work, engine, workers, device, say) if isinstance(engine, str) else engine(work)
        try:
            fleet = devices(plan.settings.fleet, len(task.population), plan.seed)
            about = facts(plan, task, trainer.name)
            if store is None:
                store = Store.create(path, about, client_rows(task, fleet))
            check_same(store, about)
            Run(task, plan.server, federation(plan, task, fleet), trainer, store, plan.rounds, observers).play()
        finally:
            trainer.close()
    except BaseException:
        if store is not None:
            store.close()
        raise
    return store


def resume(path: Path, plan: Plan) -> Store | None:
    """Open a run to go on with; None where there is none; refuse one with other settings, showing the difference."""
    if holds_nothing(path):
        return None
    store = Store.open(path)
    differences = _differences(store.facts().get("plan", {}), plan.describe())
    if differences:
        store.close()
        raise StoreError(
            f"{path} holds a run with other settings:\n  " + "\n  ".join(differences) + "\n"
            "Give another --out, or repeat the settings of that run to go on with it."
        )
    return store


def check_same(store: Store, about: Mapping[str, Any]) -> None:
    """Refuse to go on where results would differ: another engine, other data, another initial model."""
    found = store.facts()
    for what in ("engine", "data", "model"):
        if found[what] != about[what]:
            raise StoreError(
                f"{store.path} was run with {what} '{found[what]}', this is '{about[what]}': results would differ. "
                "Give another --out, or go on with the same."
            )
    if found["versions"] != about["versions"]:
        store.note("versions-resumed", [*found.get("versions-resumed", []), about["versions"]])


def _check_engine(store: Store, asked: str | Callable[[Workload], Engine]) -> None:
    """Refuse to show a run that is complete where another engine was asked for by name."""
    made = store.facts()["engine"]
    if isinstance(asked, str) and asked != "auto" and not made.startswith(asked):
        raise StoreError(f"{store.path} was run with engine '{made}', not '{asked}'. Give another --out.")


def _versions() -> dict[str, str]:
    """Of every package that results depend on, and is there (the native engine's compiler need not be)."""
    found = {}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def federation(plan: Plan, task: Task, fleet: Devices) -> Federation:
    """The simulated federation of a task."""
    settings, sizes = plan.settings, task.population.sizes
    matching = _matching_costs(settings.federation.matching, task) if plan.server.profiles else {}
    costs = CostModel(settings.costs, fleet, sizes, settings.training.epochs, **matching)
    return Federation(costs, settings.conditions, plan.seed)


def profile_length(task: Task) -> int:
    """The paper's q of a task's profiled layer: the length of a profile of two validation samples."""
    from fedprof.core.capture import profile

    few = task.workload.validation.standardised(slice(0, 2))
    return profile(task.workload.model, few, layer=task.workload.layer).q


def facts(plan: Plan, task: Task, engine: str) -> dict[str, Any]:
    """What is stored with every run: settings, seed, versions, machine, and what tells its data and model apart."""
    return {
        "plan": plan.describe(),
        "aggregation": plan.server.combines.mode,
        "engine": engine,
        "data": data_fingerprint(task.workload.clients, task.workload.validation),
        "model": fingerprint(task.initial_weights),
        "versions": _versions(),
        "machine": {"python": platform.python_version(), "system": platform.system(), "machine": platform.machine()},
    }


def client_rows(task: Task, fleet: Devices) -> list[ClientRow]:
    """Who the clients are."""
    clients = task.workload.clients
    kinds = [clients.kinds[kind] for kind in clients.kind.tolist()]
    columns = (clients.sizes.tolist(), fleet.speed.tolist(), fleet.bandwidth.tolist())
    return list(map(ClientRow, range(len(clients)), task.names, kinds, *columns))


def _matching_costs(name: str, task: Task) -> dict[str, Any]:
    """What profiles, or what stands for them in private, add to a client's round; plain is the paper's 8q bytes."""
    q = profile_length(task)
    if name == "plain":
        return {"profile_bytes": BYTES_AN_ELEMENT * q}
    from fedprof.matching import make

    costs = make(name).costs(q)
    return {
        "profile_bytes": costs.bytes_up,
        "baseline_bytes": costs.bytes_down,
        "profile_cycles": costs.client_cycles,
    }


def _differences(found: Any, wanted: Any, where: str = "") -> list[str]:
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        keys = list(dict.fromkeys([*found, *wanted]))
        return [
            line for key in keys for line in _differences(found.get(key), wanted.get(key), f"{where}.{key}".strip("."))
        ]
    return [] if found == wanted else [f"{where}: {json.dumps(found)} there, {json.dumps(wanted)} here"]
