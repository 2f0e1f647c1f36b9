"""Weights as one flat vector: trainable parameters first, then floating buffers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from fedprof.errors import SettingsError
from fedprof.models.registry import MODELS, create
from fedprof.models.weights import Layout, flatten, load, shapes, total_size, trainable_size


def normalised():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


@pytest.mark.parametrize("name", MODELS)
def test_what_is_flattened_can_be_loaded(name):
    source, target = create(name, 1), create(name, 2)
    flat = flatten(source)
    load(target, flat)
    assert flat.dtype == np.float32
    assert flat.shape == (total_size(source),)
    assert np.array_equal(flatten(target), flat)


def test_parameters_come_in_their_own_order_and_before_the_buffers():
    assert list(shapes(normalised())) == [
        "0.weight",
        "0.bias",
        "1.weight",
        "1.bias",
        "2.weight",
        "2.bias",
        "1.running_mean",
        "1.running_var",
    ]
    assert shapes(normalised())["0.weight"] == (4, 3)


def test_the_vector_holds_each_tensor_row_by_row():
    module = normalised()
    flat = flatten(module)
    expected = [*module[0].weight.flatten().tolist(), *module[0].bias.tolist()]
    assert flat[:16].tolist() == pytest.approx(expected)
    assert trainable_size(module) == 12 + 4 + 4 + 4 + 8 + 2
    assert total_size(module) == trainable_size(module) + 8


def test_batch_norm_statistics_travel_and_its_counter_does_not():
    trained, fresh = normalised(), normalised()
    trained(torch.randn(16, 3))
    load(fresh, flatten(trained))
    assert torch.equal(fresh[1].running_mean, trained[1].running_mean)
    assert torch.equal(fresh[1].running_var, trained[1].running_var)
    assert fresh[1].num_batches_tracked == 0


def test_the_copy_is_the_callers_own():
    module = nn.Linear(2, 2, bias=False)
    flat = flatten(module)
    flat += 1
    assert not np.array_equal(flatten(module), flat)
    load(module, flat)
    flat += 1
    assert not np.array_equal(flatten(module), flat)


def test_frozen_parameters_stay_at_home():
    module = normalised()
    module[0].requires_grad_(False)
    assert "0.weight" not in shapes(module)
    frozen = module[0].weight.clone()
    load(module, np.ones(total_size(module), np.float32))
    assert torch.equal(module[0].weight, frozen)


def test_tied_weights_appear_once():
    module = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
    module[1].weight = module[0].weight
    assert total_size(module) == 9
    load(module, np.arange(9, dtype=np.float32))
    assert module[1].weight.flatten().tolist() == list(range(9))


def test_loading_records_no_gradient():
    module = nn.Linear(2, 2)
    load(module, np.zeros(6, np.float32))
    assert module.weight.grad_fn is None
    assert module.weight.requires_grad


@pytest.mark.parametrize("size", [0, 33, 43, 44])
def test_a_vector_of_the_wrong_size_is_refused(size):
    with pytest.raises(SettingsError, match=rf"42 weights, the vector has shape \({size},\)"):
        load(normalised(), np.zeros(size, np.float32))


def test_a_module_without_weights_is_an_empty_vector():
    assert flatten(nn.ReLU()).shape == (0,)
    assert Layout.of(nn.ReLU()).total_size == 0
