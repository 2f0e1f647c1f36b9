"""What FedProf costs over Flower's own FedAvg in Flower's simulation: time a round, and memory, with 1,000 nodes.

    python benchmarks/flower_scale.py [--nodes N] [--rounds R] [--share C] [--repeats P] [--out FOLDER]

Runs alternate (FedAvg, FedProf, FedAvg, ...), so that both meet the same load. The first round of each run, in which
workers start, is left out of the time a round. Everything stays on the loopback interface, in a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sysconfig
import tempfile
from datetime import date
from pathlib import Path
from statistics import median

APP = Path(__file__).parent / "flower_scale_app"
SCRIPTS = Path(sysconfig.get_path("scripts"))
STRATEGIES = ("fedavg", "fedprof")


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="fedprof-scale-") as name:
        folder = Path(name)
        try:
            runs = [
                measured(strategy, options, folder / f"{repeat}-{strategy}.json")
                for repeat in range(options.repeats)
                for strategy in STRATEGIES
            ]
        finally:
            end_processes_of(folder)
    text = report(runs, options)
    print(text)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"flower-scale-{date.today().isoformat()}.md").write_text(text, encoding="utf-8")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--share", type=float, default=0.02, help="of the nodes that train in a round")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    return parser.parse_args()


def measured(strategy: str, options: argparse.Namespace, out: Path) -> dict:
    """Run one strategy; what its ServerApp wrote down."""
    config = f'strategy="{strategy}" num-server-rounds={options.rounds} fraction-train={options.share} out="{out}"'
    federation = ["--federation-config", f"num-supernodes={options.nodes}"]
    command = [SCRIPTS / "flwr", "run", APP, "local", "--stream", *federation, "--run-config", config]
    done = subprocess.run(command, env=environment(out.parent), capture_output=True, text=True, check=False)
    if not out.exists():
        raise SystemExit(f"{strategy} did not finish:\n{done.stdout}{done.stderr}")
    return json.loads(out.read_text(encoding="utf-8"))


def environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join([str(SCRIPTS), os.environ.get("PATH", "")])
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    local = {"FLWR_HOME": str(folder / "home"), "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1"}
    return {**os.environ, **quiet, **local, "PATH": path}


def end_processes_of(folder: Path) -> None:
    """End Flower's local SuperLink, which outlives ``flwr run``: it is known by the Flower home in its environment."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"FLWR_HOME={folder / 'home'}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGTERM)
        except OSError:
            continue  # ended meanwhile, or not ours


def report(runs: list[dict], options: argparse.Namespace) -> str:
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    machine = (
        f"{os.cpu_count()} CPUs, {platform.machine()}, Python {platform.python_version()}, load averages {load}; "
        f"{options.rounds} rounds of {round(options.nodes * options.share)} nodes, {options.repeats} runs of each, "
        "alternating; medians.\n"
    )
    lines = [
        f"# Flower's simulation with {options.nodes} nodes, {date.today().isoformat()}\n",
        machine,
        "| strategy | first profiles (s) | round (s) | server (MiB) | workers (MiB) |",
        "|---|---|---|---|---|",
    ]
    times = {}
    for strategy in STRATEGIES:
        mine = [run for run in runs if run["strategy"] == strategy]
        times[strategy] = median(seconds for run in mine for seconds in run["rounds_s"][1:])
        first, server, workers = (
            median(run[key] for run in mine) for key in ("first_profiles_s", "server_mib", "workers_mib")
        )
        lines.append(f"| {strategy} | {first:.1f} | {times[strategy]:.2f} | {server:.0f} | {workers:.0f} |")
    pairs = zip(*([run for run in runs if run["strategy"] == name] for name in STRATEGIES), strict=True)
    ratios = [median(b["rounds_s"][1:]) / median(a["rounds_s"][1:]) for a, b in pairs]
    told = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    lines.append(f"\nA round of FedProf takes {median(ratios):.2f} times as long as one of FedAvg (pairs: {told}).\n")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
