"""fedprof's own simulation loop: selection, virtual clock, training, gate, aggregation, evaluation, one transaction.

    fedprof_simulator.py WORKLOAD ENGINE ALGORITHM

The round is the one users get; only the data and the model are this race's.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
from pacing import OverError, Pacer
from torch_parts import model_of
from workload import SCALE, SHIFT, Workload, data, workload

from fedprof.data.clients import ClientData, Samples
from fedprof.simulation.fleet import devices
from fedprof.simulation.run import Run
from fedprof.simulation.start import client_rows, facts, federation
from fedprof.simulation.store import Store
from fedprof.tasks.load import Plan, plan
from fedprof.tasks.task import Task
from fedprof.training import engine as engines
from fedprof.training.choose import make_engine
from fedprof.training.metrics import Regression, classification

PRESETS = {"w1": "gasturbine", "w2": "emnist"}
WORKERS = 2


class Observer:
    """Tells the race that a round is recorded."""

    def __init__(self, pacer: Pacer) -> None:
        self.pacer = pacer

    def begin(self, run: Run) -> None:
        self.pacer.ready()

    def round(self, run: Run, row) -> None:
        self.pacer.round_done(row.loss)

    def end(self, run: Run) -> None:
        pass


def main() -> None:
    pacer, work = Pacer("fedprof", "torch", "numba"), workload(sys.argv[1], "quick" in sys.argv)
    engine_name, algorithm = sys.argv[2:4]
    chosen = settled(work, algorithm)
    made = engine_workload(work, chosen.settings.training.loss)
    task = Task(chosen.settings, 0, made, [str(k) for k in range(work.clients)])
    engine = make_engine(made, engine_name, WORKERS)
    fleet = devices(chosen.settings.fleet, work.clients, 0)
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.sqlite"
            store = Store.create(path, facts(chosen, task, engine.name), client_rows(task, fleet))
            place = federation(chosen, task, fleet)
            Run(task, chosen.server, place, engine, store, chosen.rounds, [Observer(pacer)]).play()
    finally:
        engine.close()


def settled(work: Workload, algorithm: str) -> Plan:
    """The paper's preset with this workload's numbers."""
    numbers = {"training.epochs": work.epochs, "training.batch": work.batch, "training.rate": work.rate}
    numbers |= {"evaluation_batch": work.evaluation_batch, "decay": 1.0}
    numbers |= {"clients": work.clients, "fraction": work.cohort / work.clients}
    overrides = [f"{name}={value}" for name, value in numbers.items()]
    return plan(PRESETS[work.name], algorithm=algorithm, rounds=1_000_000, overrides=overrides)


def engine_workload(work: Workload, loss: str) -> engines.Workload:
    deal = data(work)
    if work.regression:
        metric, scaling = Regression(np.array([70.0, 60.0]), np.array([10.0, 10.0])), ()
        rows, offsets = None, np.concatenate([[0], np.cumsum(deal.sizes)])
    else:
        metric, scaling = classification, (SHIFT, SCALE)
        rows = np.concatenate([np.arange(span.start, span.stop) for span in deal.spans])
        offsets = np.arange(0, len(rows) + 1, 480)
    clients = ClientData(Samples(deal.x, deal.y, *scaling), offsets, rows)
    held_out = Samples(*deal.held_out, *scaling)
    model = model_of(work)
    return engines.Workload(model, "fc1", clients, held_out, loss, metric, evaluation_batch=work.evaluation_batch)


if __name__ == "__main__":
    with suppress(OverError):
        main()
