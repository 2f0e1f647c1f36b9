"""The node's side of Flower's race, in a module of its own so that Ray's workers import it once and keep its data."""

from __future__ import annotations

import os
from functools import cache

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch_parts import Batches, client_tensors, loss_of, model_of
from workload import Workload, data, workload

app = ClientApp()


@cache
def prepared() -> tuple[Workload, list, torch.nn.Module]:
    """Everything that stays the same from message to message; one thread, for the two workers share two cores."""
    torch.set_num_threads(1)
    work = workload(os.environ["RACE_WORKLOAD"], "RACE_QUICK" in os.environ)
    return work, client_tensors(data(work)), model_of(work)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train as in Flower's PyTorch quickstart, with the cheapest loader there is."""
    work, clients, model = prepared()
    pair = clients[int(context.node_config["partition-id"])]
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimiser, criterion = torch.optim.SGD(model.parameters(), lr=work.rate), loss_of(work)
    for _ in range(work.epochs):
        for x, y in Batches(pair, work.batch):
            optimiser.zero_grad()
            criterion(model(x), y).backward()
            optimiser.step()
    metrics = MetricRecord({"num-examples": len(pair[1])})
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)
