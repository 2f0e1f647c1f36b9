"""What a node does."""

from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

from fedprof.flower import FedProfClientApp
from quickstart.task import Net, load_data, test, train


def profile_source(context):
    return Net(), load_data(context)[0]


app = FedProfClientApp(profile_source)


@app.train()
def train_on_node(msg, context):
    """Train the global model on this node's data."""
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    loader, _ = load_data(context)
    loss = train(model, loader, context.run_config["local-epochs"], msg.content["config"]["lr"])
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(loader.dataset)})
    return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=msg)


@app.evaluate()
def evaluate_on_node(msg, context):
    """Test the global model on this node's data."""
    model = Net()
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    _, loader = load_data(context)
    loss, accuracy = test(model, loader)
    metrics = MetricRecord({"eval_loss": loss, "eval_acc": accuracy, "num-examples": len(loader.dataset)})
    return Message(RecordDict({"metrics": metrics}), reply_to=msg)
