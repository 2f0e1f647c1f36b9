"""Evaluation and profiles of the torch engine against direct computation."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
import torch_cases as cases
from torch import nn

from fedprof.core.capture import profile
from fedprof.data.clients import ClientData, Samples
from fedprof.errors import LayerError, SettingsError
from fedprof.models.weights import flatten, load
from fedprof.training.engine import Recipe
from fedprof.training.torch_engine import TorchEngine

RECIPE = Recipe(epochs=1, batch=8, rate=0.05)
ALL = list(cases.CASES)


def directly(work, x):
    return profile(work.model, torch.tensor(x), work.layer)


def assert_same(mine, reference, version):
    assert (mine.count, mine.version) == (reference.count, version)
    np.testing.assert_allclose(mine.mean, reference.mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mine.variance, reference.variance, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", ALL)
def test_evaluation_is_that_of_the_model_in_evaluation_mode(case):
    work = cases.CASES[case]()
    found = TorchEngine(work).evaluate(flatten(work.model))
    with torch.no_grad():
        outputs = work.model.eval()(torch.tensor(work.validation.standardised()))
    labels = torch.tensor(work.validation.y)
    assert found.accuracy == pytest.approx((outputs.argmax(1) == labels).double().mean().item())
    assert found.loss == pytest.approx(cases.LOSSES[work.loss](outputs, labels).item(), rel=1e-5)
    assert found.profile is None


@pytest.mark.parametrize("case", ALL)
def test_the_baseline_is_the_validation_sets_profile(case):
    work = cases.CASES[case]()
    found = TorchEngine(work).evaluate(flatten(work.model), version=5)
    assert_same(found.profile, directly(work, work.validation.standardised()), 5)
    assert dataclasses.replace(found, profile=None) == TorchEngine(work).evaluate(flatten(work.model))


@pytest.mark.parametrize("case", ALL)
def test_clients_profiles_are_those_of_their_data(case):
    work = cases.CASES[case]()
    for client, found in zip([1, 0], TorchEngine(work).profiles(flatten(work.model), [1, 0], 3), strict=True):
        assert_same(found, directly(work, work.clients.samples(client)[0]), 3)


@pytest.mark.parametrize("case", ALL)
def test_a_training_clients_profile_is_under_the_weights_it_received(case):
    work = cases.CASES[case]()
    engine, start = TorchEngine(work), flatten(work.model)
    (update,) = engine.train(start, 8, [1], RECIPE, profile=True)
    assert update.profile == engine.profiles(start, [1], 7)[0]
    (bare,) = engine.train(start, 8, [1], RECIPE)
    assert bare.profile is None
    assert np.array_equal(bare.weights, update.weights)


def test_evaluation_counts_every_sample_once_however_they_are_chunked():
    work = cases.mlp()
    rng = np.random.default_rng(0)
    many = Samples(rng.normal(size=(2500, 6)).astype(np.float32), rng.integers(0, 4, 2500))
    found = [
        TorchEngine(dataclasses.replace(work, validation=many, evaluation_batch=batch)).evaluate(
            flatten(work.model), version=0
        )
        for batch in (7, 128, 5000)
    ]
    assert [one.profile.count for one in found] == [2500] * 3
    assert found[0].accuracy == pytest.approx(found[2].accuracy)
    assert found[1].loss == pytest.approx(found[2].loss, rel=1e-5)
    np.testing.assert_allclose(found[0].profile.mean, found[2].profile.mean, atol=1e-5)


def test_evaluation_uses_the_weights_it_is_given():
    work = cases.lenet()
    engine, start = TorchEngine(work), flatten(work.model)
    (update,) = engine.train(start, 1, [0], RECIPE)
    moved = engine.evaluate(update.weights)
    load(work.model, update.weights)
    assert moved == TorchEngine(work).evaluate(flatten(work.model))
    assert moved != engine.evaluate(start)


def test_samples_are_standardised_and_rows_followed():
    work = cases.mlp()
    raw = np.round(work.clients.pool.x * 20 + 100).clip(0, 255).astype(np.uint8)
    scaled = Samples(raw, work.clients.pool.y, np.float32(100), np.float32(20))
    rows = np.arange(len(raw))[::-1].copy()
    clients = ClientData(scaled, np.array([0, 30, 58]), rows)
    work = dataclasses.replace(work, clients=clients)
    (found,) = TorchEngine(work).profiles(flatten(work.model), [1], 0)
    x = (raw[rows[30:58]].astype(np.float32) - 100) / 20
    assert_same(found, directly(work, x), 0)


def test_read_only_data_are_accepted(tmp_path):
    work = cases.mlp()
    np.save(tmp_path / "x.npy", work.clients.pool.x)
    pool = dataclasses.replace(work.clients.pool, x=np.load(tmp_path / "x.npy", mmap_mode="r"))
    pool.y.flags.writeable = False
    mapped = dataclasses.replace(work, clients=dataclasses.replace(work.clients, pool=pool))
    start = flatten(work.model)
    (one,), (other,) = (TorchEngine(each).train(start, 1, [0], RECIPE, profile=True) for each in (work, mapped))
    assert np.array_equal(one.weights, other.weights)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Linear(6, 6)
        self.idle = nn.Linear(6, 6)
        self.out = nn.Linear(6, 4)

    def forward(self, x):
        return self.out(self.shared(self.shared(x)))


@pytest.mark.parametrize(("layer", "times"), [("shared", "more than once"), ("idle", "never")])
def test_a_layer_that_does_not_run_exactly_once_cannot_be_profiled(layer, times):
    work = cases.workload(Twice(), (6,), layer=layer)
    with pytest.raises(LayerError, match=f"'{layer}' .*{times}"):
        TorchEngine(work).evaluate(flatten(work.model), version=0)
    assert TorchEngine(work).evaluate(flatten(work.model)).accuracy >= 0


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"layer": "fc9"}, "no layer 'fc9'"),
        ({"loss": "hinge"}, "unknown loss 'hinge'; there are mse, nll, ce"),
        ({"validation": Samples(np.zeros((0, 6), np.float32), np.zeros(0, np.int64))}, "validation set is empty"),
    ],
)
def test_a_workload_that_cannot_work_is_refused_at_once(change, problem):
    with pytest.raises((LayerError, SettingsError), match=problem):
        TorchEngine(dataclasses.replace(cases.mlp(), **change))


def test_weights_of_another_model_are_refused():
    with pytest.raises(SettingsError, match=r"103 weights, the vector has shape \(7,\)"):
        TorchEngine(cases.mlp()).evaluate(np.zeros(7, np.float32))
