"""Tiny federations, an engine that learns by arithmetic, and what two stores must have in common."""

from dataclasses import dataclass, field

import numpy as np

from fedprof.algorithms.base import Population, Selection
from fedprof.core.profile import Profile
from fedprof.simulation.costs import CostModel
from fedprof.simulation.federation import Federation
from fedprof.simulation.fleet import Devices, devices
from fedprof.simulation.run import Run
from fedprof.simulation.start import client_rows, facts, federation
from fedprof.simulation.store import Store
from fedprof.tasks.load import plan
from fedprof.tasks.settings import Conditions, Costs
from fedprof.tasks.task import build
from fedprof.training.engine import Evaluation, Update

Q = 3
TABLES = ("run", "clients", "rounds", "participation", "state")
SMALL = ("clients=8", "fraction=0.5", "validation=100")
CONSTANTS = Costs(bits_per_sample=100, cycles_per_bit=10, model_megabytes=1.0)


@dataclass
class ToyEngine:
    """Client k adds k + 1 to every weight; accuracy grows with the mean weight. Faults are given by client."""

    name: str = "toy"
    faults: dict = field(default_factory=dict)
    asked: list = field(default_factory=list)

    def train(self, weights, round, clients, recipe, *, profile=False):
        self.asked.append((round, list(clients)))
        return [self._update(weights, round, client, profile) for client in clients]

    def _update(self, weights, round, client, profile):
        fault = self.faults.get(client)
        if isinstance(fault, Exception):
            raise fault
        new = weights + np.float32(client + 1) if fault is None else np.full_like(weights, fault)
        return Update(client, new, 1.0, self._profile(client, round - 1) if profile else None)

    def evaluate(self, weights, *, version=None):
        accuracy = float(1 - 1 / (1 + max(weights.mean(), 0)))
        return Evaluation(accuracy, 1 - accuracy, None if version is None else self._profile(0, version))

    def profiles(self, weights, clients, version):
        for client in clients:
            if isinstance(self.faults.get(client), Exception):
                raise self.faults[client]
        return [self._profile(client, version) for client in clients]

    def _profile(self, client, version):
        return Profile(np.full(Q, 0.1 * client), np.ones(Q), 10, version)

    def close(self):
        pass


def small_plan(algorithm="fedprof", *, rounds=4, seed=0, overrides=()):
    return plan("digits", algorithm=algorithm, rounds=rounds, seed=seed, overrides=[*SMALL, *overrides])


def toy_run(chosen, path, engine=None, observers=()):
    """A run like the simulator's own, with a toy engine."""
    engine = engine or ToyEngine()
    task = build(chosen.settings, chosen.seed)
    fleet = devices(chosen.settings.fleet, len(task.population), chosen.seed)
    if path.exists():
        store = Store.open(path)
        store.claim()
    else:
        store = Store.create(path, facts(chosen, task, engine.name), client_rows(task, fleet))
    return Run(task, chosen.server, federation(chosen, task, fleet), engine, store, chosen.rounds, observers)


def played(chosen, path, engine=None, observers=()):
    """Play a run to its end; return its store, open."""
    run = toy_run(chosen, path, engine, observers)
    run.play()
    return run.store


def contents(path):
    """All that must not depend on interruptions, workers or the machine: every table but the timing."""
    store = Store.open(path, read_only=True)
    found = {table: sorted(store.query(f"SELECT * FROM {table}"), key=repr) for table in TABLES}
    store.close()
    return found


def fleet_of(seconds, *, crash=0.0, **conditions):
    """A federation whose clients take just so many seconds to train, and next to none for all else."""
    count = len(seconds)
    speed = 100 * 10 * 1000 / (np.asarray(seconds, float) * 1e9)
    costs = CONSTANTS.model_copy(update={"model_megabytes": 1e-9})
    model = CostModel(costs, Devices(speed, np.ones(count), 1.0), np.full(count, 1000), epochs=1)
    return Federation(model, Conditions(crash=crash, **conditions), seed=0)


def ask(*clients, quota=None, first=None):
    chosen = np.array(clients)
    return Selection(chosen, np.ones_like(chosen), quota, None if first is None else np.array(first))


def crowd(count, cohort):
    return Population(np.full(count, 10), cohort)
