"""Time the engines against a plain PyTorch loop, selection at many clients, start-up, and the paper's first table.

    python benchmarks/micro.py [PART ...] [--turns N] [--workers N] [--out FOLDER]

Parts: native, sweep, avx2, torch, profiling, selection, startup, gasturbine (needs FEDPROF_DATA); by default all.
Whatever is compared takes turns; figures are medians.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from statistics import median

import numpy as np
import torch

import machine
from cases import Case, any_module, sweep, w1, w2
from fedprof.algorithms.base import Population
from fedprof.algorithms.fedprof import DIVERGENCE, FedProf
from fedprof.models.weights import flatten
from fedprof.training.choose import make_engine
from rounds import PlainLoop, engine_round, peak, round_operations, seconds

COMMANDS = {
    "python -c pass": ("-c", "pass"),
    "python -c 'import fedprof'": ("-c", "import fedprof"),
    "fedprof --help": ("-m", "fedprof", "--help"),
    "fedprof run --help": ("-m", "fedprof", "run", "--help"),
}

AVX2 = {
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "+avx2,+fma,+bmi2,+f16c",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
}


def main() -> None:
    options = arguments()
    torch.set_num_threads(1)
    described = machine.described("numpy", "torch", "numba")
    parts = [f"# Micro benchmarks, {date.today().isoformat()}", described]
    print(parts[0], described, sep="\n\n")
    for name in options.parts:
        parts.append(PARTS[name](options))
        print(f"\n{parts[-1]}", flush=True)
    if options.out:
        path = machine.write("micro", "\n\n".join(parts), options.out)
        print(f"\nwritten to {path}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, help="also write micro-DATE.md into this folder")
    options = parser.parse_args()
    if unknown := set(options.parts) - PARTS.keys():
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    options.parts = options.parts or list(PARTS)
    return options


def native(options: argparse.Namespace) -> str:
    """Whole rounds of W1 and W2, and how far they are from the limit of the arithmetic."""
    limit, rows = peak(options.workers), []
    for case in (w1(), w2()):
        found = compared(case, options, {"native": options.workers, "native, 1 thread": 1})
        plain, ours, one = found["plain"], found["native"], found["native, 1 thread"]
        floor = round_operations(case) / limit
        ratios = [f"{plain / ours:.1f}x", f"{plain / one:.1f}x", f"{floor:.3g}", f"{ours / floor:.2f}"]
        rows.append([case.name, f"{plain:.4g}", f"{ours:.4g}", *ratios])
    workers = options.workers
    columns = ["case", "plain loop (s)", f"{workers} threads (s)", "ratio", "1 thread", "limit (s)", "times the limit"]
    told = (
        "The native engine: a whole round, training, profiles, evaluation, baseline. The plain loop makes no profiles. "
        f"The limit is the round's counted multiplications and additions at {limit / 1e9:.0f} GFLOP/s, which {workers} "
        "threads reach that do nothing else."
    )
    return f"## Native engine\n\n{told}\n\n{machine.table(columns, rows)}"


def swept(options: argparse.Namespace) -> str:
    rows = []
    for case in sweep():
        found = compared(case, options, {"native": options.workers, "torch": options.workers})
        plain, ours, other = (found[name] for name in ("plain", "native", "torch"))
        rows.append([case.name, f"{plain:.4g}", f"{ours:.4g}", f"{plain / ours:.1f}x", f"{plain / other:.1f}x"])
    columns = ["case", "plain loop (s)", "native (s)", "native", "torch engine"]
    told = (
        "Other batch sizes, widths and image sizes; 2 clients of 480 images, 200 evaluated; ratios to the plain loop."
    )
    return f"## Sweep\n\n{told}\n\n{machine.table(columns, rows)}"


def narrow(options: argparse.Namespace) -> str:
    """The sweep where neither compiler nor libraries use AVX-512."""
    command = [sys.executable, __file__, "sweep", "--turns", str(options.turns), "--workers", str(options.workers)]
    done = subprocess.run(command, env={**os.environ, **AVX2}, capture_output=True, text=True, check=True)
    table = done.stdout[done.stdout.index("| case") :].strip()
    settings = ", ".join(f"`{name}={value}`" for name, value in AVX2.items())
    return f"## Sweep with AVX2\n\nThe same where nothing uses AVX-512 ({settings}).\n\n{table}"


def any_model(options: argparse.Namespace) -> str:
    rows = []
    for case in any_module():
        found = compared(case, options, {"torch": options.workers}, profile=False)
        plain, ours = found["plain"], found["torch"]
        rows.append([case.name, f"{plain:.4g}", f"{ours:.4g}", f"{plain / ours:.2f}x"])
    columns = ["case", "plain loop (s)", "torch engine (s)", "ratio"]
    told = f"The engine for any module, {options.workers} worker processes; training and evaluation, no profiles."
    return f"## Torch engine\n\n{told}\n\n{machine.table(columns, rows)}"


def compared(
    case: Case, options: argparse.Namespace, engines: dict[str, int], profile: bool = True
) -> dict[str, float]:
    """Seconds a round of the plain loop and of engines, by name and number of workers."""
    weights = flatten(case.workload.model)
    made = {name: make_engine(case.workload, name.split(",")[0], workers) for name, workers in engines.items()}
    plain = PlainLoop(case)
    try:
        runs: dict[str, Callable[[], object]] = {
            name: (lambda engine=engine: engine_round(engine, case, weights, profile=profile))
            for name, engine in made.items()
        }
        for run in runs.values():
            run()
        return seconds({"plain": lambda: plain.round(weights), **runs}, options.turns)
    finally:
        for engine in made.values():
            engine.close()


def profiling(options: argparse.Namespace) -> str:
    """What profiles add to the training of a cohort, beside a forward pass over its data."""
    (shufflenet,) = [case for case in any_module() if case.name.startswith("ShuffleNet") and "ours" in case.name]
    cases = (("native", w1()), ("native", w2()), ("torch", shufflenet))
    rows = [profiling_row(name, case, options) for name, case in cases]
    columns = ["case", "training (ms)", "profiles add (ms)", "evaluating the same data (ms)", "passes"]
    told = (
        "Profiles of the cohort, made with its training, beside one forward pass (an evaluation) of the same samples."
    )
    return f"## Profiling\n\n{told}\n\n{machine.table(columns, rows)}"


def profiling_row(name: str, case: Case, options: argparse.Namespace) -> list[str]:
    pool, weights = case.workload.clients.pool, flatten(case.workload.model)
    held = int(case.workload.clients.sizes[case.cohort].sum())
    work = replace(case.workload, validation=replace(pool, x=pool.x[:held], y=pool.y[:held]))
    engine = make_engine(work, name, options.workers)
    runs = {
        "without": lambda: engine.train(weights, 1, case.cohort, case.recipe),
        "with": lambda: engine.train(weights, 1, case.cohort, case.recipe, profile=True),
        "forward": lambda: engine.evaluate(weights),
    }
    runs["with"]()
    found = seconds(runs, 2 * options.turns)
    engine.close()
    added = found["with"] - found["without"]
    times = [f"{1e3 * value:.4g}" for value in (found["without"], added, found["forward"])]
    return [f"{case.name} ({name})", *times, f"{added / found['forward']:.2f}"]


def selection(options: argparse.Namespace) -> str:
    """Scoring everybody and drawing a cohort of ten."""
    rows = [selection_row(clients, options) for clients in (1_000, 10_000, 100_000, 1_000_000)]
    table = machine.table(["clients", "scores (ms)", "scores and draw (ms)"], rows)
    return f"## Selection\n\nFedProf scores all clients and draws ten.\n\n{table}"


def selection_row(clients: int, options: argparse.Namespace) -> list[str]:
    rng, algorithm = np.random.default_rng(0), FedProf()
    population = Population(rng.integers(100, 1000, clients), 10)
    state = {**algorithm.start(population, np.zeros(1, np.float32)), DIVERGENCE: rng.exponential(size=clients)}
    runs = {
        "scores": lambda: algorithm.scores(state, population),
        "select": lambda: algorithm.select(state, population, rng),
    }
    found = seconds(runs, options.turns)
    return [f"{clients:,}", *(f"{1e3 * found[name]:.3g}" for name in runs)]


def startup(options: argparse.Namespace) -> str:
    runs = {name: (lambda call=call: called(*call)) for name, call in COMMANDS.items()}
    for run in runs.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(4 * options.turns):
        for name, run in runs.items():
            begun = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - begun)
    rows = [[f"`{name}`", f"{median(found):.3f}", f"{min(found):.3f}"] for name, found in times.items()]
    return f"## Start-up\n\nFiles cached.\n\n{machine.table(['command', 'median (s)', 'fastest (s)'], rows)}"


def called(*call: str) -> None:
    subprocess.run([sys.executable, *call], stdout=subprocess.DEVNULL, check=True)


def gasturbine(options: argparse.Namespace) -> str:
    """The paper's first table, from nothing to the page."""
    title = "## The paper's GasTurbine table"
    if not os.environ.get("FEDPROF_DATA"):
        return f"{title}\n\nNot measured: FEDPROF_DATA names no folder of data sets."
    with tempfile.TemporaryDirectory() as folder:
        places = [f"--{name}={folder}/{name}" for name in ("out", "work", "page")]
        call = ["reproduce", "gasturbine", "--seeds=5", f"--jobs={options.workers}"]
        begun = time.perf_counter()
        called("-m", "fedprof", *call, *places)
        took = time.perf_counter() - begun
    shown = " ".join(["fedprof", *call])
    return f"{title}\n\n`{shown}`: 8 rows x 5 seeds x 500 rounds, table, figures and page in {took:.0f} s."


PARTS: dict[str, Callable[[argparse.Namespace], str]] = {
    "native": native,
    "sweep": swept,
    "avx2": narrow,
    "torch": any_model,
    "profiling": profiling,
    "selection": selection,
    "startup": startup,
    "gasturbine": gasturbine,
}


if __name__ == "__main__":
    main()
