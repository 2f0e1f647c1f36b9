"""Apple's pfl-research: its simulated backend in one process, FederatedAveraging, central evaluation every round."""

from __future__ import annotations

import sys
from contextlib import suppress

import numpy as np
import torch
from pacing import OverError, Pacer
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.callback.central_evaluation import CentralEvaluationCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch_parts import client_tensors, loss_of, model_of, tensors
from workload import Workload, data, workload

ROUNDS = 1_000_000


class Net(torch.nn.Module):
    """What pfl asks of a module: a loss to train on, and metrics."""

    def __init__(self, work: Workload) -> None:
        super().__init__()
        self.layers, self.criterion = model_of(work), loss_of(work)

    def loss(self, x, y, eval: bool = False) -> torch.Tensor:
        self.train(not eval)
        return self.criterion(self.layers(x), y)

    @torch.no_grad()
    def metrics(self, x, y) -> dict[str, Weighted]:
        return {"loss": Weighted(self.loss(x, y, eval=True).item() * len(y), len(y))}


class RoundDone(TrainingProcessCallback):
    """Tells the race; it stands after the evaluation in the list of callbacks."""

    def __init__(self, pacer: Pacer) -> None:
        self.pacer = pacer

    def on_train_begin(self, *, model) -> Metrics:
        self.pacer.ready()
        return Metrics()

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration) -> tuple[bool, Metrics]:
        loss = next(value for name, value in aggregate_metrics.to_simple_dict().items() if name == "Central val | loss")
        self.pacer.round_done(loss)
        return False, Metrics()


def main() -> None:
    pacer, work = Pacer("pfl", "torch"), workload(sys.argv[1], "quick" in sys.argv)
    torch.set_num_threads(1)
    deal = data(work)
    users = [PyTorchTensorDataset(list(pair), user_id=str(k)) for k, pair in enumerate(client_tensors(deal))]
    held_out = PyTorchTensorDataset(list(tensors(*deal.held_out)))
    np.random.seed(0)  # noqa: NPY002 - pfl draws its cohorts from the global generator
    sampler = get_user_sampler("random", list(range(work.clients)))
    network = Net(work)
    model = PyTorchModel(network, torch.optim.SGD, torch.optim.SGD(network.parameters(), lr=1.0))
    evaluation = CentralEvaluationCallback(held_out, NNEvalHyperParams(local_batch_size=work.evaluation_batch))
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=ROUNDS, evaluation_frequency=ROUNDS, train_cohort_size=work.cohort, val_cohort_size=0
        ),
        backend=SimulatedBackend(FederatedDataset(users.__getitem__, sampler), None, [WeightByDatapoints()]),
        model=model,
        model_train_params=NNTrainHyperParams(
            local_num_epochs=work.epochs, local_learning_rate=work.rate, local_batch_size=work.batch
        ),
        model_eval_params=None,
        callbacks=[evaluation, RoundDone(pacer)],
    )


if __name__ == "__main__":
    with suppress(OverError):
        main()
