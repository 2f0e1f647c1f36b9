"""The stacked engine: M models at once give what each alone would give."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from torch import nn

from fedprof.data.clients import ClientData, Samples
from fedprof.errors import SettingsError
from fedprof.models import weights as flat
from fedprof.models.registry import create
from fedprof.training.engine import Recipe, Workload
from fedprof.training.metrics import classification
from fedprof.training.stacked.engine import StackedEngine, Stacker
from fedprof.training.stacked.lockstep import Lockstep
from fedprof.training.stacked.modules import stack
from fedprof.training.torch_engine import TorchEngine

RECIPE = Recipe(epochs=2, batch=8, rate=0.05)


def workload(model="shufflenet-x0.5", layer="conv5.0", loss="ce", sizes=(20, 20, 13), seed=3, side=16, channels=3):
    rng = np.random.default_rng(seed)
    total, held = sum(sizes), 30
    pool = Samples(
        rng.integers(0, 255, (total, channels, side, side)).astype(np.uint8),
        rng.integers(0, 10, total),
        np.float32(127.0),
        np.float32(60.0),
    )
    validation = Samples(pool.x[:held].copy(), pool.y[:held].copy(), pool.shift, pool.scale)
    clients = ClientData(pool, np.cumsum([0, *sizes]))
    return Workload(create(model, seed), layer, clients, validation, loss, classification, seed, 16)


def engines(work):
    return StackedEngine(work, Stacker([work])), TorchEngine(work)


@pytest.mark.parametrize(
    ("name", "side"), [("shufflenet-x0.5", 32), ("shufflenet-x1.0-cifar", 8), ("resnet18-cifar", 4)]
)
def test_gradients_and_statistics_are_those_of_each_model_alone(name, side):
    """In float64: with batch normalisation over few values, float32 rounding grows a thousandfold."""
    singles = [create(name, seed).double() for seed in (0, 1)]
    stacked = stack(singles[0], 2).double()
    for key, tensor in {**dict(stacked.named_parameters()), **dict(stacked.named_buffers())}.items():
        tensor.data.copy_(torch.stack([one.state_dict()[key] for one in singles]))
    x = torch.randn(2, 6, 3, side, side, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    y = torch.arange(6)
    out = stacked(x.transpose(1, 2))
    sum(nn.functional.cross_entropy(part, y) for part in out).backward()
    for place, one in enumerate(singles):
        nn.functional.cross_entropy(one(x[place]), y).backward()
        for key, parameter in one.named_parameters():
            torch.testing.assert_close(stacked.get_parameter(key).grad[place], parameter.grad, rtol=1e-6, atol=1e-9)
        for key, buffer in one.named_buffers():
            if buffer.is_floating_point():
                torch.testing.assert_close(stacked.get_buffer(key)[place], buffer, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("recipe", [RECIPE, Recipe(1, 8, 0.02, momentum=0.9, weight_decay=1e-3, proximal=0.1)])
def test_training_agrees_with_the_torch_engine(recipe):
    work = workload("lenet5", "fc1", "nll", side=28, channels=1)
    stacked, plain = engines(work)
    start = flat.flatten(work.model)
    for mine, theirs in zip(
        stacked.train(start, 4, [0, 2, 1], recipe), plain.train(start, 4, [0, 2, 1], recipe), strict=True
    ):
        assert mine.client == theirs.client
        assert mine.loss == pytest.approx(theirs.loss, rel=1e-4)
        moved = np.abs(theirs.weights - start).max()
        np.testing.assert_allclose(mine.weights, theirs.weights, atol=2e-3 * moved + 1e-5)


def test_profiles_and_evaluation_agree_with_the_torch_engine():
    work = workload()
    stacked, plain = engines(work)
    start = flat.flatten(work.model)
    mine, theirs = stacked.evaluate(start, version=5), plain.evaluate(start, version=5)
    assert mine.accuracy == theirs.accuracy
    assert mine.loss == pytest.approx(theirs.loss, rel=1e-5)
    pairs = [(mine.profile, theirs.profile)]
    pairs += zip(stacked.profiles(start, [1, 2], 7), plain.profiles(start, [1, 2], 7), strict=True)
    for one, other in pairs:
        assert (one.version, one.count) == (other.version, other.count)
        np.testing.assert_allclose(one.mean, other.mean, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(one.variance, other.variance, rtol=1e-3, atol=1e-5)


def test_lockstep_runs_get_what_each_would_get_alone():
    works = [workload("lenet5", "fc1", "nll", seed=seed, side=28, channels=1) for seed in (1, 2)]
    meeting = Lockstep(Stacker(works), runs=2)
    answers = {}

    def play(source, rounds):
        engine = StackedEngine(works[source], meeting, source)
        at = flat.flatten(works[source].model)
        for number in range(1, rounds + 1):
            updates = engine.train(at, number, [0, 1], RECIPE, profile=source == 0)
            at = np.mean([update.weights for update in updates], axis=0)
        answers[source] = engine.evaluate(at).accuracy, at
        engine.close()

    threads = [threading.Thread(target=play, args=(source, 1 + source)) for source in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    for source, work in enumerate(works):
        alone = StackedEngine(work, Stacker([work]))
        at = flat.flatten(work.model)
        for number in range(1, source + 2):
            at = np.mean([u.weights for u in alone.train(at, number, [0, 1], RECIPE)], axis=0)
        np.testing.assert_allclose(answers[source][1], at, atol=1e-5)


def test_an_error_reaches_every_run_that_waits():
    work = workload("lenet5", "fc1", "nll", side=28, channels=1)
    meeting = Lockstep(Stacker([work]), runs=1)
    with pytest.raises(IndexError):
        StackedEngine(work, meeting).train(flat.flatten(work.model), 1, [99], RECIPE)


def test_an_unknown_layer_is_refused_by_name():
    with pytest.raises(SettingsError, match="LSTM"):
        stack(nn.Sequential(nn.LSTM(3, 4)), 2)


def test_a_stack_keeps_the_names_of_its_tensors():
    model = create("shufflenet-x0.5", 0)
    stacked = stack(model, 3)
    assert {n: tuple(p.shape) for n, p in stacked.named_parameters()} == {
        n: (3, *p.shape) for n, p in model.named_parameters()
    }
    assert torch.equal(stacked.conv1[0].weight[1], model.conv1[0].weight)
