"""Flower's simulation (Ray): one worker a core, FedAvg, evaluation on the server after every round."""

from __future__ import annotations

import os
import sys

import torch
from pacing import OverError, Pacer

PACER = Pacer("flwr", "ray", "torch")
os.environ["RACE_WORKLOAD"] = sys.argv[1]
if "quick" in sys.argv:
    os.environ["RACE_QUICK"] = "1"

import flower_app  # noqa: E402 - what it reads from the environment is set just above
from flwr.app import ArrayRecord, Context, MetricRecord  # noqa: E402
from flwr.serverapp import Grid, ServerApp  # noqa: E402
from flwr.serverapp.strategy import FedAvg  # noqa: E402
from flwr.simulation import run_simulation  # noqa: E402
from torch_parts import evaluate, model_of, tensors  # noqa: E402
from workload import data, workload  # noqa: E402

server = ServerApp()


@server.main()
def main(grid: Grid, _context: Context) -> None:
    """Race until no more rounds are wanted."""
    work = workload(sys.argv[1], "quick" in sys.argv)
    model, held_out = model_of(work), tensors(*data(work).held_out)

    def judge(number: int, arrays: ArrayRecord) -> MetricRecord:
        if number == 0:
            PACER.ready()
            return MetricRecord()
        model.load_state_dict(arrays.to_torch_state_dict())
        loss, accuracy = evaluate(model, held_out, work)
        PACER.round_done(loss)
        return MetricRecord({"loss": loss, "accuracy": accuracy})

    share = work.cohort / work.clients
    strategy = FedAvg(fraction_train=share, fraction_evaluate=0.0, min_available_nodes=work.clients)
    try:
        strategy.start(grid, ArrayRecord(model.state_dict()), num_rounds=1_000_000, evaluate_fn=judge)
    except OverError:
        return


if __name__ == "__main__":
    torch.set_num_threads(2)
    nodes = workload(sys.argv[1], "quick" in sys.argv).clients
    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 2}}
    run_simulation(server, flower_app.app, nodes, backend_config=resources)
