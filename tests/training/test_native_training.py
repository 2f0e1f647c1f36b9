"""The native engine trains, evaluates and profiles as PyTorch does, with the same bits at any number of workers."""

from __future__ import annotations

import platform
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from native_cases import LOSSES, flat, load, torch_training, workload
from torch import nn

from fedprof.errors import DataError, SettingsError
from fedprof.models.cnn import small_cnn
from fedprof.models.lenet import lenet5
from fedprof.training.engine import Recipe
from fedprof.training.native.engine import NativeEngine

TESTS = Path(__file__).parent


def mlp(inputs=11, outputs=2):
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, outputs))


def odd_cnn():
    return nn.Sequential(
        nn.Conv2d(1, 7, 3, stride=2, padding=1), nn.Tanh(), nn.Conv2d(7, 12, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(12 * 36, 20), nn.ReLU(), nn.Linear(20, 10),
    )  # fmt: skip


MODELS = {
    "mlp": (mlp, {"shape": (11,), "loss": "mse", "outputs": 2}),
    "lenet5": (lenet5, {"shape": (1, 28, 28), "loss": "nll", "dtype": np.uint8}),
    "10-20-50 CNN": (small_cnn, {"shape": (1, 28, 28), "loss": "ce"}),
    "odd CNN": (odd_cnn, {"shape": (1, 28, 28), "loss": "ce", "dtype": np.uint8}),
}
RECIPES = {
    "plain": Recipe(2, 8, 0.05),
    "ragged": Recipe(3, 32, 0.05),
    "momentum": Recipe(2, 16, 0.02, momentum=0.9),
    "weight decay": Recipe(2, 20, 0.05, weight_decay=0.1),
    "proximal": Recipe(2, 33, 0.05, proximal=1.0),
    "all of them": Recipe(2, 10, 0.02, momentum=0.5, weight_decay=0.01, proximal=0.5),
}


def build(name, sizes=(37, 50), **changes):
    factory, options = MODELS[name]
    torch.manual_seed(3)
    return workload(factory(), sizes=sizes, **(options | changes))


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("name", MODELS)
def test_trained_weights_and_losses_agree_with_a_plain_loop(name, recipe):
    work, recipe = build(name), RECIPES[recipe]
    weights = flat(work.model)
    engine = NativeEngine(work, 1)
    updates = engine.train(weights, 4, [1, 0], recipe)
    assert [update.client for update in updates] == [1, 0]
    for update in updates:
        expected, loss = torch_training(work, weights, 4, update.client, recipe)
        moved = np.abs(expected - weights).max()
        assert np.abs(update.weights - expected).max() < 1e-4 * moved
        assert update.loss == pytest.approx(loss, rel=1e-5)
        assert update.profile is None
    engine.close()


@pytest.mark.parametrize("name", MODELS)
def test_evaluation_agrees_with_pytorch(name):
    work = build(name, held_out=1500)
    weights = flat(work.model)
    engine = NativeEngine(work, 2)
    found = engine.evaluate(weights)
    targets = work.validation.targets()
    with torch.no_grad():
        outputs = load(work.model, weights)(torch.from_numpy(work.validation.standardised()))
        loss = LOSSES[work.loss](outputs, torch.from_numpy(targets)).item()
    assert found.loss == pytest.approx(loss, rel=1e-5)
    assert found.accuracy == pytest.approx(work.metric(outputs.numpy(), targets).mean(), abs=1e-6)
    assert found.profile is None
    engine.close()


def two_pass(work, samples):
    """Mean and variance of the layer's output over samples, in float64, maps summed."""
    model, kept = load(work.model, flat(work.model)).double(), []
    hook = model.get_submodule(work.layer).register_forward_hook(lambda _m, _i, out: kept.append(out.clone()))
    with torch.no_grad():
        model(torch.from_numpy(samples).double())
    hook.remove()
    values = kept[0].numpy().reshape(len(samples), kept[0].shape[1], -1).sum(axis=2)
    return values.mean(axis=0), values.var(axis=0)


LAYERS = [
    ("mlp", "0"), ("mlp", "2"), ("mlp", "4"), ("lenet5", "conv1"), ("lenet5", "conv2"), ("lenet5", "fc1"),
    ("lenet5", "fc3"), ("10-20-50 CNN", "conv2"), ("odd CNN", "0"), ("odd CNN", "2"), ("odd CNN", "6"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "layer"), LAYERS)
def test_profiles_and_baselines_equal_a_two_pass_computation(name, layer):
    work = build(name, layer=layer, held_out=1100)
    weights = flat(work.model)
    engine = NativeEngine(work, 2)
    updates = engine.train(weights, 6, [0, 1], Recipe(1, 16, 0.1), profile=True)
    evaluation = engine.evaluate(weights, version=5)
    plain = engine.evaluate(weights)
    assert (evaluation.accuracy, evaluation.loss) == (plain.accuracy, plain.loss)
    cases = [(update.profile, work.clients.samples(update.client)[0]) for update in updates]
    for found, samples in [*cases, (evaluation.profile, work.validation.standardised())]:
        mean, variance = two_pass(work, samples)
        np.testing.assert_allclose(found.mean, mean, rtol=2e-5, atol=2e-5 * np.sqrt(variance.max()))
        np.testing.assert_allclose(found.variance, variance, rtol=2e-4)
        assert (found.count, found.version) == (len(samples), 5)
    assert engine.profiles(weights, [1, 0], 5) == [updates[1].profile, updates[0].profile]
    engine.close()


@pytest.mark.parametrize("layer", ["0", "2"])
def test_a_constant_feature_has_no_variance_at_all(layer):
    work = build("mlp", layer=layer)
    work.clients.pool.x[:] = 7.1
    for found in NativeEngine(work, 1).profiles(flat(work.model), [0, 1], 0):
        assert (found.variance <= 1e-12).all()


@pytest.mark.parametrize("name", ["mlp", "lenet5"])
def test_the_bits_do_not_depend_on_the_number_of_workers(name):
    work = build(name, sizes=(37, 5, 50, 1, 20), held_out=2500, **({"layer": "conv1"} if name == "lenet5" else {}))
    weights, results = flat(work.model), []
    for workers in (1, 2, 3):
        engine = NativeEngine(work, workers)
        updates = engine.train(weights, 2, [4, 0, 2, 3], Recipe(2, 8, 0.05), profile=True)
        updates += engine.train(weights, 3, [1, 2], Recipe(1, 32, 0.05))
        results.append((updates, engine.evaluate(weights, version=1)))
        engine.close()
    for updates, evaluation in results[1:]:
        assert evaluation == results[0][1]
        for update, first in zip(updates, results[0][0], strict=True):
            assert update.weights.tobytes() == first.weights.tobytes()
            assert (update.client, update.loss, update.profile) == (first.client, first.loss, first.profile)


def test_training_again_gives_the_same_bits():
    work = build("lenet5")
    engine, weights = NativeEngine(work, 1), flat(work.model)
    first = engine.train(weights, 1, [0, 1], Recipe(1, 32, 0.05, momentum=0.9))
    engine.evaluate(weights)
    again = engine.train(weights, 1, [1, 0], Recipe(1, 32, 0.05, momentum=0.9))
    assert [u.weights.tobytes() for u in first] == [u.weights.tobytes() for u in again][::-1]


def test_the_workloads_model_and_data_are_left_alone():
    work = build("lenet5")
    before = flat(work.model), work.clients.pool.x.copy()
    engine = NativeEngine(work, 2)
    engine.train(before[0] * 2, 1, [0, 1], Recipe(1, 32, 0.5))
    engine.evaluate(before[0] * 3)
    assert (flat(work.model) == before[0]).all()
    assert (work.clients.pool.x == before[1]).all()


def test_a_diverged_client_is_reported_not_raised():
    work = build("mlp")
    engine, weights = NativeEngine(work, 1), flat(work.model)
    update = engine.train(weights, 1, [0], Recipe(30, 8, 1e6))[0]
    assert not np.isfinite(update.weights).all()
    evaluation = engine.evaluate(np.full_like(weights, np.nan))
    assert np.isnan(evaluation.loss)


def test_a_diverged_loss_is_not_a_number():
    work = build("lenet5")
    engine = NativeEngine(work, 1)
    update = engine.train(np.full_like(flat(work.model), np.nan), 1, [0], Recipe(1, 8, 0.1))[0]
    assert np.isnan(update.loss)
    assert np.isnan(update.weights).all()


def test_a_client_without_samples_cannot_train():
    work = build("mlp", sizes=(10, 0))
    with pytest.raises(DataError, match="client 1 holds no sample"):
        NativeEngine(work, 1).train(flat(work.model), 1, [1], Recipe(1, 8, 0.1))


@pytest.mark.parametrize("layer", ["0", "2"])
def test_a_client_without_samples_has_no_profile(layer):
    work = build("mlp", sizes=(10, 0), layer=layer)
    with pytest.raises(DataError, match="client 1 holds no sample to profile"):
        NativeEngine(work, 1).profiles(flat(work.model), [0, 1], 0)


def test_labels_the_model_has_no_output_for_are_refused():
    work = build("lenet5")
    work.clients.pool.y[3] = 10
    with pytest.raises(DataError, match="labels of a client run from 0 to 10; the model has 10 outputs"):
        NativeEngine(work, 1)


def test_it_takes_a_worker():
    with pytest.raises(SettingsError, match="at least one"):
        NativeEngine(build("mlp"), 0)


NARROW = """
import numpy as np
from test_native_training import RECIPES, build
from native_cases import flat, torch_training
from fedprof.training.native.engine import NativeEngine
from fedprof.training.native import machine
assert (machine.lanes_for(64), machine.registers(), machine.fused_multiply_add()) == {expected}
for name in ("mlp", "odd CNN"):
    work = build(name)
    weights = flat(work.model)
    update = NativeEngine(work, 1).train(weights, 1, [0], RECIPES["ragged"])[0]
    expected, _ = torch_training(work, weights, 1, 0, RECIPES["ragged"])
    assert np.abs(update.weights - expected).max() < 1e-4 * np.abs(expected - weights).max(), name
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names processors of one family")
@pytest.mark.parametrize(
    ("name", "features", "expected"),
    [("haswell", "+avx2,+fma", (8, 16, True)), ("nehalem", "+sse4.2", (4, 16, False))],
)
def test_older_processors_compute_the_same(name, features, expected, monkeypatch):
    monkeypatch.setenv("NUMBA_CPU_NAME", name)
    monkeypatch.setenv("NUMBA_CPU_FEATURES", features)
    code = textwrap.dedent(NARROW.format(expected=expected))
    done = subprocess.run([sys.executable, "-c", code], cwd=TESTS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
