"""Runs of the paper's experiments whose every figure is known, without any training."""

from pathlib import Path

import numpy as np

from fedprof.report.stored import Stored
from fedprof.reproduction.archive import Archived
from fedprof.reproduction.experiments import GROUPS, assignments, find
from fedprof.simulation.store import ClientRow, ParticipationRow, RoundRow, Store

KINDS = ("normal", "noise", "normal", "polluted", "irrelevant", "blur", "pixel")
SECONDS, JOULES = 60.0, 3600.0


def make_run(plan, work, accuracies, selected=(0, 2)):
    """Write a run of a plan: every round takes a minute and a watt-hour, and the same clients take part."""
    (assignment,) = assignments([plan], work)
    facts = {
        "plan": plan.describe(),
        "aggregation": plan.server.combines.mode,
        "engine": "native",
        "versions": {"fedprof": "0.1.0"},
    }
    clients = [ClientRow(k, f"client-{k}", kind, 10) for k, kind in enumerate(KINDS)]
    store = Store.create(assignment.path, facts, clients)
    best = 0.0
    for number, accuracy in enumerate(accuracies):
        best = max(best, accuracy)
        row = RoundRow(number, accuracy, 0.5, best, clock=SECONDS * number, total_joules=JOULES * number)
        parts = [ParticipationRow(number, k, int(number > 0), score=0.25) for k in selected]
        store.record(row, parts, {"weights": np.full(3, number, np.float32)})
    store.close()
    return assignment.path


def make_table(work, accuracies, seeds=2, name="gasturbine"):
    """Write a whole table: ``accuracies(algorithm, mode, seed)`` gives a run's history."""
    (experiment,) = find(name)
    for seed in range(seeds):
        for mode, algorithms in GROUPS.items():
            for algorithm in algorithms:
                make_run(experiment.plan(algorithm, mode, seed), work, accuracies(algorithm, mode, seed))
    return experiment


def archived(plan, accuracies, parts=None):
    """A run as it comes out of an archive, without any file."""
    facts = {"plan": plan.describe(), "aggregation": plan.server.combines.mode, "engine": "native"}
    history = [
        RoundRow(number, accuracy, None, None, clock=SECONDS * number, total_joules=JOULES * number)
        for number, accuracy in enumerate(accuracies)
    ]
    everybody = dict.fromkeys(KINDS, (2, 0)) | {"normal": (4, 20)}
    return Archived(Stored(Path("none.sqlite"), facts, [], history), parts or everybody)


def reaching(goal, after, rounds=10, best=None):
    """A history that reaches the goal after so many rounds, never if None."""
    history = [0.1] * (rounds + 1)
    if after is not None:
        history[after] = goal
    history[-1] = best if best is not None else history[-1]
    return history
