"""Many runs of one task at once on an accelerator: each in a thread, their training stacked into one model."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedprof.errors import SettingsError
from fedprof.simulation.run import Observer
from fedprof.simulation.start import simulate
from fedprof.tasks.load import Plan
from fedprof.tasks.task import build
from fedprof.training.stacked.engine import StackedEngine, Stacker
from fedprof.training.stacked.lockstep import Lockstep


def simulate_together(
    plans: Mapping[Path, Plan],
    device: str,
    data_dir: Path | None = None,
    observers: Sequence[Observer] = (),
) -> dict[Path, Exception]:
    """Run every plan into its store, going on from its last recorded round; return what went wrong, by store."""
    seeds = sorted({plan.seed for plan in plans.values()})
    tasks = {(plan.settings.model_copy(update={"algorithms": {}}).model_dump_json()) for plan in plans.values()}
    if len(tasks) != 1:
        raise SettingsError("runs can be stacked only if their tasks have the same settings")
    settings = next(iter(plans.values())).settings
    workloads = [build(settings, seed, data_dir).workload for seed in seeds]
    meeting = Lockstep(Stacker(workloads, device), len(plans))
    problems: dict[Path, Exception] = {}

    def play(path: Path, plan: Plan) -> None:
        source = seeds.index(plan.seed)
        made = StackedEngine(workloads[source], meeting, source)
        try:
            simulate(plan, path, data_dir=data_dir, engine=lambda _: made, observers=observers).close()
        except Exception as error:  # noqa: BLE001 - one run's failure must not hold up the others
            problems[path] = error
        finally:
            made.close()

    threads = [threading.Thread(target=play, args=pair, daemon=True) for pair in plans.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return problems
