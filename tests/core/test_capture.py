"""Any model, any data, any layer: the right moments, and not a trace left behind."""

import copy
import weakref

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from fedprof import Profile, divergence, profile, scores, stream
from fedprof.core.capture import default_layer, moments
from fedprof.errors import DataError, FedProfError, LayerError, ProfileError


class Net(nn.Module):
    """Convolution, batch norm, dropout, two dense layers; one submodule that never runs, one that runs twice."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.5)
        self.fc1 = nn.Linear(4 * 16, 8)
        self.twice = nn.Tanh()
        self.idle = nn.Linear(3, 3)
        self.fc2 = nn.Linear(8, 2)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        x = self.drop(self.twice(self.norm(self.conv(x))))
        return self.fc2(self.twice(F.relu(self.fc1(x.flatten(1)), inplace=True)))


@pytest.fixture
def net():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Net()


def images(n=20):
    return torch.from_numpy(stream(0, "images").standard_normal((n, 1, 6, 6)).astype(np.float32))


def activations(model, x):
    """Pre-activations of fc1, computed by hand."""
    model = copy.deepcopy(model).eval()
    with torch.no_grad():
        return model.fc1(torch.tanh(model.norm(model.conv(x))).flatten(1)).double().numpy()


def assert_profile_of(made, rows):
    assert made.count == len(rows)
    np.testing.assert_allclose(made.mean, rows.mean(axis=0), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(made.variance, rows.var(axis=0), rtol=1e-5)


def test_a_profile_holds_mean_and_variance_of_the_pre_activations(net):
    """Also where an in-place ReLU overwrites them right after."""
    made = profile(net, images(), "fc1", version=3)
    assert_profile_of(made, activations(net, images()))
    assert made.version == 3
    assert made.mean.min() < 0


def test_the_first_dense_layer_is_profiled_unless_told_otherwise(net):
    assert profile(net, images()) == profile(net, images(), "fc1")


def test_the_notebook_of_the_readme(net):
    clients = [images(30)[i::3] for i in range(3)]
    baseline = profile(net, images(30), layer="fc1")
    d = divergence([profile(net, x, layer="fc1") for x in (*clients, 9 * clients[0])], baseline)
    p = scores(d, alpha=10.0)
    assert p.sum() == pytest.approx(1)
    assert p.argmin() == 3


@settings(max_examples=10)
@given(st.integers(1, 30), st.randoms(use_true_random=False))
def test_neither_batch_size_nor_order_matter(batch, random):
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))
    x = torch.from_numpy(stream(0, "order").standard_normal((30, 3)).astype(np.float32))
    order = list(range(30))
    random.shuffle(order)
    made, expected = profile(model, torch.split(x[order], batch), "0"), profile(model, x, "0")
    np.testing.assert_allclose(made.mean, expected.mean, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(made.variance, expected.variance, rtol=1e-5)


@pytest.mark.parametrize(("mean", "std"), [(1e4, 1e-2), (1e3, 1e-2), (-1e6, 1.0)])
def test_one_pass_is_as_good_as_two_where_the_mean_dwarfs_the_spread(mean, std):
    """Compared with a float64 two-pass computation over the same float32 activations."""
    layer = nn.Linear(4, 6)
    with torch.no_grad():
        layer.weight.mul_(std)
        layer.bias.fill_(mean)
    x = torch.from_numpy(stream(0, "stable").standard_normal((4000, 4)).astype(np.float32))
    made = profile(nn.Sequential(layer), torch.split(x, 33), "0")
    rows = torch.cat([layer(b) for b in torch.split(x, 33)]).detach().numpy().astype(np.float64)
    np.testing.assert_allclose(made.mean, rows.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(made.variance, rows.var(axis=0), rtol=1e-6)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x, y: [x[:7], x[7:]],
        lambda x, y: [(x[:7], y[:7]), (x[7:], y[7:])],
        lambda x, y: [[x[:7], y[:7], "weights"], [x[7:], y[7:], "weights"]],
        lambda x, y: [{"label": y, "image": x}],
        lambda x, y: [{"x": x, "input": "not this"}],
        lambda x, y: DataLoader(TensorDataset(x, y), batch_size=6),
        lambda x, y: DataLoader(TensorDataset(x, y), batch_size=6, shuffle=True),
        TensorDataset,
        lambda x, y: (batch for batch in torch.split(x, 3)),
        lambda x, y: x.numpy(),
        lambda x, y: x.numpy().astype(np.float64),
        lambda x, y: x.double(),
        lambda x, y: [(x.double(), y)],
        lambda x, y: [(x.numpy(), y.numpy())],
    ],
)
def test_data_may_come_in_any_usual_form(net, wrap):
    x = images()
    assert_profile_of(profile(net, wrap(x, torch.arange(20)), "fc1"), activations(net, x))


def test_parts_of_the_data_profiled_apart_merge_to_the_whole(net):
    x = images()
    first, second = moments(net, x[:7], "fc1"), moments(net, x[7:], "fc1")
    first.merge(second)
    assert first.to_profile(3) == profile(net, x, "fc1", version=3)


def test_integer_inputs_stay_integers():
    model = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(12, 3), nn.Linear(3, 2))
    assert profile(model, np.arange(30).reshape(10, 3) % 9).q == 3


def test_packed_sequences_are_one_batch():
    model = nn.LSTM(4, 6)
    sequences = [torch.ones(n, 4) * n for n in (5, 3, 1)]
    made = profile(model, [pack_sequence(sequences)], "")
    assert_profile_of(made, np.array([[model(s)[1][0].sum().item()] for s in sequences]))


def test_a_double_precision_model():
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(inplace=True), nn.Linear(5, 2)).double()
    x = stream(0, "double").standard_normal((9, 3))
    assert_profile_of(profile(model, x), model[0](torch.from_numpy(x)).detach().numpy())


def test_fuse_replaces_the_rule(net):
    made = profile(net, images(), "conv", fuse=lambda output: output.amax(dim=(2, 3)))
    with torch.no_grad():
        assert_profile_of(made, net.conv(images()).amax(dim=(2, 3)).double().numpy())


def test_the_model_may_itself_be_the_layer(net):
    assert profile(net, images(), "").q == 2


def test_nothing_of_the_model_changes(net):
    net.train()
    net.drop.eval()
    for parameter in net.fc1.parameters():
        parameter.requires_grad_(False)
    state = {name: value.clone() for name, value in net.state_dict().items()}
    buffers = dict(net.named_buffers())
    modes = [m.training for m in net.modules()]
    fired = []
    net.fc1.register_forward_hook(lambda *_: fired.append(1))
    hooks = list(net.fc1._forward_hooks)
    profile(net, images(), "fc1")
    assert all(torch.equal(value, net.state_dict()[name]) for name, value in state.items())
    assert all(value is buffers[name] for name, value in net.named_buffers())
    assert [m.training for m in net.modules()] == modes
    assert list(net.fc1._forward_hooks) == hooks
    assert fired == [1]
    assert all(p.grad is None for p in net.parameters())
    assert [p.requires_grad for p in net.parameters()].count(False) == 2


def test_nothing_changes_when_it_fails_either(net):
    net.train()
    state = torch.random.get_rng_state()
    with pytest.raises(LayerError):
        profile(net, images(), "twice")
    assert all(m.training for m in net.modules())
    assert not net.twice._forward_hooks
    assert net.calls == 0
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_buffer_that_the_forward_pass_replaces_is_put_back():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x):
            self.seen = self.seen + len(x)
            return self.fc(x)

    model = Counting()
    before = model.seen
    profile(model, torch.ones(3, 2), "fc")
    assert model.seen is before
    assert model.seen == 0


def test_a_buffer_that_is_made_on_the_way_is_gone_again():
    class Lazy(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)
            self.register_buffer("cache", None)

        def forward(self, x):
            self.cache = torch.ones(3)
            self.register_buffer("late", torch.ones(1))
            return self.fc(x)

    model = Lazy()
    before = list(model.state_dict())
    profile(model, torch.ones(3, 2), "fc")
    assert list(model.state_dict()) == before
    assert model.cache is None


def test_an_autograd_graph_in_flight_stays_usable(net):
    net.eval()
    loss = net(images()).square().sum()
    net.calls.zero_()
    profile(net, images(), "fc1")
    loss.backward()
    assert net.fc1.weight.grad is not None


def test_no_random_state_advances(net):
    data = TensorDataset(images())
    own = torch.Generator().manual_seed(5)
    before = torch.random.get_rng_state(), own.get_state()
    profile(net, DataLoader(data, batch_size=4, shuffle=True), "fc1")
    profile(net, DataLoader(data, batch_size=4, shuffle=True, generator=own), "fc1")
    profile(net, DataLoader(data, batch_sampler=BatchSampler(RandomSampler(data, generator=own), 4, False)), "fc1")
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert torch.equal(own.get_state(), before[1])


def test_gradients_are_not_recorded(net):
    seen = []
    net.fc2.register_forward_hook(lambda _m, _i, output: seen.append(output.requires_grad))
    profile(net, images(), "fc1")
    assert seen == [False]
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(
    ("layer", "says"),
    [
        ("fcl", "Net has no layer 'fcl'; did you mean 'fc"),
        ("something else entirely", "has no layer"),
        (0, "layer is 0; it must be the name of a module, such as 'fc"),
        ("idle", "'idle' exists but never ran for batch 0"),
        ("twice", "'twice' ran twice"),
    ],
)
def test_a_layer_that_cannot_be_profiled_is_named(net, layer, says):
    with pytest.raises(LayerError, match=says):
        profile(net, images(), layer)


def test_an_output_that_is_no_tensor_needs_fuse():
    model = nn.Sequential(nn.MultiheadAttention(4, 1))
    model.forward = lambda x: model[0](x, x, x)
    x = torch.ones(3, 5, 4)
    with pytest.raises(LayerError, match=r"'0' \(MultiheadAttention\) cannot be profiled: it returns a tuple.*fuse="):
        profile(model, x, "0")
    assert profile(model, x, "0", fuse=lambda output: output[0].sum(1)).q == 4


def test_images_without_a_batch_dimension_are_not_taken_for_profiles_of_rows():
    with pytest.raises(LayerError, match="output has shape"):
        profile(nn.Conv2d(1, 4, 3), list(torch.ones(5, 1, 8, 8)), "")


def test_fuse_must_return_rows(net):
    with pytest.raises(LayerError, match=r"not shape \(20, 4, 4, 4\)"):
        profile(net, images(), "conv", fuse=lambda output: output)
    with pytest.raises(LayerError, match="not float"):
        profile(net, images(), "conv", fuse=lambda output: 1.0)


@pytest.mark.parametrize("data", [[], torch.empty(0, 1, 6, 6), np.empty((0, 1, 6, 6), np.float32)])
def test_no_samples_is_an_error(net, data):
    with pytest.raises(LayerError, match="no samples"):
        profile(net, data, "fc1")


def test_batches_without_a_usable_input_are_errors(net):
    with pytest.raises(DataError, match=r"keys \['label', 'picture'\]"):
        profile(net, [{"picture": images(), "label": 1}], "fc1")
    with pytest.raises(DataError, match="cannot profile a int; give a tensor, an array"):
        profile(net, 5)
    with pytest.raises(DataError, match="empty sequence"):
        profile(net, [()], "fc1")


def test_a_diverged_model_is_an_error(net):
    net.fc1.bias.data[2] = float("nan")
    with pytest.raises(ProfileError, match=r"mean\[2\] is nan.*diverged"):
        profile(net, images(), "fc1")


def test_every_error_is_the_library_s():
    assert issubclass(LayerError, FedProfError)
    assert issubclass(DataError, FedProfError)


def attention():
    return nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16), nn.Linear(8, 2))


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 4), nn.Linear(4, 2)), "0"),
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 4), nn.Linear(4, 2)), "2"),
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.Conv2d(2, 2, 3), nn.Flatten(), nn.Linear(8, 2)), "1"),
        (nn.ModuleDict({"lstm": nn.LSTM(3, 4), "head": nn.Linear(4, 2)}), "lstm"),
        (nn.Sequential(nn.Linear(3, 2)), "0"),
        (nn.Linear(3, 2), ""),
        (attention(), "0.linear1"),
    ],
)
def test_the_default_layer(model, expected):
    assert default_layer(model) == expected


def test_a_model_without_a_usual_layer_asks_for_a_name():
    with pytest.raises(LayerError, match="Flatten has no dense, convolutional or recurrent layer"):
        default_layer(nn.Flatten())


def test_profiles_travel(net):
    made = profile(net, images(), "fc1", version=2)
    assert Profile.from_bytes(made.to_bytes()) == made
    assert len(made.to_bytes()) == 8 * 8 + 32


def test_batches_are_let_go_as_it_goes(net):
    alive = []

    def batches():
        for _ in range(6):
            batch = images()
            alive.append(weakref.ref(batch))
            yield batch
            assert sum(ref() is not None for ref in alive) <= 2

    assert profile(net, batches(), "fc1").count == 120
