"""What the server does."""

import torch
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

from fedprof.flower import FedProf
from quickstart.task import Net, load_validation_data, test

app = ServerApp()


@app.main()
def main(grid, context):
    """Run the federation."""
    config = context.run_config
    torch.manual_seed(0)
    model, data = Net(), load_validation_data()
    fractions = {"fraction_train": config["fraction-train"], "fraction_evaluate": config["fraction-evaluate"]}
    strategy = FedAvg(**fractions, min_train_nodes=1)
    strategy = FedProf(strategy, (model, data, "fc1"), matching=config["matching"], store=config["store"], resume=True)
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(model.state_dict()),
        train_config=ConfigRecord({"lr": config["learning-rate"]}),
        num_rounds=config["num-server-rounds"],
        evaluate_fn=lambda _round, arrays: evaluate(arrays, data),
    )


def evaluate(arrays, data):
    """Test the global model on the server's data."""
    model = Net()
    model.load_state_dict(arrays.to_torch_state_dict())
    loss, accuracy = test(model, data)
    return MetricRecord({"accuracy": accuracy, "loss": loss})
