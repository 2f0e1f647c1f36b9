"""Race fedprof against other simulators of federated learning: the same rounds, in turns, on this machine.

    python benchmarks/race.py [--workloads w1 w2] [--only KEY ...] [--turns N] [--quick] [--venvs FOLDER] [--out FOLDER]

w1: 50 clients, MLP 11-64-32-2, batch 8, 2 epochs, about 514 samples, 10 clients a round, evaluation on 11,000.
w2: 500 clients, LeNet-5, batch 32, 5 epochs, 480 images, 25 clients a round, evaluation on 40,000.

Each framework gets a virtual environment of its own (made once; some 4 GB in all). All are alive at once and take
turns (one round each; several where rounds are short), so that other load meets all alike. One that fails is shown with
its last words; the others go on.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from statistics import median

import machine
from racers import FAIRNESS, RACERS, Racer, RacerError, python_of
from runner import Runner

WARM_UP = {"w1": 20, "w2": 2}
TITLES = {
    "w1": "W1: 50 clients, MLP 11-64-32-2, batch 8, 2 epochs, about 514 samples, 10 a round, evaluation on 11,000",
    "w2": "W2: 500 clients, LeNet-5, batch 32, 5 epochs, 480 images, 25 a round, evaluation on 40,000",
}
SHORT = 0.5
"""Seconds a turn takes at least: short rounds are run several times in it."""


@dataclass
class Result:
    """What one racer did in one workload."""

    racer: Racer
    seconds: list[float] = field(default_factory=list)
    loss: float = math.nan
    versions: dict[str, str] = field(default_factory=dict)
    failure: str = ""


def main() -> None:
    options = arguments()
    racers = [racer for racer in RACERS if not options.only or racer.key in options.only]
    head = f"# The race, {date.today().isoformat()}\n\n{machine.described()}"
    parts = [head, how_measured(options)]
    print("\n\n".join(parts), flush=True)
    everything: list[Result] = []
    for name in options.workloads:
        results = raced(racers, name, options)
        everything += results
        parts.append(f"## {TITLES[name]}{' (quick form: far smaller)' * options.quick}\n\n{standing(results)}")
        print(f"\n{parts[-1]}", flush=True)
    parts += [f"## Versions\n\n{versions(racers, everything)}", f"## Fairness\n\n{fairness(racers)}"]
    print("", *parts[-2:], sep="\n\n")
    if options.out:
        path = machine.write("race", "\n\n".join(parts), options.out)
        print(f"\nwritten to {path}")
    if any(result.failure for result in everything if not result.racer.requirement):
        sys.exit(1)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    keys = [racer.key for racer in RACERS]
    parser.add_argument("--workloads", nargs="+", choices=list(TITLES), default=list(TITLES))
    parser.add_argument("--only", nargs="+", choices=keys, metavar="KEY", help=f"some of {', '.join(keys)}")
    parser.add_argument("--turns", type=int, default=7, help="of every racer")
    parser.add_argument("--quick", action="store_true", help="tiny workloads and fewer turns: does it run at all?")
    parser.add_argument("--venvs", type=Path, default=Path(__file__).parent / ".venvs", help="where environments are")
    parser.add_argument("--out", type=Path, help="also write race-DATE.md into this folder")
    options = parser.parse_args()
    options.turns = min(options.turns, 2) if options.quick else options.turns
    return options


def raced(racers: list[Racer], workload: str, options: argparse.Namespace) -> list[Result]:
    """Line all up, then let them take turns."""
    results = [Result(racer) for racer in racers]
    runners: dict[str, Runner] = {}
    try:
        for result in results:
            attempt(result, lambda result=result: line_up(result, workload, options, runners))
        for turn in range(options.turns):
            for result in results:
                attempt(result, lambda result=result: take_turn(result, runners))
            print(f"{workload}: turn {turn + 1} of {options.turns}", file=sys.stderr, flush=True)
    finally:
        for runner in runners.values():
            runner.close()
    return results


def attempt(result: Result, deed) -> None:
    if result.failure:
        return
    try:
        deed()
    except RacerError as error:
        result.failure = str(error)
        print(f"{result.racer.name}: {error}", file=sys.stderr, flush=True)


def line_up(result: Result, workload: str, options: argparse.Namespace, runners: dict[str, Runner]) -> None:
    """Start it and warm it up: workers start, data load, what is compiled gets compiled."""
    python = python_of(result.racer, options.venvs)
    runner = runners[result.racer.key] = Runner(result.racer, python, workload, options.quick)
    result.versions = runner.versions
    times, result.loss = runner.run(2 if options.quick else WARM_UP[workload])
    runner.rounds = max(1, round(SHORT / min(times)))


def take_turn(result: Result, runners: dict[str, Runner]) -> None:
    runner = runners[result.racer.key]
    times, _ = runner.run(runner.rounds)
    result.seconds += times


def standing(results: list[Result]) -> str:
    plain = next((result for result in results if result.racer.key == "plain" and result.seconds), None)
    rows = [row(result, median(plain.seconds) if plain else math.nan) for result in results]
    columns = ["", "s/round (median)", "fastest", "rounds", "times the plain loop's speed", "loss after the warm-up"]
    failed = [f"{result.racer.name} failed: `{result.failure}`" for result in results if result.failure]
    return "\n\n".join([machine.table(columns, rows), *failed])


def row(result: Result, plain: float) -> list[str]:
    if not result.seconds:
        return [result.racer.name, "failed", "", "", "", ""]
    middle = median(result.seconds)
    times = [f"{middle:.4g}", f"{min(result.seconds):.4g}", f"{len(result.seconds)}"]
    return [result.racer.name, *times, "" if math.isnan(plain) else f"{plain / middle:.3g}x", f"{result.loss:.3f}"]


def how_measured(options: argparse.Namespace) -> str:
    rounds = ", ".join(f"{WARM_UP[name]} rounds in {name.upper()}" for name in options.workloads)
    warm_up = "2 rounds" if options.quick else rounds
    return (
        f"Whole rounds (choosing, training, combining, evaluation) of racers that are alive together and take turns, "
        f"{options.turns} each; before, everyone warms up ({warm_up}). A figure is the median over all rounds "
        f"of a racer. Command: `python benchmarks/{shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])}`."
    )


def versions(racers: list[Racer], results: list[Result]) -> str:
    """Of each racer, from whichever workload it started in."""
    found = {result.racer.key: result.versions for result in results if result.versions}
    lines = (", ".join(f"{name} {version}" for name, version in found.get(one.key, {}).items()) for one in racers)
    return "\n".join(f"- {racer.name}: {line or '-'}" for racer, line in zip(racers, lines, strict=True))


def one_line(text: str) -> str:
    return " ".join(text.split())


def fairness(racers: list[Racer]) -> str:
    own = [f"{racer.name}: {racer.note}." for racer in racers if racer.note]
    return "\n".join(f"- {line}" for line in [*map(one_line, FAIRNESS), *own])


if __name__ == "__main__":
    main()
