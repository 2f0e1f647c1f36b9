"""How cost and memory grow with the number of clients, the cohort, samples a client and the profile's length.

    python benchmarks/scale.py [--out FOLDER]

Digits: up to 100,000 clients of 50 samples; cohorts, samples, lengths. With FEDPROF_DATA also 500 clients of EMNIST.
Every case runs in a process of its own, so that its peak memory is its own. Samples are shared by row numbers: a
hundred thousand clients of digits draw on the same 1,397 images (a copy for each kind of damage).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import machine

ROUNDS = 5
SHARED = ("data.samples=50", "data.recycle=true")
EMNIST = ("samples=192", "validation=16000")
"""So many samples a client that two fifths of EMNIST are enough."""
FEW = ("clients=1000", "fraction=0.01")
COLUMNS = ["case", "start (s)", "round (ms)", "of it the engine (ms)", "peak memory (MiB)", "store (MiB)"]
EXPLAINED = """Digits on an MLP 64-64-10. Unless the case says otherwise: 1,000 clients of 50 samples, cohort 10.
Start: data, everybody's first profile, one round. Round: the mean of the next five. Store: six rounds."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--out", type=Path, help="also write scale-DATE.md into this folder")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.case:
        print(json.dumps(measure(**json.loads(chosen.case))))
        return
    head = f"# Scale, {date.today().isoformat()}\n\n{machine.described('numpy', 'numba', 'torch')}\n\n{EXPLAINED}"
    print(f"{head}\n")
    found = [in_own_process(case) for case in cases(chosen)]
    text = f"{head}\n\n{machine.table(COLUMNS, found)}"
    print(f"\n{machine.table(COLUMNS, found)}")
    if chosen.out:
        print(f"\nwritten to {machine.write('scale', text, chosen.out)}")


def cases(chosen: argparse.Namespace) -> list[dict[str, object]]:
    common = {"engine": chosen.engine}
    digits = [{**common, "task": "digits", **case} for case in (*populations(), *cohorts(), *samples(), *lengths())]
    if not os.environ.get("FEDPROF_DATA"):
        return digits
    return [*digits, {**common, "task": "emnist", "overrides": EMNIST, "what": "EMNIST, 500 clients of 192"}]


def populations() -> list[dict[str, object]]:
    """The cohort stays at ten."""
    made = []
    for algorithm in ("fedprof", "cfcfm"):
        for clients in (100, 1_000, 10_000, 100_000):
            given = (*SHARED, f"clients={clients}", f"fraction={10 / clients}")
            made.append({"what": f"{algorithm}, {clients:,} clients", "algorithm": algorithm, "overrides": given})
    return made


def cohorts() -> list[dict[str, object]]:
    return [
        {"what": f"cohort of {cohort}", "overrides": (*SHARED, "clients=1000", f"fraction={cohort / 1000}")}
        for cohort in (10, 50, 250)
    ]


def samples() -> list[dict[str, object]]:
    return [
        {"what": f"{samples} samples", "overrides": (f"data.samples={samples}", *SHARED[1:], *FEW)}
        for samples in (50, 200, 800)
    ]


def lengths() -> list[dict[str, object]]:
    return [
        {"what": f"q = {q}", "overrides": (*SHARED, *FEW, f"model.options.hidden=[{q}]")} for q in (16, 64, 256, 1024)
    ]


def in_own_process(case: dict[str, object]) -> list[str]:
    """A line of the table."""
    what = str(case.pop("what"))
    call = [sys.executable, __file__, "--case", json.dumps(case)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{what}: {done.stderr}")
    found = json.loads(done.stdout)
    figures = [f"{found['start_s']:.2f}", f"{found['round_ms']:.1f}", f"{found['training_ms']:.1f}"]
    line = [what, *figures, f"{found['peak_mib']:.0f}", f"{found['store_mib']:.1f}"]
    print("   ".join(line), flush=True)
    return line


def measure(task: str, overrides: list[str], engine: str, algorithm: str = "fedprof") -> dict[str, float]:
    """Play a few rounds; the start holds the data, everybody's first profile and one round (compilation)."""
    from fedprof.simulation.start import simulate
    from fedprof.tasks.load import plan

    began = time.perf_counter()
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.sqlite"
        chosen = plan(task, algorithm=algorithm, rounds=1 + ROUNDS, overrides=overrides)
        simulate(chosen, path, engine=engine, observers=[clock]).close()
        size = path.stat().st_size
    return {
        "start_s": clock.first - began,
        "round_ms": 1e3 * (clock.last - clock.first) / ROUNDS,
        "training_ms": 1e3 * (clock.training - clock.training_first) / ROUNDS,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "store_mib": size / 2**20,
    }


class Clock:
    """An observer that notes when rounds end, and how long the engine was at work."""

    def begin(self, run):
        self.training = 0.0
        for name in ("train", "evaluate"):
            setattr(run.engine, name, self._timed(getattr(run.engine, name)))

    def _timed(self, work):
        def timed(*arguments, **more):
            began = time.perf_counter()
            done = work(*arguments, **more)
            self.training += time.perf_counter() - began
            return done

        return timed

    def round(self, run, row):
        self.last = time.perf_counter()
        if row.round == 1:
            self.first, self.training_first = self.last, self.training

    def end(self, run):
        pass


if __name__ == "__main__":
    main()
