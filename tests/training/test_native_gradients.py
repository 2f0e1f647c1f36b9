"""Gradients of the kernels against float64 autograd, over shapes chosen to be awkward."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from native_cases import flat, native_gradient, torch_gradient, workload
from torch import nn

from fedprof.models.cnn import small_cnn
from fedprof.models.lenet import lenet5


def head(features, classes=10):
    return nn.Flatten(), nn.Linear(features, classes), nn.LogSoftmax(1)


ARCHITECTURES = {
    "linear": ((5,), lambda: nn.Sequential(nn.Linear(5, 10), nn.LogSoftmax(1))),
    "mlp": ((11,), lambda: nn.Sequential(nn.Linear(11, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), *head(32))),
    "wide mlp": (
        (70,),
        lambda: nn.Sequential(nn.Linear(70, 300), nn.Tanh(), nn.Linear(300, 257), nn.Sigmoid(), *head(257)),
    ),
    "without biases": (
        (7,),
        lambda: nn.Sequential(nn.Linear(7, 13, bias=False), nn.ReLU(), nn.Linear(13, 10, bias=False)),
    ),
    "images to dense": ((2, 5, 3), lambda: nn.Sequential(nn.Flatten(), nn.Linear(30, 9), nn.ReLU(), *head(9))),
    "relu first": ((9,), lambda: nn.Sequential(nn.ReLU(), nn.Linear(9, 8), nn.ReLU(), nn.Tanh(), nn.Linear(8, 10))),
    "lenet5": ((1, 28, 28), lenet5),
    "10-20-50 CNN": ((1, 28, 28), small_cnn),
    "padding after an activation": (
        (3, 9, 8),
        lambda: nn.Sequential(
            nn.Conv2d(3, 14, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(14, 9, 3, padding=1), nn.Sigmoid(),
            nn.Conv2d(9, 5, 5, padding=2), nn.ReLU(), *head(5 * 72),
        ),
    ),
    "strides": (
        (2, 15, 13),
        lambda: nn.Sequential(
            nn.Conv2d(2, 7, 5, stride=2, padding=2), nn.ReLU(), nn.Conv2d(7, 18, 3, stride=2, padding=1), nn.Tanh(),
            *head(18 * 16),
        ),
    ),
    "stride beyond the kernel": (
        (3, 11, 11),
        lambda: nn.Sequential(nn.Conv2d(3, 6, 2), nn.ReLU(), nn.Conv2d(6, 8, 2, stride=3), nn.ReLU(), *head(8 * 9)),
    ),
    "lopsided": (
        (2, 8, 11),
        lambda: nn.Sequential(
            nn.Conv2d(2, 5, (2, 3), stride=(2, 1), padding=(0, 2)), nn.ReLU(), nn.Conv2d(5, 7, (3, 1), padding=(1, 0)),
            nn.Tanh(), *head(7 * 4 * 13),
        ),
    ),
    "one by one": (
        (4, 6, 6),
        lambda: nn.Sequential(nn.Conv2d(4, 33, 1), nn.ReLU(), nn.Conv2d(33, 3, 1, bias=False), nn.ReLU(), *head(108)),
    ),
    "pooling with a remainder": (
        (1, 13, 11),
        lambda: nn.Sequential(
            nn.Conv2d(1, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 9, 2), nn.MaxPool2d(3), nn.Tanh(), *head(9),
        ),
    ),
    "tanh before max-pooling": (
        (1, 10, 10),
        lambda: nn.Sequential(
            nn.Conv2d(1, 6, 3), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(6, 7, 3, padding=1), nn.Sigmoid(),
            nn.MaxPool2d((2, 1)), *head(7 * 8),
        ),
    ),
    "overlapping pools": (
        (2, 12, 12),
        lambda: nn.Sequential(
            nn.Conv2d(2, 8, 3), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(8, 10, 3, padding=1), nn.ReLU(),
            nn.MaxPool2d(2, 1), *head(90),
        ),
    ),
    "mean pools": (
        (2, 12, 12),
        lambda: nn.Sequential(
            nn.Conv2d(2, 8, 3), nn.ReLU(), nn.AvgPool2d(2), nn.ReLU(), nn.Conv2d(8, 10, 3, padding=1),
            nn.AvgPool2d(3, 2), nn.Tanh(), *head(40),
        ),
    ),
    "pools in a row": (
        (1, 16, 16),
        lambda: nn.Sequential(
            nn.MaxPool2d(2), nn.Conv2d(1, 5, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(), nn.MaxPool2d(2), *head(20)
        ),
    ),
    "nested": (
        (1, 8, 8),
        lambda: nn.Sequential(
            nn.Sequential(nn.Conv2d(1, 4, 3, padding="same"), nn.Sequential(nn.ReLU(), nn.Identity())), *head(256)
        ),
    ),
    "convolution last": (
        (3, 6, 6), lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 10, 4), nn.Flatten())
    ),
}  # fmt: skip


def agree(work):
    weights = flat(work.model)
    expected, found = torch_gradient(work, weights, 0), native_gradient(work, weights, 0)
    assert found.shape == expected.shape
    start = 0
    for name, parameter in work.model.named_parameters():
        part = slice(start, start := start + parameter.numel())
        scale = np.abs(expected[part]).max() + 1e-7
        assert np.abs(found[part] - expected[part]).max() / scale < 3e-5, name


def seeded(build):
    torch.manual_seed(1)
    return build()


@pytest.mark.parametrize("size", [1, 7, 8, 32, 33])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_gradients_equal_autograds_whatever_the_shapes(name, size):
    shape, build = ARCHITECTURES[name]
    model = seeded(build)
    loss = "nll" if isinstance(model[-1], nn.LogSoftmax) else "ce"
    agree(workload(model, shape, (size,), loss=loss))


@pytest.mark.parametrize("size", [15, 16, 17, 48, 70, 128, 300])
@pytest.mark.parametrize("name", ["mlp", "10-20-50 CNN", "strides"])
def test_a_batch_larger_than_a_piece_has_the_same_gradient(name, size):
    shape, build = ARCHITECTURES[name]
    loss = "nll" if name != "strides" else "ce"
    agree(workload(seeded(build), shape, (size,), loss=loss))


@pytest.mark.parametrize("loss", ["mse", "nll", "ce"])
def test_every_loss_has_its_gradient(loss):
    model = seeded(lambda: nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3)))
    agree(workload(model, (6,), (20,), loss=loss, outputs=3))


@pytest.mark.parametrize("loss", ["nll", "ce"])
def test_log_softmax_in_the_model_may_meet_either_class_loss(loss):
    agree(workload(seeded(lambda: nn.Sequential(nn.Linear(6, 4), nn.LogSoftmax(-1))), (6,), loss=loss, outputs=4))


def test_the_first_of_equal_pixels_gets_the_gradient_as_in_pytorch():
    model = seeded(lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.MaxPool2d(2), nn.Conv2d(4, 6, 2), nn.ReLU(), *head(54)))
    work = workload(model, (1, 10, 10), (9,))
    work.clients.pool.x[:, :, :, 4:] = 0.5  # a background: whole windows of equal values
    agree(work)


def test_one_relu_may_serve_twice():
    relu = nn.ReLU()
    agree(workload(seeded(lambda: nn.Sequential(nn.Linear(6, 9), relu, nn.Linear(9, 8), relu, nn.Linear(8, 10))), (6,)))


def test_bytes_are_standardised_on_the_way_in():
    shape, build = ARCHITECTURES["strides"]
    agree(workload(seeded(build), shape, (10,), dtype=np.uint8))


def test_float64_pools_are_read_too():
    shape, build = ARCHITECTURES["mlp"]
    agree(workload(seeded(build), shape, (10,), dtype=np.float64))


def test_infinities_in_one_sample_do_not_leak_from_spare_lanes():
    """A batch of 9 leaves 7 lanes unused, where a diverged batch may have left anything."""
    model = seeded(ARCHITECTURES["mlp"][1])
    work = workload(model, (11,), (9, 16))
    work.clients.pool.x[work.clients.rows_of(1)] = np.inf
    from fedprof.training.engine import Recipe
    from fedprof.training.native.engine import NativeEngine

    engine, weights = NativeEngine(work, 1), flat(model)
    clean = engine.train(weights, 1, [0], Recipe(1, 16, 0.1))[0]
    diverged = engine.train(weights, 1, [1], Recipe(1, 16, 0.1))[0]
    again = engine.train(weights, 1, [0], Recipe(1, 16, 0.1))[0]
    assert np.isfinite(clean.weights).all()
    assert not np.isfinite(diverged.weights).all()
    assert (again.weights == clean.weights).all()
