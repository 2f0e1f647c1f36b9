"""What a layer's output becomes: one row a sample, one element a unit, a channel, or a recurrent layer."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from fedprof.core.fusion import fused
from fedprof.errors import LayerError


class Block(nn.Module):
    def __init__(self, body, skip=True):
        super().__init__()
        self.body, self.skip = body, skip

    def forward(self, x):
        return x + self.body(x) if self.skip else self.body(x)


def numbers(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def close(rows, expected):
    """Two ways through a recurrent layer: sums of float32 activations, though held in float64."""
    torch.testing.assert_close(rows, expected, rtol=1e-5, atol=1e-6)


def assert_fused(output, module, expected):
    rows = fused(output, module)
    assert rows.dtype == torch.float64
    torch.testing.assert_close(rows, expected.double())


def test_dense_units_are_kept():
    assert_fused(numbers(5, 3), nn.Linear(4, 3), numbers(5, 3))


def test_a_dense_layer_over_a_sequence_is_summed_over_positions():
    assert_fused(numbers(5, 7, 3), nn.Linear(4, 3), numbers(5, 7, 3).double().sum(1))
    assert_fused(numbers(5, 2, 7, 3), nn.Linear(4, 3), numbers(5, 2, 7, 3).double().sum((1, 2)))


@pytest.mark.parametrize("module", [nn.Conv2d(1, 3, 2), nn.BatchNorm2d(3), nn.MaxPool2d(2), nn.ReLU(), nn.Identity()])
def test_a_feature_map_is_summed_by_channel(module):
    assert_fused(numbers(5, 3, 4, 6), module, numbers(5, 3, 4, 6).double().sum((2, 3)))


def test_one_and_three_dimensional_convolutions():
    assert_fused(numbers(5, 3, 9), nn.Conv1d(1, 3, 2), numbers(5, 3, 9).double().sum(2))
    assert_fused(numbers(5, 3, 2, 4, 6), nn.Conv3d(1, 3, 2), numbers(5, 3, 2, 4, 6).double().sum((2, 3, 4)))


def test_a_block_is_read_by_what_it_is_made_of():
    squeeze_and_excite = Block(nn.Sequential(nn.Conv1d(3, 3, 1), nn.Linear(9, 9)))
    attention = nn.TransformerEncoderLayer(3, 1, batch_first=True)
    x = numbers(5, 3, 9)
    assert_fused(x, squeeze_and_excite, x.double().sum(2))
    assert_fused(x, attention, x.double().sum(1))


def test_the_sum_is_taken_in_float64():
    values = torch.tensor([1e8, 1, 1, 0.5]).reshape(1, 1, 2, 2)
    assert fused(values, nn.ReLU()).item() == 100_000_002.5  # float32 cannot hold it


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize(
    "options", [{}, {"batch_first": True}, {"num_layers": 2}, {"bidirectional": True, "num_layers": 2}]
)
def test_a_recurrent_layer_gives_the_sum_of_its_final_hidden_state(kind, options):
    net = kind(4, 6, **options)
    x = numbers(5, 7, 4) if net.batch_first else numbers(7, 5, 4)
    with torch.no_grad():
        out, state = net(x)
        rows = fused((out, state), net)
    last = out[:, -1] if net.batch_first else out[-1]
    if net.bidirectional:  # the backward direction ends at the first position
        first = out[:, 0] if net.batch_first else out[0]
        last = torch.cat([last[:, :6], first[:, 6:]], dim=1)
    torch.testing.assert_close(rows, last.double().sum(1, keepdim=True))


def test_a_packed_batch_ends_each_sequence_where_it_ends():
    net, x, lengths = nn.LSTM(4, 6, batch_first=True), numbers(3, 7, 4), [2, 7, 5]
    with torch.no_grad():
        rows = fused(net(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)), net)
        alone = [fused(net(x[i : i + 1, :n]), net) for i, n in enumerate(lengths)]
    close(rows, torch.cat(alone))


def test_one_sequence_without_a_batch_is_one_sample():
    net = nn.GRU(4, 6)
    with torch.no_grad():
        close(fused(net(numbers(7, 4)), net), fused(net(numbers(7, 4)[:, None]), net))


@pytest.mark.parametrize(
    ("output", "module", "says"),
    [
        ((numbers(2, 3), None), nn.MultiheadAttention(3, 1), "returns a tuple"),
        ({"logits": numbers(2, 3)}, nn.Identity(), "returns a dict"),
        (numbers(3), nn.Linear(4, 3), r"shape \(3,\)"),
        (numbers(3), nn.LSTM(4, 3), "recurrent"),
    ],
)
def test_what_cannot_be_fused_asks_for_fuse(output, module, says):
    with pytest.raises(LayerError, match=says) as caught:
        fused(output, module)
    assert "fuse=" in str(caught.value)
