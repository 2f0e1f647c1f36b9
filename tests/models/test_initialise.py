"""Initial weights come from the generator handed in, in the distributions they claim."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
import torch
from torch import nn

from fedprof.errors import SettingsError
from fedprof.models.initialise import build, construct, initialise
from fedprof.models.registry import MODELS, create
from fedprof.models.weights import flatten
from fedprof.randomness import stream


def made(factory, scheme="torch", seed=0):
    module = construct(factory)
    initialise(module, stream(seed, "test"), scheme)
    return module


def is_uniform(tensor, bound):
    """Within the bound, reaching for it, and with a uniform's spread."""
    values = tensor.detach().double()
    return (
        values.abs().max() <= bound * (1 + 1e-6)
        and values.abs().max() > 0.98 * bound
        and abs(values.std() - bound / sqrt(3)) < 0.03 * bound
        and abs(values.mean()) < 0.03 * bound
    )


def test_a_dense_layer_gets_what_pytorch_would_give_it():
    layer = made(lambda: nn.Linear(200, 4000))
    assert is_uniform(layer.weight, 1 / sqrt(200))
    assert is_uniform(layer.bias, 1 / sqrt(200))
    assert is_uniform(nn.Linear(200, 4000).weight, 1 / sqrt(200))


def test_a_convolution_gets_what_pytorch_would_give_it():
    layer = made(lambda: nn.Conv2d(16, 2000, 3))
    assert is_uniform(layer.weight, 1 / sqrt(16 * 9))
    assert is_uniform(layer.bias, 1 / sqrt(16 * 9))
    assert is_uniform(nn.Conv2d(16, 2000, 3).weight, 1 / sqrt(16 * 9))


def test_a_depthwise_convolution_counts_the_channels_it_sees():
    assert is_uniform(made(lambda: nn.Conv2d(3000, 3000, 3, groups=3000)).weight, 1 / 3)


@pytest.mark.parametrize("factory", [lambda: nn.Linear(300, 200), lambda: nn.Conv2d(20, 50, 5)])
def test_xavier_is_glorots_bound_and_no_bias(factory):
    layer = made(factory, "xavier")
    reference = nn.init.xavier_uniform_(torch.empty_like(layer.weight))
    fan_in, fan_out = nn.init._calculate_fan_in_and_fan_out(layer.weight)
    bound = sqrt(6 / (fan_in + fan_out))
    assert is_uniform(layer.weight, bound)
    assert is_uniform(reference, bound)
    assert not layer.bias.any()


def test_batch_normalisation_starts_as_the_identity():
    layer = made(lambda: nn.BatchNorm2d(5))
    assert layer.weight.tolist() == [1] * 5
    assert layer.bias.tolist() == [0] * 5
    assert layer.running_mean.tolist() == [0] * 5
    assert layer.running_var.tolist() == [1] * 5
    assert layer.num_batches_tracked == 0


def test_an_lstm_depends_on_its_hidden_size():
    layer = made(lambda: nn.LSTM(40, 100))
    assert is_uniform(layer.weight_ih_l0, 0.1)
    assert is_uniform(layer.weight_hh_l0, 0.1)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_a_function_of_its_name_and_seed_alone(name):
    torch.manual_seed(1)
    first = flatten(create(name, 7))
    torch.manual_seed(2)
    assert np.array_equal(first, flatten(create(name, 7)))
    assert not np.array_equal(first, flatten(create(name, 8)))
    assert np.isfinite(first).all()


@pytest.mark.parametrize("name", MODELS)
def test_creating_a_model_leaves_the_global_generators_alone(name):
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    create(name, 0)
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002


def test_a_users_factory_is_seeded_and_leaves_the_global_generator_alone():
    before = torch.random.get_rng_state()
    first, same, other = (flatten(build(lambda: nn.Linear(3, 3), seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_caffe_lenet_starts_with_xavier_weights_unless_told_otherwise():
    assert not create("lenet-caffe", 0).conv1.bias.any()
    assert create("lenet-caffe", 0, scheme="torch").conv1.bias.any()


def test_an_unknown_scheme_is_refused():
    with pytest.raises(SettingsError, match="unknown initialisation 'he'; there are torch, xavier"):
        create("mlp", 0, scheme="he")


def test_a_layer_that_nobody_knows_how_to_initialise_is_refused_by_name():
    model = construct(lambda: nn.Sequential(nn.Linear(2, 2), nn.PReLU()))
    with pytest.raises(SettingsError, match=r"initialise 1 \(PReLU\)"):
        initialise(model, stream(0, "test"))
