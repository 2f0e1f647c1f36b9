"""Let Flower's FedAvg and FedProf take turns, round by round, or one of them run alone; write down what each took."""

import json
import os
import re
import time
from pathlib import Path

import torch
from flwr.app import ArrayRecord, ConfigRecord
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
    model = Net()
    arrays = ArrayRecord(model.state_dict())
    strategies = {name: make(name, config["fraction-train"], model) for name in config["strategies"].split(",")}
    while not list(grid.get_node_ids()):
        time.sleep(0.1)
    warm_up = timed_round(make("fedavg", config["fraction-train"], model), 1, arrays, grid)
    begun = time.monotonic()
    if "fedprof" in strategies:
        strategies["fedprof"].meet(1, arrays, grid)
    found = {"nodes": len(list(grid.get_node_ids())), "warm_up_s": warm_up, "profiles_s": time.monotonic() - begun}
    found |= {name: [] for name in strategies}
    for number in range(1, config["num-server-rounds"] + 1):
        for name, strategy in strategies.items():
            found[name].append(timed_round(strategy, number, arrays, grid))
    found["mib"] = memory_mib()
    Path(config["out"]).write_text(json.dumps(found), encoding="utf-8")


def make(name, share, model):
    """A strategy."""
    fedavg = FedAvg(fraction_train=share, fraction_evaluate=0.0)
    return fedavg if name == "fedavg" else FedProf(fedavg, baseline=(model, load_data(999_999), "fc1"))


def timed_round(strategy, number, arrays, grid):
    """Seconds that one round of training takes, from choosing the nodes to the combined model."""
    begun = time.monotonic()
    messages = strategy.configure_train(number, arrays, ConfigRecord(), grid)
    strategy.aggregate_train(number, grid.send_and_receive(messages, timeout=3600))
    return time.monotonic() - begun


def memory_mib():
    """Peak memory of the simulation's own process, and of Ray's processes together."""
    peaks = peak_mib()
    return [peaks.pop(os.getpid()), sum(peaks.values())]


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
