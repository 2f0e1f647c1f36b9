"""Google's FedJAX: its federated averaging, one compiled step, clients one after the other (its CPU backend)."""

from __future__ import annotations

import sys
from contextlib import suppress

import fedjax
import jax
import jax.numpy as jnp
import numpy as np
from fedjax.algorithms import fed_avg
from jax.example_libraries import stax
from pacing import OverError, Pacer
from workload import Workload, data, standardised, workload

# FedJAX 0.0.17 calls jax.tree_map, which newer versions of JAX have under this name only.
jax.tree_map = jax.tree_util.tree_map


class MeanSquaredError(fedjax.metrics.Metric):
    """FedJAX has no such metric; like its others, it is of one example."""

    def zero(self):
        return fedjax.metrics.MeanStat.new(0.0, 0.0)

    def evaluate_example(self, example, prediction):
        return fedjax.metrics.MeanStat.new(jnp.square(prediction - example["y"]).mean(), 1.0)


def model_of(work: Workload) -> fedjax.Model:
    """The same models; FedJAX's examples build theirs with stax or Haiku. Images have the channel last, as in JAX."""
    if work.regression:
        layers = [stax.Dense(64), stax.Relu, stax.Dense(32), stax.Relu, stax.Dense(2)]
        shape, metric = (-1, 11), MeanSquaredError()
    else:
        layers = [stax.Conv(6, (5, 5), padding="SAME"), stax.Relu, stax.MaxPool((2, 2), strides=(2, 2))]
        layers += [stax.Conv(16, (5, 5)), stax.Relu, stax.MaxPool((2, 2), strides=(2, 2)), stax.Flatten]
        layers += [stax.Dense(120), stax.Relu, stax.Dense(84), stax.Relu, stax.Dense(10)]
        shape, metric = (-1, 28, 28, 1), fedjax.metrics.CrossEntropyLoss()
    start, run = stax.serial(*layers)
    return fedjax.create_model_from_stax(start, run, shape, loss(work), {"loss": metric})


def loss(work: Workload):
    if work.regression:
        return lambda batch, outputs: jnp.square(outputs - batch["y"]).mean(axis=1)
    return lambda batch, outputs: fedjax.metrics.unreduced_cross_entropy_loss(batch["y"], outputs)


def examples(x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    x = standardised(x)
    return {"x": x if x.ndim == 2 else np.ascontiguousarray(x.transpose(0, 2, 3, 1)), "y": y}


def main() -> None:
    pacer, work = Pacer("fedjax", "jax"), workload(sys.argv[1], "quick" in sys.argv)
    deal, model = data(work), model_of(work)
    pool = examples(deal.x, deal.y)
    clients = {str(k).encode(): {name: rows[span] for name, rows in pool.items()} for k, span in enumerate(deal.spans)}
    sampler = fedjax.client_samplers.UniformGetClientSampler(
        fedjax.InMemoryFederatedData(clients), num_clients=work.cohort, seed=0
    )
    gradient, descent = fedjax.model_grad(model), fedjax.optimizers.sgd(work.rate)
    hparams = fedjax.ShuffleRepeatBatchHParams(batch_size=work.batch, num_epochs=work.epochs)
    algorithm = fed_avg.federated_averaging(gradient, descent, fedjax.optimizers.sgd(1.0), hparams)
    held_out = fedjax.PaddedBatchHParams(batch_size=1000)
    batches = list(fedjax.ClientDataset(examples(*deal.held_out)).padded_batch(held_out))
    state = algorithm.init(model.init(jax.random.PRNGKey(0)))
    pacer.ready()
    while True:
        state, _ = algorithm.apply(state, sampler.sample())
        pacer.round_done(float(fedjax.evaluate_model(model, state.params, batches)["loss"]))


if __name__ == "__main__":
    with suppress(OverError):
        main()
