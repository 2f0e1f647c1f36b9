"""Run one strategy and write down when each round ended and what memory the run holds."""

import json
import os
import re
import time
from itertools import pairwise
from pathlib import Path

import torch
from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

from fedprof.flower import FedProf
from scale.task import Net, load_data

app = ServerApp()


@app.main()
def main(grid, context):
    """Run and measure."""
    config = context.run_config
    torch.manual_seed(0)
    model, times = Net(), []
    strategy = FedAvg(fraction_train=config["fraction-train"], fraction_evaluate=0.0)
    if config["strategy"] == "fedprof":
        strategy = FedProf(strategy, baseline=(model, load_data(999_999), "fc1"), timeout=3600)
    while not list(grid.get_node_ids()):
        time.sleep(0.1)
    begun = time.monotonic()
    arrays = ArrayRecord(model.state_dict())
    strategy.start(grid, arrays, config["num-server-rounds"], evaluate_fn=lambda *_: times.append(time.monotonic()))
    memory = peak_mib()
    found = {
        "strategy": config["strategy"],
        "nodes": len(list(grid.get_node_ids())),
        "first_profiles_s": times[0] - begun,
        "rounds_s": [later - earlier for earlier, later in pairwise(times)],
        "server_mib": memory.pop(os.getpid()),
        "workers_mib": sum(memory.values()),
    }
    Path(config["out"]).write_text(json.dumps(found), encoding="utf-8")


def peak_mib():
    """Peak resident memory of every process of this Flower home, by process id."""
    home, found = f"FLWR_HOME={os.environ['FLWR_HOME']}".encode(), {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if home in (folder / "environ").read_bytes().split(b"\0"):
                peak = re.search(r"VmHWM:\s+(\d+)", (folder / "status").read_text(encoding="utf-8"))
                found[int(folder.name)] = int(peak[1]) / 1024
        except OSError:
            continue  # ended meanwhile, or not ours
    return found
