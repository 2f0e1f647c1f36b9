"""Propositions 1 and 2: representations tend to a normal distribution as the number of terms they sum grows.

The inputs are as far from normal as data get: independent, skewed, mostly zero or exponential. Normality is measured by
the Kolmogorov-Smirnov distance to the normal distribution of the same mean and variance. For 2,000 truly normal samples
its median is 0.014, and one in a hundred exceeds 0.023 (Lilliefors).
"""

import numpy as np
import pytest
import torch
from scipy.stats import kstest
from torch import nn

from fedprof import divergence, profile, stream
from fedprof.core.fusion import fused

SAMPLES = 2000
NORMAL = 0.023
FAR_FROM_NORMAL = 0.05


class Residual(nn.Module):
    """The basic block of ResNet."""

    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x):
        return torch.relu(x + self.body(x))


def rare(rng, shape):
    return (rng.random(shape) < 0.1).astype(np.float32)


def exponential(rng, shape):
    return rng.standard_exponential(shape, dtype=np.float32)


def built(make, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make().eval()


def distances(rows):
    standard = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    return [kstest(column, "norm").statistic for column in standard.T]


def distance(make, shape, source, layers=3):
    """Median Kolmogorov-Smirnov distance of the fused representations of a few randomly initialised layers."""
    found = []
    for seed in range(layers):
        layer = built(make, seed)
        x = torch.from_numpy(source(stream(seed, "inputs"), (SAMPLES, *shape)))
        with torch.no_grad():
            found += distances(fused(layer(x), layer).numpy())
    return np.median(found)


@pytest.mark.parametrize("source", [rare, exponential])
def test_proposition_1_dense(source):
    widths = [distance(lambda v=v: nn.Linear(v, 16), (v,), source) for v in (1, 4, 32, 512)]
    assert widths[-1] < NORMAL
    assert widths[0] > FAR_FROM_NORMAL
    assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize("source", [rare, exponential])
def test_proposition_1_convolution(source):
    plain = distance(lambda: nn.Conv2d(1, 8, 1), (1, 1, 1), source)
    fused_over_a_map = distance(lambda: nn.Conv2d(1, 8, 3), (1, 24, 24), source)
    assert fused_over_a_map < NORMAL
    assert plain > FAR_FROM_NORMAL


@pytest.mark.parametrize("source", [rare, exponential])
def test_proposition_2_residual_block(source):
    maps = [distance(lambda: Residual(4), (4, side, side), source) for side in (1, 4, 20)]
    assert maps[-1] < NORMAL
    assert maps[0] > FAR_FROM_NORMAL
    assert maps == sorted(maps, reverse=True)


def test_proposition_2_lstm():
    few, many = (distance(lambda d=d: nn.LSTM(64, d, batch_first=True), (8, 64), exponential, 9) for d in (1, 128))
    assert many < NORMAL
    assert few > FAR_FROM_NORMAL


def test_fusion_is_what_makes_a_non_linear_operator_normal():
    """One rectified element of a residual block is no normal variable; their sum over the feature map is."""
    block = built(lambda: Residual(4))
    x = torch.from_numpy(exponential(stream(0, "inputs"), (SAMPLES, 4, 20, 20)))
    with torch.no_grad():
        output = block(x)
    assert min(distances(output[:, :, 7, 7].numpy())) > FAR_FROM_NORMAL
    assert np.median(distances(fused(output, block).numpy())) < NORMAL


def test_an_honest_client_s_divergence_is_that_of_normal_samples():
    """n samples of the baseline's own normal distribution have an expected divergence of 1/n: half of it is the mean's
    share, half the variance's. Representations that are not normal (of one skewed input) exceed it."""

    def mean_divergence(width, n=100, clients=200):
        model = built(lambda: nn.Sequential(nn.Linear(width, 16)))
        x = torch.from_numpy(exponential(stream(1, "clients"), (50_000, width)))
        made = [profile(model, x[i * n : (i + 1) * n], "0") for i in range(clients)]
        return n * divergence(made, profile(model, x, "0")).mean()

    assert mean_divergence(256) == pytest.approx(1, abs=0.1)
    assert mean_divergence(1) > 1.5
