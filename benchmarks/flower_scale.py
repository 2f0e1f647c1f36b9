"""What FedProf costs over Flower's own FedAvg in Flower's simulation: time a round, and memory, with 1,000 nodes.

    python benchmarks/flower_scale.py [--nodes N] [--rounds R] [--share C] [--out FOLDER]

Times are from a run in which the two strategies take turns round by round, so that both meet the same load; a first
round, in which Ray starts its workers, is left out. Memory is from two runs more, of each strategy alone and of as many
rounds, because peaks only ever rise. Everything stays on the loopback interface, in a temporary folder.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sysconfig
import tempfile
import time
from datetime import date
from pathlib import Path
from statistics import median

import machine

APP = Path(__file__).parent / "flower_scale_app"
STRATEGIES = ("fedavg", "fedprof")
SCRIPTS = Path(sysconfig.get_path("scripts"))
COLUMNS = ["strategy", "round, median (s)", "fastest (s)", "server process (MiB)", "Ray's processes (MiB)"]


def main() -> None:
    options = arguments()
    measured_on = machine.described("flwr", "ray", "torch")
    found = measured(options, STRATEGIES)
    found |= {f"{name}_mib": measured(options, (name,))["mib"] for name in STRATEGIES}
    text = report(found, options, measured_on)
    print(text)
    machine.write("flower-scale", text, options.out)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--share", type=float, default=0.02, help="of the nodes that train in a round")
    parser.add_argument("--out", type=Path, default=machine.RESULTS)
    return parser.parse_args()


def measured(options: argparse.Namespace, strategies: tuple[str, ...]) -> dict:
    """Run the app with processes of its own; what its ServerApp wrote down."""
    with tempfile.TemporaryDirectory(prefix="fedprof-scale-") as name:
        try:
            return run(options, strategies, Path(name))
        finally:
            end_processes_of(Path(name))


def run(options: argparse.Namespace, strategies: tuple[str, ...], folder: Path) -> dict:
    out = folder / "found.json"
    config = f'num-server-rounds={options.rounds} fraction-train={options.share} out="{out}"'
    config += f' strategies="{",".join(strategies)}"'
    federation = ["--federation-config", f"num-supernodes={options.nodes}"]
    command = [SCRIPTS / "flwr", "run", APP, "local", "--stream", *federation, "--run-config", config]
    done = subprocess.run(command, env=environment(folder), capture_output=True, text=True, check=False)
    if not out.exists():
        raise SystemExit(f"the run did not finish:\n{done.stdout}{done.stderr}")
    return json.loads(out.read_text(encoding="utf-8"))


def environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join([str(SCRIPTS), os.environ.get("PATH", "")])
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    local = {"FLWR_HOME": str(folder / "home"), "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1"}
    return {**os.environ, **quiet, **local, "PATH": path}


def end_processes_of(folder: Path, seconds: float = 30.0) -> None:
    """End Flower's local SuperLink, which outlives ``flwr run``, and see it gone: the next run's takes its port."""
    deadline = time.monotonic() + seconds
    while (left := processes_of(folder)) and time.monotonic() < deadline:
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM)
        time.sleep(0.5)


def processes_of(folder: Path) -> list[int]:
    """Processes whose environment names this Flower home."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"FLWR_HOME={folder / 'home'}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue  # ended meanwhile, or not ours
    return found


def report(found: dict, options: argparse.Namespace, measured_on: str) -> str:
    chosen = round(options.nodes * options.share)
    ratios = sorted(b / a for a, b in zip(found["fedavg"], found["fedprof"], strict=True))
    lines = [
        f"# Flower's simulation with {found['nodes']} nodes, {date.today().isoformat()}",
        "",
        f"{measured_on} {options.rounds} rounds of each, in turns, {chosen} nodes a round.",
        "",
        machine.table(COLUMNS, [row(name, found) for name in STRATEGIES]),
    ]
    told = (
        f"The first profiles of all nodes took {found['profiles_s']:.0f} s, once. A round of FedProf takes "
        f"{median(ratios):.2f} times as long as the round of FedAvg before it (median; {ratios[0]:.2f} to "
        f"{ratios[-1]:.2f}). Memory is the peak over a run of each strategy alone, of as many rounds."
    )
    lines += ["", told, ""]
    return "\n".join(lines)


def row(name: str, found: dict) -> list[str]:
    times, (server, ray) = found[name], found[f"{name}_mib"]
    return [name, f"{median(times):.2f}", f"{min(times):.2f}", f"{server:.0f}", f"{ray:.0f}"]


if __name__ == "__main__":
    main()
