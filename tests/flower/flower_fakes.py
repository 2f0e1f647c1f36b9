"""A federation in one process: real ClientApps behind a grid that delivers messages at once, or as a test wants."""

import copy

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.task_identity import TaskIdentity
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from fedprof.flower.client import FedProfClientApp
from fedprof.flower.strategy import FedProf
from fedprof.randomness import stream

SUPERLINK = 1
TaskIdentity.run_id = TaskIdentity.task_id = 1  # Flower's own processes set these when they start
TaskIdentity.node_id = SUPERLINK


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 6)
        self.fc2 = nn.Linear(6, 2)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


def model():
    """The same initial model every time."""
    net = Net()
    rng = stream(0, "test-model")
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.tensor(rng.normal(size=tuple(parameter.shape)), dtype=torch.float32))
    return net


def loader(number, samples=40, bad=False):
    rng = stream(number, "test-data")
    x = rng.normal(size=(samples, 4)) * (6 if bad else 1) + (4 if bad else 0)
    y = (x[:, 0] > 0).astype(np.int64)
    return DataLoader(TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y)), batch_size=20)


def client_app(data, matching="plain", source=None):
    """One client: a deterministic step of gradient descent, and its loss."""
    app = FedProfClientApp(source or (lambda context: (Net(), data)), matching=matching)

    @app.train()
    def train(message, context):
        net = Net()
        net.load_state_dict(message.content["arrays"].to_torch_state_dict())
        x, y = data.dataset.tensors
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.sub_(0.1 * parameter.grad)
        metrics = MetricRecord({"train_loss": loss.item(), "num-examples": len(y)})
        content = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics})
        return Message(content, reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        net = Net()
        net.load_state_dict(message.content["arrays"].to_torch_state_dict())
        x, y = data.dataset.tensors
        accuracy = float((net(x).argmax(1) == y).float().mean())
        return Message(
            RecordDict({"metrics": MetricRecord({"eval_acc": accuracy, "num-examples": len(y)})}), reply_to=message
        )

    return app


class Node:
    """A SuperNode: an app, its context, and what a test makes go wrong."""

    def __init__(self, app, name=None, node_id=0):
        config = {} if name is None else {"name": name}
        self.app = app
        self.context = Context(run_id=1, node_id=node_id, node_config=config, state=RecordDict(), run_config={})
        self.wrong = None
        """``(message, reply) -> reply or None``: called with every reply before it leaves."""
        self.seen = []

    def __call__(self, message):
        self.seen.append(message)
        received = copy.copy(message)
        received.__dict__["_content"] = RecordDict(dict(message.content))
        try:
            reply = self.app(received, self.context)
        except Exception as error:  # noqa: BLE001 - as a real ClientApp process does
            text = f"{type(error).__name__}: {error}"
            reply = Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, text), reply_to=message)
        return self.wrong(message, reply) if self.wrong else reply


class FakeGrid(Grid):
    """Delivers messages to nodes in this process, and replies in reverse order, as a grid may."""

    def __init__(self, nodes):
        self.nodes = dict(nodes)
        self.names = {}
        self.count = 0
        self.sent = []
        self.before_send = None

    run = property(lambda self: None)

    def set_run(self, run):
        raise NotImplementedError

    def create_message(self, *arguments, **options):
        raise NotImplementedError

    def pull_messages(self, message_ids):
        raise NotImplementedError

    def get_node_ids(self):
        return list(self.nodes)

    def push_messages(self, messages):
        for message in messages:
            self.count += 1
            message.metadata.__dict__["_message_id"] = f"message-{self.count}"
            config = {key: dict(record) for key, record in message.content.config_records.items()}
            self.sent.append((message, config))
            self.name(message.metadata.dst_node_id)
        return [message.metadata.message_id for message in messages]

    def send_and_receive(self, messages, *, timeout=None):
        messages = list(messages)
        self.push_messages(messages)
        if self.before_send:
            self.before_send(messages)
        replies = [self._deliver(message) for message in messages]
        return [reply for reply in reversed(replies) if reply is not None]

    def _deliver(self, message):
        node = self.nodes.get(message.metadata.dst_node_id)
        return unavailable(message) if node is None else node(message)

    def asked(self, kind="train"):
        """Names of the clients asked, by round."""
        rounds = {}
        for message, config in self.sent:
            if message.metadata.message_type == kind:
                rounds.setdefault(config["config"]["server-round"], []).append(self.name(message.metadata.dst_node_id))
        return rounds

    def name(self, node_id):
        if node_id in self.nodes:  # else as it was called before it left
            self.names[node_id] = self.nodes[node_id].context.node_config.get("name", f"node-{node_id}")
        return self.names[node_id]

    def queries(self):
        """Messages of type query.fedprof."""
        return [message for message, _ in self.sent if message.metadata.message_type == "query.fedprof"]

    def node(self, name):
        """The node of a client."""
        return next(node for node in self.nodes.values() if node.context.node_config.get("name") == name)


def unavailable(message):
    """What the SuperLink answers for a node that is gone: it names itself as the source."""
    reply = Message(Error(ErrorCode.NODE_UNAVAILABLE, "Error: Node Unavailable"), reply_to=message)
    reply.metadata.__dict__["_src_node_id"] = SUPERLINK
    return reply


def federation(count=6, bad=(5,), matching="plain", first_id=100):
    """Nodes with names client-0, client-1, ...; node ids in another order, as Flower's are random."""
    ids = [first_id + 7 * (5 * k % 11) + k for k in range(count)]
    return FakeGrid(
        {
            ids[k]: Node(client_app(loader(k, 40 + 4 * k, k in bad), matching), f"client-{k}", ids[k])
            for k in range(count)
        }
    )


def fedprof(base=None, **options):
    """The strategy under test."""
    options.setdefault("baseline", (Net(), loader(99), "fc1"))
    options.setdefault("timeout", 5.0)
    return FedProf(base or FedAvg(fraction_train=0.5, fraction_evaluate=0.0, min_available_nodes=2), **options)


def start(strategy, grid, rounds=3, **options):
    options.setdefault("evaluate_fn", evaluate)
    return strategy.start(grid, ArrayRecord(model().state_dict()), rounds, **options)


def evaluate(number, arrays):
    net = Net()
    net.load_state_dict(arrays.to_torch_state_dict())
    x, y = loader(99).dataset.tensors
    return MetricRecord({"accuracy": float((net(x).argmax(1) == y).float().mean()), "loss": 0.5})


def weights(result):
    return np.concatenate([array.numpy().reshape(-1) for array in result.arrays.values()])


def with_arrays(change):
    """A way for replies to go wrong: each array is changed."""

    def distort(message, reply):
        reply.content["arrays"] = ArrayRecord(
            {name: Array(change(name, array.numpy())) for name, array in reply.content["arrays"].items()}
        )
        return reply

    return distort


def in_rounds(distort, *numbers):
    """Distort training replies in some rounds."""

    def wrong(message, reply):
        trains = message.metadata.message_type == "train" and message.content["config"]["server-round"] in numbers
        return distort(message, reply) if trains else reply

    return wrong
