"""FedLab's standalone simulation: serial trainer and synchronous handler in one process."""

from __future__ import annotations

import sys
from contextlib import suppress

import torch
from pacing import OverError, Pacer
from torch_parts import Batches, client_tensors, evaluate, loss_of, model_of, tensors
from workload import data, workload

# FedLab imports torchvision for data sets not used here; a torchvision built for CUDA stops at operators it misses
# beside a CPU PyTorch. Declaring them lets the import through.
DECLARED = torch.library.Library("torchvision", "FRAGMENT")
for missed in ("nms", "qnms"):
    DECLARED.define(f"{missed}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer  # noqa: E402
from fedlab.contrib.algorithm.basic_server import SyncServerHandler  # noqa: E402
from fedlab.core.standalone import StandalonePipeline  # noqa: E402


class Clients:
    """What FedLab asks of a federated data set."""

    def __init__(self, pairs) -> None:
        self.pairs = pairs

    def get_dataloader(self, client: int, batch_size: int) -> Batches:
        return Batches(self.pairs[client], batch_size)


class Pipeline(StandalonePipeline):
    """FedLab's pipeline with an evaluation, which it leaves to its user."""

    def __init__(self, handler, trainer, judge) -> None:
        super().__init__(handler, trainer)
        self.evaluate = judge


def main() -> None:
    pacer, work = Pacer("fedlab", "torch"), workload(sys.argv[1], "quick" in sys.argv)
    torch.set_num_threads(1)
    deal = data(work)
    held_out = tensors(*deal.held_out)
    trainer = SGDSerialClientTrainer(model_of(work), work.clients)
    trainer.setup_dataset(Clients(client_tensors(deal)))
    trainer.setup_optim(work.epochs, work.batch, work.rate)
    trainer.criterion = loss_of(work)
    handler = SyncServerHandler(model_of(work), 1_000_000, work.cohort / work.clients)
    pipeline = Pipeline(handler, trainer, lambda: pacer.round_done(evaluate(handler.model, held_out, work)[0]))
    pacer.ready()
    pipeline.main()


if __name__ == "__main__":
    with suppress(OverError):
        main()
