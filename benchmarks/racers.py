"""Who races: the script that drives each framework, what its virtual environment needs, and what makes it fair."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PEERS = Path(__file__).parent / "peers"
TORCH = "torch==2.13.0"
"""Installed first and then held, so that no framework pulls another one (a CUDA build is several GB)."""


class RacerError(Exception):
    """A racer could not be installed, died, or did not answer."""


@dataclass(frozen=True)
class Racer:
    """One line of the table."""

    key: str
    name: str
    script: str
    options: tuple[str, ...] = ()
    requirement: str = ""
    """Of its virtual environment; empty: it runs in fedprof's."""
    torch: bool = True
    note: str = ""


RACERS = (
    Racer("plain", "plain PyTorch loop", "plain_loop.py"),
    Racer(
        "flower",
        "Flower simulation (Ray)",
        "flower_simulation.py",
        requirement="flwr[simulation]==1.41.*",
        note="two Ray workers of one CPU and one thread each, not of Ray's low priority; the ClientApp is a "
        "module, which workers import once, so that its data and model stay cached between messages; no client-side "
        "evaluation; the server evaluates on two threads. 1.41, because 1.42 does not resolve on every index",
    ),
    Racer(
        "pfl",
        "pfl-research",
        "pfl_research.py",
        requirement="pfl[pytorch]",
        note="its simulated backend in one process, as its benchmarks do without Horovod; evaluation of clients is off "
        "(evaluation_frequency raised above the number of rounds), the central evaluation runs every round",
    ),
    Racer(
        "fedlab",
        "FedLab standalone",
        "fedlab_standalone.py",
        requirement="fedlab",
        note="serial trainer and synchronous handler, as in its standalone example; slices of tensors take the place "
        "of data loaders, which are slower; evaluation, which it leaves to its user, is the plain loop's",
    ),
    Racer(
        "fedjax",
        "FedJAX",
        "fedjax_simulation.py",
        requirement="fedjax",
        torch=False,
        note="its compiled federated averaging on its CPU backend (JIT), with XLA's own threads; most compilation "
        "falls into the warm-up; its models start from other random weights, so its loss differs",
    ),
    Racer("native", "fedprof, FedAvg-RP", "fedprof_simulator.py", ("native", "fedavg-rp")),
    Racer(
        "fedprof",
        "fedprof, FedProf",
        "fedprof_simulator.py",
        ("native", "fedprof"),
        note="the algorithm of the paper, partial aggregation: profiles, scores and a baseline more than all others do",
    ),
    Racer(
        "torch",
        "fedprof, FedAvg-RP, torch engine",
        "fedprof_simulator.py",
        ("torch", "fedavg-rp"),
        note="the engine for any module, on two worker processes",
    ),
)

FAIRNESS = (
    """Everyone trains the same model on the same synthetic data (of the real tasks' shapes) with the same plain SGD, in
    mini-batches that are slices of a shuffled tensor, and evaluates the global model after every round. Data are in
    memory, standardised before the clock starts (fedprof's anew in each round, from bytes).""",
    """The plain loop reuses one model, keeps weights and gradients in one flat vector each, and runs on one thread, as
    pfl and FedLab do.""",
    """W2's 500 clients hold windows of 48,000 images, each image at five clients; the images held out are among them.
    So all racers fit into memory at once; nobody gains by it.""",
    "Evaluation is in batches of 256 (W1) and 128 (W2); FedJAX's in batches of 1,000, which suits it better.",
    "fedprof's rounds are those of `fedprof run`: virtual clock, energy, gate, one SQLite transaction; two threads.",
)


def python_of(racer: Racer, venvs: Path) -> Path:
    """The interpreter that has what a racer needs; its environment is made where it is missing."""
    if not racer.requirement:
        return Path(sys.executable)
    needs = [*([TORCH] if racer.torch else []), racer.requirement]
    home = venvs / f"{racer.key}-{hashlib.sha256(' '.join(needs).encode()).hexdigest()[:8]}"
    python, done = home / "bin" / "python", home / "installed"
    if done.exists():
        return python
    print(f"installing {racer.requirement} in {home}", file=sys.stderr, flush=True)
    _run([sys.executable, "-m", "venv", str(home)])
    held = home / "held.txt"
    held.write_text(TORCH + "\n", encoding="utf-8")
    for need in needs:
        _run([str(python), "-m", "pip", "install", "--quiet", "--constraint", str(held), need])
    done.touch()
    return python


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RacerError(f"{' '.join(command[1:])} failed: {last_lines(done.stderr)}")


def last_lines(text: str, count: int = 4) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("WARNING")]
    return " / ".join(lines[-count:])
