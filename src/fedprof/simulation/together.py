"""Many runs at once on an accelerator: each in a thread, the training of those of one task stacked into one model."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedprof.simulation.batch import Assignment, Watcher
from fedprof.simulation.fingerprint import server_fingerprint
from fedprof.simulation.start import simulate
from fedprof.tasks.load import Plan
from fedprof.tasks.task import build
from fedprof.training.choose import check_device
from fedprof.training.stacked.engine import StackedEngine, Stacker
from fedprof.training.stacked.lockstep import Lockstep

if TYPE_CHECKING:
    from fedprof.simulation.run import Run
    from fedprof.simulation.store import RoundRow
    from fedprof.training.engine import Workload


def play_together(assignments: Sequence[Assignment], device: str, data_dir: Path | None, watcher: Watcher) -> None:
    """Make all runs, those of one task at a time; should one fail, the others of its task are played to the end."""
    check_device(device)
    numbers = {one.path: number for number, one in enumerate(assignments)}
    tasks: dict[str, dict[Path, Plan]] = {}
    for one in assignments:
        same = one.plan.settings.model_copy(update={"algorithms": {}}).model_dump_json()
        tasks.setdefault(same, {})[one.path] = one.plan
    report = _Reporter(numbers, watcher)
    for plans in tasks.values():
        for workloads in _stackable(plans.values(), data_dir):
            together = {path: plan for path, plan in plans.items() if plan.seed in workloads}
            problems = _play(together, workloads, Stacker(list(workloads.values()), device), data_dir, report)
            if problems:
                raise next(iter(problems.values()))


def _stackable(plans: Iterable[Plan], data_dir: Path | None) -> list[dict[int, Workload]]:
    """Workloads of one task by seed, those together that share the validation set and the scaling of inputs."""
    settings = {plan.seed: plan.settings for plan in plans}
    groups: dict[str, dict[int, Workload]] = {}
    for seed in sorted(settings):
        work = build(settings[seed], seed, data_dir).workload
        groups.setdefault(server_fingerprint(work.clients, work.validation), {})[seed] = work
    return list(groups.values())


def _play(
    plans: Mapping[Path, Plan],
    workloads: Mapping[int, Workload],
    stacker: Stacker,
    data_dir: Path | None,
    reporter: _Reporter,
) -> dict[Path, BaseException]:
    """Play every plan into its store; what went wrong, by store."""
    seeds = list(workloads)
    meeting = Lockstep(stacker, len(plans))
    problems: dict[Path, BaseException] = {}

    def play(path: Path, plan: Plan) -> None:
        engine = StackedEngine(workloads[plan.seed], meeting, seeds.index(plan.seed))
        try:
            simulate(plan, path, data_dir=data_dir, engine=lambda _: engine, observers=[reporter]).close()
        except Exception as error:  # noqa: BLE001 - one run's failure must not hold up the others
            problems[path] = error
        finally:
            engine.close()

    threads = [threading.Thread(target=play, args=pair, daemon=True) for pair in plans.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return problems


class _Reporter:
    """An observer of all runs that tells one watcher."""

    def __init__(self, numbers: Mapping[Path, int], watcher: Watcher) -> None:
        self._numbers, self._watcher = numbers, watcher

    def begin(self, run: Run) -> None:
        self.round(run, run.last)

    def round(self, run: Run, row: RoundRow) -> None:
        self._watcher.round(self._numbers[run.store.path], row)

    def end(self, run: Run) -> None:
        self._watcher.done(self._numbers[run.store.path])
