"""What a node does: one epoch. Without a question in the message, ``FedProfClientApp`` is a plain ``ClientApp``."""

import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from torch import nn

from fedprof.flower import FedProfClientApp
from scale.task import Net, load_data


def profile_source(context):
    """What FedProf profiles."""
    return Net(), load_data(context.node_config["partition-id"])


app = FedProfClientApp(profile_source)


@app.train()
def train(msg, context):
    """Train for an epoch."""
    model, loader = profile_source(context)
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in loader:
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimiser.step()
    metrics = MetricRecord({"train_loss": loss.item(), "num-examples": 64})
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=msg)
