"""Where runs are kept unless told otherwise."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from fedprof.tasks.load import Plan, plan

RUNS = Path("runs")


def default_path(chosen: Plan, folder: Path = RUNS) -> Path:
    """``runs/TASK-ALGORITHM-MODE-sSEED.sqlite``; settings other than the task's own add a mark to the name."""
    mode = chosen.server.combines.mode
    name = f"{chosen.settings.name}-{chosen.algorithm.replace(':', '.')}-{mode}-s{chosen.seed}"
    return folder / f"{name}{_mark(chosen, mode)}.sqlite"


def _mark(chosen: Plan, mode: str) -> str:
    from fedprof.tasks.load import PRESETS

    aggregation = mode if chosen.algorithm == "fedprof" else None
    if chosen.settings.name in PRESETS:
        usual = plan(chosen.settings.name, algorithm=chosen.algorithm, aggregation=aggregation, seed=chosen.seed)
        if usual.describe() == chosen.describe():
            return ""
    text = json.dumps(chosen.describe(), sort_keys=True)
    return "-" + hashlib.sha256(text.encode()).hexdigest()[:8]
