"""What a run comes to: the numbers of the paper's tables, computed from its store and from nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedprof.errors import StoreError
from fedprof.simulation.fingerprint import fingerprint
from fedprof.simulation.run import WEIGHTS
from fedprof.simulation.store import RoundRow, Store

SECONDS_A_MINUTE = 60
JOULES_A_WATT_HOUR = 3600


@dataclass(frozen=True)
class Summary:
    """One run's figures; times and energy are virtual. What was never reached is None."""

    task: str
    algorithm: str
    aggregation: str
    seed: int
    rounds: int
    goal: float
    best_accuracy: float
    final_accuracy: float
    minutes: float
    energy_wh: float
    rounds_to_goal: int | None
    minutes_to_goal: float | None
    energy_wh_to_goal: float | None
    weights_sha256: str
    wall_seconds: float
    engine: str
    run: str


def summarise(store: Store) -> Summary:
    """Sum up a run as far as it is recorded."""
    facts = store.facts()
    plan: dict[str, Any] = facts["plan"]
    history = store.rounds()
    if not history:
        raise StoreError(f"{store.path} has no recorded round yet")
    goal = float(plan["federation"]["goal"])
    last, reached = history[-1], first_at(history, goal)
    weights = store.state()[WEIGHTS].astype(np.float32)
    return Summary(
        task=plan["name"],
        algorithm=plan["algorithm"],
        aggregation=facts["aggregation"],
        seed=plan["seed"],
        rounds=last.round,
        goal=goal,
        best_accuracy=last.best_accuracy or 0.0,
        final_accuracy=last.accuracy or 0.0,
        minutes=last.clock / SECONDS_A_MINUTE,
        energy_wh=last.total_joules / JOULES_A_WATT_HOUR,
        rounds_to_goal=reached.round if reached else None,
        minutes_to_goal=reached.clock / SECONDS_A_MINUTE if reached else None,
        energy_wh_to_goal=reached.total_joules / JOULES_A_WATT_HOUR if reached else None,
        weights_sha256=fingerprint(weights),
        wall_seconds=store.wall_seconds(),
        engine=facts["engine"],
        run=str(Path(store.path)),
    )


def first_at(history: list[RoundRow], goal: float) -> RoundRow | None:
    """The first round whose accuracy reached the goal."""
    return next((row for row in history if row.accuracy is not None and row.accuracy >= goal), None)
