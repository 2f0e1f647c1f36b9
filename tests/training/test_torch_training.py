"""The torch engine trains exactly as a plain PyTorch loop over the documented objective does."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
import torch_cases as cases
from torch import nn

from fedprof.errors import DataError, SettingsError
from fedprof.models.registry import create
from fedprof.models.weights import flatten, load, trainable_size
from fedprof.training.engine import Recipe
from fedprof.training.torch_engine import TorchEngine
from fedprof.training.torch_flat import FlatModel

PLAIN = Recipe(epochs=2, batch=8, rate=0.05)
RECIPES = {
    "plain": PLAIN,
    "momentum": dataclasses.replace(PLAIN, momentum=0.9),
    "weight decay": dataclasses.replace(PLAIN, weight_decay=0.1),
    "proximal": dataclasses.replace(PLAIN, proximal=0.5),
    "all": Recipe(epochs=2, batch=8, rate=0.02, momentum=0.8, weight_decay=0.05, proximal=0.3),
}


def trained(work, recipe, client=0, round=1, **options):
    engine = TorchEngine(work, **options)
    return engine.train(flatten(work.model), round, [client], recipe)[0]


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("case", ["mlp", "lenet", "lstm", "batch norm"])
def test_a_client_ends_where_the_plain_loop_ends(case, recipe):
    work = cases.CASES[case]()
    update = trained(work, RECIPES[recipe], round=4)
    weights, loss = cases.plain_training(work, flatten(work.model), 4, 0, RECIPES[recipe])
    np.testing.assert_allclose(update.weights, weights, rtol=1e-4, atol=2e-6)
    assert update.loss == pytest.approx(loss, rel=1e-5)
    assert not np.array_equal(update.weights, flatten(work.model))


def test_one_step_of_fedprox_follows_autograds_gradient_of_its_objective():
    work = cases.mlp(sizes=(16,))
    received = flatten(work.model)
    once = Recipe(epochs=1, batch=16, rate=0.1, proximal=0.7)
    twice = dataclasses.replace(once, epochs=2)
    after_one, after_two = trained(work, once).weights, trained(work, twice).weights
    # The second step starts away from the weights received, so the proximal term pulls.
    flat = torch.tensor(after_one, requires_grad=True)
    x, y = map(torch.tensor, work.clients.samples(0))
    hidden = torch.relu(nn.functional.linear(x, flat[:54].view(9, 6), flat[54:63]))
    outputs = nn.functional.linear(hidden, flat[63:99].view(4, 9), flat[99:103])
    objective = nn.functional.cross_entropy(outputs, y) + 0.7 / 2 * (flat - torch.tensor(received)).square().sum()
    (gradient,) = torch.autograd.grad(objective, flat)
    np.testing.assert_allclose(after_two, after_one - 0.1 * gradient.numpy(), rtol=1e-4, atol=1e-6)


def test_a_proximal_weight_of_zero_is_plain_sgd_to_the_bit():
    work = cases.mlp()
    assert np.array_equal(trained(work, PLAIN).weights, trained(work, dataclasses.replace(PLAIN, proximal=0.0)).weights)


def test_a_strong_proximal_term_keeps_the_client_near_what_it_received():
    work = cases.mlp()
    start = flatten(work.model)
    near = np.linalg.norm(trained(work, dataclasses.replace(PLAIN, proximal=10)).weights - start)
    far = np.linalg.norm(trained(work, PLAIN).weights - start)
    assert near < far / 2


def test_the_loss_reported_is_that_of_the_first_epoch():
    work = cases.mlp()
    more = dataclasses.replace(PLAIN, epochs=5)
    assert trained(work, PLAIN).loss == trained(work, more).loss


def test_updates_come_in_the_order_asked_and_each_from_the_weights_received():
    work = cases.lenet()
    engine, start = TorchEngine(work), flatten(work.model)
    together = engine.train(start, 2, [2, 0, 1], PLAIN)
    assert [update.client for update in together] == [2, 0, 1]
    for update in together:
        (alone,) = engine.train(start, 2, [update.client], PLAIN)
        assert np.array_equal(update.weights, alone.weights)


@pytest.mark.parametrize("case", ["mlp", "dropout"])
def test_every_round_shuffles_anew(case):
    work = cases.CASES[case]()
    first, again, later = (trained(work, PLAIN, round=r).weights for r in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, later)


def test_dropout_depends_on_the_runs_seed_and_not_on_the_global_generator():
    work = cases.dropped()
    before = torch.random.get_rng_state()
    first = trained(work, PLAIN).weights
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(99)
    assert np.array_equal(first, trained(work, PLAIN).weights)
    assert not np.array_equal(first, cases.plain_training(work, flatten(work.model), 1, 0, PLAIN)[0])


def test_batch_norm_statistics_come_back_with_the_weights():
    work = cases.normalised()
    size = trainable_size(work.model)
    update = trained(work, PLAIN)
    assert not np.allclose(update.weights[size:], flatten(work.model)[size:])


def test_the_last_batch_of_one_sample_is_left_out_with_batch_norm():
    work = cases.normalised(sizes=(17,))
    update = trained(work, PLAIN)
    weights, loss = cases.plain_training(work, flatten(work.model), 1, 0, PLAIN, smallest=2)
    np.testing.assert_allclose(update.weights, weights, rtol=1e-4, atol=2e-6)
    assert update.loss == pytest.approx(loss, rel=1e-5)


def test_a_client_with_one_sample_trains_unless_the_model_has_batch_norm():
    assert np.isfinite(trained(cases.mlp(), PLAIN, client=2).loss)
    with pytest.raises(DataError, match=r"client 0 holds 1 sample; .* at least 2"):
        trained(cases.normalised(sizes=(1,)), PLAIN)


def test_batches_of_one_are_refused_with_batch_norm():
    with pytest.raises(SettingsError, match="batch normalisation cannot train on batches of 1"):
        trained(cases.normalised(), dataclasses.replace(PLAIN, batch=1))


def test_a_client_without_samples_is_refused_by_name():
    work = cases.mlp(sizes=(5, 0))
    with pytest.raises(DataError, match="client 1 holds 0 samples"):
        trained(work, PLAIN, client=1)
    with pytest.raises(DataError, match="client 1 holds no sample to profile"):
        TorchEngine(work).profiles(flatten(work.model), [1], 0)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_channels_last_format_changes_nothing_but_rounding(momentum):
    work = cases.normalised()
    recipe = dataclasses.replace(PLAIN, momentum=momentum, proximal=0.1)
    plain, last = (trained(work, recipe, channels_last=choice) for choice in (False, True))
    np.testing.assert_allclose(plain.weights, last.weights, rtol=1e-3, atol=1e-5)
    engine = TorchEngine(work, channels_last=True)
    assert np.array_equal(engine.train(flatten(work.model), 1, [0], recipe)[0].weights, last.weights)


@pytest.mark.parametrize("channels_last", [False, True])
def test_every_tensor_starts_at_a_boundary_that_gpu_kernels_accept(channels_last):
    work = cases.normalised()
    model = FlatModel(work.model, torch.device("cpu"), channels_last)
    model.load(flatten(work.model))
    offsets = [view.storage_offset() * view.element_size() for view in model.views(model.flat)]
    assert not any(offset % 64 for offset in offsets)
    assert np.array_equal(model.weights(), flatten(work.model))


def test_the_workloads_own_model_is_never_touched():
    work = cases.normalised()
    before, pointer = flatten(work.model), work.model[0].weight.data_ptr()
    engine = TorchEngine(work)
    engine.train(before + 1, 1, [0, 1], PLAIN, profile=True)
    engine.evaluate(before + 1, version=0)
    assert np.array_equal(flatten(work.model), before)
    assert work.model[0].weight.data_ptr() == pointer
    assert work.model.training


def test_the_number_of_threads_is_put_back():
    before = torch.get_num_threads()
    trained(cases.mlp(), PLAIN)
    assert torch.get_num_threads() == before


class Counting(nn.Module):
    """Replaces a buffer instead of changing it, keeps a counter, ties two weights and leaves one unused."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.second = nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.out = nn.Linear(6, 4)
        self.unused = nn.Parameter(torch.ones(3))
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        if self.training:
            self.seen = self.seen + len(x)
            self.steps += 1
        return self.out(torch.tanh(self.second(torch.tanh(self.first(x)))) * (1 + self.steps))


def test_unusual_modules_train_too():
    torch.manual_seed(0)
    work = cases.workload(Counting(), (6,), layer="first", sizes=(20, 11))
    start = flatten(work.model)
    first, second = TorchEngine(work).train(start, 1, [0, 1], PLAIN)
    assert first.weights[-1] == 2 * 20
    assert second.weights[-1] == 2 * 11
    weights, _ = cases.plain_training(work, start, 1, 1, PLAIN)
    np.testing.assert_allclose(second.weights, weights, rtol=1e-4, atol=2e-6)


def test_frozen_parameters_are_left_alone():
    work = cases.mlp()
    work.model.fc1.requires_grad_(False)
    update = trained(work, PLAIN)
    weights, _ = cases.plain_training(work, flatten(work.model), 1, 0, PLAIN)
    assert len(update.weights) == 9 * 4 + 4
    np.testing.assert_allclose(update.weights, weights, rtol=1e-4, atol=2e-6)


def test_a_regression_with_a_loss_of_ones_own():
    def absolute(outputs, targets):
        return (outputs - targets).abs().mean()

    work = cases.mlp()
    pool = dataclasses.replace(work.clients.pool, y=np.eye(4, dtype=np.float32)[work.clients.pool.y])
    work = dataclasses.replace(work, clients=dataclasses.replace(work.clients, pool=pool), loss=absolute)
    update = trained(work, Recipe(epochs=1, batch=64, rate=0.1))
    model = create("mlp", 0, inputs=6, hidden=(9,), outputs=4)
    x, y = map(torch.tensor, work.clients.samples(0))
    absolute(model(x), y).backward()
    moved = flatten(model) - 0.1 * np.concatenate([p.grad.numpy().ravel() for p in model.parameters()])
    np.testing.assert_allclose(update.weights, moved, rtol=1e-4, atol=1e-6)
    load(model, update.weights)
